"""Descriptors from clients, and those made here, compared with the ones that protobuf's compiler makes."""

from __future__ import annotations

import base64
from pathlib import Path

import google.type
import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from registry.domain.schemas import InvalidSchema
from registry.domain.schemas.protobuf.meta import DECIMAL, META, VARIANT
from tests.unit.schemas.protobuf import parse

GOOGLE = [Path(grpc_tools.__file__).parent / "_proto", Path(next(iter(google.type.__path__))).parents[1]]
CONFLUENT = {
    "confluent/meta.proto": META,
    "confluent/type/decimal.proto": DECIMAL,
    "confluent/type/variant.proto": VARIANT,
}
FILES = sorted(
    path.relative_to(folder).as_posix()
    for folder, pattern in zip(GOOGLE, ("google/protobuf/*.proto", "google/[a-z]*/*.proto"), strict=True)
    for path in folder.glob(pattern)
    if "edition =" not in path.read_text()
)
MINE = """
syntax = "proto3";
package my.app;
import "confluent/meta.proto";
import "google/protobuf/timestamp.proto";
import public "google/protobuf/descriptor.proto";
option java_package = "x";
option optimize_for = CODE_SIZE;
option (confluent.file_meta) = { doc: "line\\none" };
extend google.protobuf.MessageOptions { repeated string note = 50001; Note more = 50002; }
message Note { string text = 1; Level level = 2; repeated int32 list = 3; bytes raw = 4; double real = 5; }
enum Level { option allow_alias = true; LOW = 0; NONE = 0; HIGH = 5; reserved 7, 9 to 11; reserved "GONE"; }
message A {
  option (note) = "one";
  option (note) = "two é";
  option (more) = { text: "t" level: HIGH list: [1, 2] list: 3 raw: "\\x01\\177" real: -1.5e3 };
  string s = 1 [(confluent.field_meta).tags = "PII", (confluent.field_meta).params = {key: "k" value: "v"}];
  optional int32 maybe = 2;
  map<string, B> some_map = 3;
  oneof one { int32 x = 4 [deprecated = true]; B y = 5; }
  optional Level level = 6;
  repeated int64 packed = 7 [packed = false, jstype = JS_STRING];
  google.protobuf.Timestamp at = 8;
  message Inner { string s = 1 [json_name = "other"]; }
  reserved 20, 30 to 40, 100 to max;
  reserved "old";
}
message B { A.Inner inner = 1; .my.app.B next = 2; }
service S {
  option deprecated = true;
  rpc R (stream A) returns (my.app.B) { option idempotency_level = IDEMPOTENT; }
}
"""
OLD = """
package my;
message M {
  required string s = 1 [default = "it's\\n\\"so\\""];
  optional bytes raw = 2 [default = "\\001\\377ok"];
  optional int32 i = 3 [default = 0x10];
  optional double d = 4 [default = 1.50];
  optional float f = 5 [default = -inf];
  optional bool b = 6 [default = true];
  optional E e = 7 [default = TWO];
  repeated group G = 8 { optional string s = 1; }
  oneof o { string t = 9; group H = 10 { optional M m = 1; } }
  extensions 100 to 199, 500, 1000 to max;
  extend M { optional string inside = 150; }
  enum E { ONE = 1; TWO = 2; }
}
extend M { optional M.E outside = 151 [default = ONE]; }
"""


def compiled(folder, texts):
    """Return descriptors by path, made by the compiler."""
    for path, text in (CONFLUENT | texts).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    out = folder / "out"
    roots = [f"-I{each}" for each in (folder, *GOOGLE)]
    assert protoc.main(["protoc", *roots, f"--descriptor_set_out={out}", "--include_imports", *texts]) == 0
    return {each.name: each for each in FileDescriptorSet.FromString(out.read_bytes()).file}


@pytest.fixture(scope="module")
def google_descriptors(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("protos"), {path: google_text(path) for path in FILES})


def google_text(path):
    return next((folder / path).read_text() for folder in GOOGLE if (folder / path).exists())


def references(path, descriptors, found):
    for each in descriptors[path].dependency:
        if each not in found:
            references(each, descriptors, found)
            found[each] = google_text(each)
    return found


def ordered(message: DescriptorProto) -> None:
    """The order of fields and nested messages, and redundant JSON names, do not count."""
    for field in (*message.field, *message.extension):
        first, *rest = field.name.split("_")
        if field.json_name == first + "".join(part[:1].upper() + part[1:] for part in rest):
            field.ClearField("json_name")
    message.field.sort(key=lambda each: each.number)
    message.nested_type.sort(key=lambda each: each.name)
    for nested in message.nested_type:
        ordered(nested)


def comparable(proto: FileDescriptorProto) -> FileDescriptorProto:
    copy = FileDescriptorProto.FromString(proto.SerializeToString())
    copy.ClearField("name")
    for extension in copy.extension:
        extension.ClearField("json_name")
    for message in copy.message_type:
        ordered(message)
    for service in copy.service:
        for method in service.method:
            if not method.options.ByteSize():
                method.ClearField("options")
    return copy


def serialized(schema):
    return FileDescriptorProto.FromString(base64.b64decode(schema.text_in("serialized")))


@pytest.mark.parametrize("path", FILES)
def test_googles_files_have_the_compilers_descriptors(path, google_descriptors):
    text, used = google_text(path), references(path, google_descriptors, {})
    schema = parse(text, used, new=True)

    assert comparable(serialized(schema)) == comparable(google_descriptors[path])
    assert parse(schema.canonical, used).canonical == schema.canonical
    assert parse(schema.normalized, used).normalized == schema.normalized


@pytest.mark.parametrize("text", [MINE, OLD], ids=["proto3", "proto2"])
def test_all_that_can_be_said_has_the_compilers_descriptor(text, tmp_path):
    theirs = compiled(tmp_path, {"mine.proto": text})["mine.proto"]
    schema = parse(text, new=True)

    assert comparable(serialized(schema)) == comparable(theirs)
    assert comparable(serialized(parse(schema.canonical))) == comparable(theirs)
    schema.check_fields()


def test_the_descriptor_is_called_as_confluent_calls_it():
    assert serialized(parse("message M {}")).name == "default"


def test_what_is_used_without_an_import_is_imported():
    text = 'syntax = "proto3"; message M { google.type.Money a = 1; n.N n = 2; }'
    schema = parse(text, {"n.proto": 'syntax = "proto3"; package n; message N {}'})

    assert list(serialized(schema).dependency) == ["google/type/money.proto", "n.proto"]


def test_imports_that_are_not_there_are_left_out():
    text = (
        'syntax = "proto3"; import "gone.proto"; option (gone.option) = { a: 1 }; message M { string s = 1; }'
    )
    proto = serialized(parse(text, new=True))

    assert list(proto.dependency) == []
    assert proto.options.uninterpreted_option[0].name[0].name_part == "gone.option"


def encoded(proto):
    return base64.b64encode(proto.SerializeToString()).decode()


def test_a_descriptor_is_printed_with_full_names_and_entries_of_maps(tmp_path):
    theirs = compiled(tmp_path, {"mine.proto": MINE})["mine.proto"]
    ordered(theirs.message_type[1])

    # {} keeps the blanks of an indented empty line.
    printed = """
message A {
  reserved 20;
  reserved 30 to 40;
  reserved 100 to max;
  reserved "old";

  string s = 1 [(confluent.field_meta) = {
    params: [
      {
        key: "k",
        value: "v"
      }
    ],
    tags: [
      "PII"
    ]
  }];
  optional int32 maybe = 2;
  repeated .my.app.A.SomeMapEntry some_map = 3;
  optional .my.app.Level level = 6;
  repeated int64 packed = 7 [
    packed = false,
    jstype = JS_STRING
  ];
  .google.protobuf.Timestamp at = 8;

  oneof one {
    int32 x = 4 [deprecated = true];
    .my.app.B y = 5;
  }

  message Inner {
    string s = 1 [json_name = "other"];
  }
  message SomeMapEntry {
    option map_entry = true;
  {}
    string key = 1;
    .my.app.B value = 2;
  }
}
""".replace("{}", "")

    assert printed in parse(encoded(theirs), new=True).canonical


def test_text_and_descriptor_are_one_schema_where_normal(tmp_path):
    text = 'syntax = "proto3"; package p; message A { B b = 1; map<int32, B> m = 2; oneof o { E e = 3; } }'
    text += " message B { message C {} repeated C c = 1; } enum E { Z = 0; }"
    theirs = compiled(tmp_path, {"mine.proto": text})["mine.proto"]
    for message in theirs.message_type:
        ordered(message)

    assert parse(encoded(theirs), new=True).normalized == parse(text).normalized


def test_only_descriptors_that_can_be_printed_are_schemas():
    for proto in (
        FileDescriptorProto(syntax="editions"),
        FileDescriptorProto(message_type=[DescriptorProto(name="M } message N")]),
        FileDescriptorProto(message_type=[DescriptorProto(name="")]),
    ):
        with pytest.raises(InvalidSchema):
            parse(encoded(proto))
    with pytest.raises(InvalidSchema, match="not UTF-8"):
        parse(base64.b64encode(b"\x0a\x01\xff").decode())
    with pytest.raises(InvalidSchema, match="unexpected label: notbase64"):
        parse("notbase64")


@pytest.mark.parametrize("name", ["x = 1; } message Evil { string y", "x y", "1x", "x;", "x\ny", "é", "x//"])
@pytest.mark.parametrize(
    "place", ["message", "field", "type", "oneof", "enum", "constant", "service", "rpc", "input", "package"]
)
def test_a_name_in_a_descriptor_is_one_word(place, name):
    file = FileDescriptorProto(package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    field = message.field.add(name="f", number=1, type=11, label=1, type_name=".p.M", oneof_index=0)
    message.oneof_decl.add(name="o")
    enum = file.enum_type.add(name="E")
    service = file.service.add(name="S")
    rpc = service.method.add(name="R", input_type=".p.M", output_type=".p.M")
    places = {
        "message": (message, "name"),
        "field": (field, "name"),
        "type": (field, "type_name"),
        "oneof": (message.oneof_decl[0], "name"),
        "enum": (enum, "name"),
        "constant": (enum.value.add(name="C", number=0), "name"),
        "service": (service, "name"),
        "rpc": (rpc, "name"),
        "input": (rpc, "input_type"),
        "package": (file, "package"),
    }
    parse(base64.b64encode(file.SerializeToString()).decode())

    setattr(*places[place], name)

    with pytest.raises(InvalidSchema):
        parse(base64.b64encode(file.SerializeToString()).decode())
