"""The canonical and the normal text, byte for byte as Confluent 8.x prints them."""

from __future__ import annotations

import re

import pytest

from registry.domain.schemas import InvalidSchema
from registry.domain.schemas.protobuf.option_text import normal
from tests.unit.schemas.protobuf import parse


def lines(*texts):
    return "".join(f"{text}\n" for text in texts)


def test_messages_come_first_and_blanks_are_regular():
    assert parse(
        'syntax="proto3"; package p; message A { string s=1; B b=2; } message B {}'
    ).canonical == lines(
        'syntax = "proto3";',
        "package p;",
        "",
        "message A {",
        "  string s = 1;",
        "  B b = 2;",
        "}",
        "message B {}",
    )
    assert parse('syntax="proto3"; enum E { A=0; } message M {}').canonical == lines(
        'syntax = "proto3";', "", "message M {}", "enum E {", "  A = 0;", "}"
    )


def test_syntax_and_package_are_printed_where_they_are():
    assert parse("message M {}").canonical == "\nmessage M {}\n"
    assert parse("package a.b; message M {}").canonical == "package a.b;\n\nmessage M {}\n"
    assert parse('syntax = "proto2"; message M {}').canonical == 'syntax = "proto2";\n\nmessage M {}\n'
    assert parse('syntax = "proto2"; message M {}').normalized == "\nmessage M {}\n"


def test_imports_are_public_ones_last_and_sorted_where_normal():
    text = """import public "z.proto"; import "b.proto";
    import weak "w.proto"; import "a.proto"; import "b.proto";"""

    assert parse(text).canonical == lines(
        "", 'import "b.proto";', 'import "a.proto";', 'import "b.proto";', 'import public "z.proto";'
    )
    assert parse(text).normalized == lines(
        "", 'import "a.proto";', 'import "b.proto";', 'import public "z.proto";'
    )


def test_comments_are_dropped():
    text = """// first
    syntax = "proto3"; /* of
    * many */ message /* x */ M { // y
    string s = 1; // z
    } // end"""

    assert parse(text).canonical == 'syntax = "proto3";\n\nmessage M {\n  string s = 1;\n}\n'


EVERYTHING = """
message M {
  message N { enum F { Y = 0; } }
  enum E { reserved 5; option allow_alias = true; X = 0; reserved "Q"; Z = 0 [deprecated = true]; }
  extend Other { optional string e = 100; }
  extensions 200 to max, 150;
  optional group G = 9 { optional int32 i = 1; }
  oneof o { option (c) = 1; string b = 2; group H = 8 { optional int32 j = 1; } }
  required string a = 1;
  option deprecated = true;
  reserved 20, 30 to 40; reserved "x", "y";
}
"""


def test_members_come_by_kind_with_empty_lines_between():
    assert parse(EVERYTHING).canonical == lines(
        "",
        "message M {",
        "  reserved 20, 30 to 40;",
        '  reserved "x", "y";',
        "",
        "  option deprecated = true;",
        "",
        "  required string a = 1;",
        "",
        "  oneof o {",
        "    option (c) = 1;",
        "  ",
        "    string b = 2;",
        "  ",
        "    group H = 8 {",
        "      optional int32 j = 1;",
        "    }",
        "  }",
        "",
        "  optional group G = 9 {",
        "    optional int32 i = 1;",
        "  }",
        "",
        "  extensions 200 to max, 150;",
        "",
        "  extend Other {",
        "    optional string e = 100;",
        "  }",
        "",
        "  message N {",
        "    enum F {",
        "      Y = 0;",
        "    }",
        "  }",
        "  enum E {",
        "    reserved 5;",
        '    reserved "Q";',
        "    option allow_alias = true;",
        "    X = 0;",
        "    Z = 0 [deprecated = true];",
        "  }",
        "}",
    )


def test_an_empty_line_is_indented_with_what_is_nested():
    inner = "message C { string s = 1; oneof o { int32 i = 2; } }"
    text = parse(f'syntax = "proto3"; message A {{ message B {{ string s = 1; {inner} }} }}')

    assert text.canonical.splitlines()[2:] == [
        "message A {",
        "  message B {",
        "    string s = 1;",
        "  ",
        "    message C {",
        "      string s = 1;",
        "    ",
        "      oneof o {",
        "        int32 i = 2;",
        "      }",
        "    }",
        "  }",
        "}",
    ]


def test_fields_keep_labels_and_put_default_and_json_name_last():
    text = """
    message M {
      optional int32 a = 0x10 [default = 5, deprecated = true, json_name = "AA"];
      repeated string b = 2 [packed=false];
      optional string c = 3 [default = "it's \\"so\\""];
      optional E d = 4 [default = ONE]; optional bool e = 5 [default = true];
      map < string , M > f = 6;
    }
    """

    assert parse(text).canonical == lines(
        "",
        "message M {",
        "  optional int32 a = 16 [",
        "    deprecated = true,",
        "    default = 5,",
        '    json_name = "AA"',
        "  ];",
        "  repeated string b = 2 [packed = false];",
        '  optional string c = 3 [default = "it\\\'s \\"so\\""];',
        "  optional E d = 4 [default = ONE];",
        "  optional bool e = 5 [default = true];",
        "  map<string, M> f = 6;",
        "}",
    )


def test_values_of_options_are_laid_out():
    text = """
    option java_package = 'x' "y\\n";
    option (a).b = 1.50;
    option (m) = { s: "t" n: -1, l: [1, "2", TRUE], inner { k: v } ; [x.y]: {} };
    option (l) = [1]; option (ll) = [1, 2];
    """

    assert parse(text).canonical == lines(
        "",
        'option java_package = "xy\\n";',
        "option (a).b = 1.50;",
        "option (m) = {",
        '  s: "t",',
        "  n: -1,",
        "  l: [",
        "    1,",
        '    "2",',
        "    TRUE",
        "  ],",
        "  inner: {",
        "    k: v",
        "  },",
        "  [x.y]: {",
        "  }",
        "};",
        "option (l) = [1];",
        "option (ll) = [",
        "  1,",
        "  2",
        "];",
    )


def test_members_of_one_name_become_a_list():
    assert parse("option (m) = { a: 1 a: 2 b: [3] b: 4 };").canonical == lines(
        "", "option (m) = {", "  a: [", "    1,", "    2", "  ],", "  b: [", "    3,", "    4", "  ]", "};"
    )


def test_strings_keep_what_has_no_escape():
    text = parse('option (o) = "\\a\\b\\f\\n\\r\\t\\v\\\\\\\'\\"\\101\\x42é\\?";').canonical

    assert text == '\noption (o) = "\\a\\b\\f\\n\\r\\t\\v\\\\\\\'\\"ABé?";\n'


def test_services():
    text = """
    syntax = "proto3";
    service S {
      option deprecated = true;
      rpc A (stream M) returns (M) { option (x) = 1; } rpc B(M) returns(stream M);
    }
    service Empty {}
    message M {}
    """

    assert parse(text).canonical == lines(
        'syntax = "proto3";',
        "",
        "message M {}",
        "",
        "service S {",
        "  option deprecated = true;",
        "",
        "  rpc A (stream M) returns (M) {",
        "    option (x) = 1;",
        "  };",
        "  rpc B (M) returns (stream M);",
        "}",
        "service Empty {}",
    )


def test_the_normal_form_sorts_and_names_in_full():
    text = """
    syntax = "proto3"; package p.q;
    import "google/protobuf/descriptor.proto"; import "google/protobuf/any.proto";
    option java_package = "j"; option go_package = "g";
    extend google.protobuf.FieldOptions { string note = 50002; M more = 50001; }
    message M {
      reserved 30 to 30, 9; reserved "b", "a";
      Inner b = 2 [(note) = "n", deprecated = true];
      map<string, Inner> m = 3; google.protobuf.Any any = 1;
      oneof late { string z = 8; int32 y = 7; } oneof early { q.M x = 4; } oneof none { }
      message Inner { E e = 1 [(more).b.e = 1.0, (more) = { b: {} }]; }
      enum E { A = 0; C = 2; B = 1; AA = 0; }
    }
    service S { rpc R (M) returns (M.Inner); }
    """

    assert parse(text, new=True).normalized == lines(
        'syntax = "proto3";',
        "package p.q;",
        "",
        'import "google/protobuf/any.proto";',
        'import "google/protobuf/descriptor.proto";',
        "",
        'option go_package = "g";',
        'option java_package = "j";',
        "",
        "message M {",
        "  reserved 9;",
        "  reserved 30;",
        '  reserved "a";',
        '  reserved "b";',
        "",
        "  .google.protobuf.Any any = 1;",
        "  .p.q.M.Inner b = 2 [",
        "    deprecated = true,",
        '    (p.q.note) = "n"',
        "  ];",
        "  map<string, .p.q.M.Inner> m = 3;",
        "",
        "  oneof early {",
        "    .p.q.M x = 4;",
        "  }",
        "  oneof late {",
        "    int32 y = 7;",
        "    string z = 8;",
        "  }",
        "",
        "  message Inner {",
        "    .p.q.M.E e = 1 [(p.q.more) = {",
        "      b: {",
        "        e: 1",
        "      }",
        "    }];",
        "  }",
        "  enum E {",
        "    A = 0;",
        "    AA = 0;",
        "    B = 1;",
        "    C = 2;",
        "  }",
        "}",
        "",
        "extend .google.protobuf.FieldOptions {",
        "  .p.q.M more = 50001;",
        "  string note = 50002;",
        "}",
        "",
        "service S {",
        "  rpc R (.p.q.M) returns (.p.q.M.Inner);",
        "}",
    )


def test_an_option_said_in_parts_is_one_where_normal():
    text = """
    message M {
      optional string a = 1 [
        (confluent.field_meta).tags = "x", (confluent.field_meta) = { tags: ["y", "x"] doc: "d" }
      ];
    }
    """

    assert parse(text).normalized == lines(
        "",
        "message M {",
        "  optional string a = 1 [(confluent.field_meta) = {",
        '    doc: "d",',
        "    tags: [",
        '      "x",',
        '      "y"',
        "    ]",
        "  }];",
        "}",
    )


LIMITS = """
message R { optional int32 min = 1; optional int32 max = 2; optional R in = 3; repeated int32 n = 4; }
message C { optional R r = 1; repeated R rs = 2; optional int32 i = 3; map<string, R> m = 4; }
extend google.protobuf.FieldOptions { optional C c = 50000; }
message M { optional string s = 1 [%s]; }
"""


@pytest.mark.parametrize(
    ("options", "merged"),
    [
        ("(c).r.min = 1, (c).r.max = 2", "(c) = { r: { max: 2, min: 1 } }"),
        ("(c).r = {min: 1}, (c).r.max = 2", "(c) = { r: { max: 2, min: 1 } }"),
        (
            "(c).r.in.min = 1, (c).r.max = 3, (c).r.in.max = 2",
            "(c) = { r: { in: { max: 2, min: 1 }, max: 3 } }",
        ),
        ("(c).r.min = 1, (c).r.min = 2", "(c) = { r: { min: 2 } }"),
        ("(c).i = 1, (c).i = 2", "(c) = { i: 2 }"),
        ("(c).r.n = 1, (c).r.n = 2, (c).r.n = 1", "(c) = { r: { n: [ 1, 2 ] } }"),
        ("(c).rs = {min: 1}, (c).rs = {max: 2}", "(c) = { rs: [ { min: 1 }, { max: 2 } ] }"),
        ("(c).m = {key: 'a'}, (c).m = {key: 'b'}", '(c) = { m: [ { key: "a" }, { key: "b" } ] }'),
        ("(c).none = 1, (c).none = 2", "(c) = { none: [ 1, 2 ] }"),
        ("(c).r.min = 1, (c) = {i: 1}", "(c) = { i: 1, r: { min: 1 } }"),
    ],
)
def test_messages_given_in_parts_are_merged_by_their_types_where_normal(options, merged):
    text = parse(LIMITS % options).normalized
    (found,) = re.findall(r"string s = 1 \[(.*?)\];", text, re.DOTALL)
    assert " ".join(found.split()) == merged


def test_names_of_many_parts_are_taken_apart_where_normal_but_not_endless_ones():
    steps = ".".join("a" * 5_000)
    assert f"{steps}: 1" in parse(LIMITS % f"(c).{steps} = 1").normalized
    deep = "{r: " * 90 + "{min: 1}" + "}" * 90
    twice = ", ".join(f"(c){'.r' * 29} = {deep}" for _ in range(2))
    assert parse(LIMITS % twice).normalized.count("r: {") == 119


def test_maps_written_as_messages_become_maps_where_normal():
    entry = "message DEntry { option map_entry = true; string key = 1; .p.M value = 2; }"
    text = f'syntax = "proto3"; package p; message M {{ repeated .p.M.DEntry d = 1; {entry} }}'

    assert parse(text).normalized == lines(
        'syntax = "proto3";', "package p;", "", "message M {", "  map<string, .p.M> d = 1;", "}"
    )
    assert "option map_entry = true;" in parse(text).canonical


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1", "1"),
        ("-0", "0"),
        ("0x1F", "31"),
        ("010", "8"),
        ("1.50", "1.5"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("0.12345", "0.123"),
        ("-0.0001", "-0"),
        ("0.0005", "0.001"),
        ("2.5e-1", "0.25"),
        ("123456789.5", "123456792"),
        ("123456789.123456789", "123456789.123"),
        ("1e40", "1" + "0" * 40),
        ("1e400", "1" + "0" * 400),
        ("1e4000", "1e4000"),
        ("99999999999999999999", "99999999999999999999"),
        ("089", "089"),
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_numbers_are_printed_as_java_does(written, printed):
    assert normal(written) == printed


def test_custom_options_and_extensions_can_be_left_out():
    text = """
    syntax = "proto3";
    import "google/protobuf/descriptor.proto";
    option (mine) = 1; option java_package = "j";
    extend google.protobuf.FieldOptions { string mine = 50000; }
    message M {
      option (mine) = 1;
      string a = 1 [(mine) = "x", deprecated = true];
      string b = 2 [(mine) = "x"];
      string c = 3 [(confluent.field_meta).doc = "kept"];
      extensions 100 to 200;
    }
    """

    assert parse(text).text_in("IGNORE_EXTENSIONS") == lines(
        'syntax = "proto3";',
        "",
        'import "google/protobuf/descriptor.proto";',
        "",
        'option java_package = "j";',
        "",
        "message M {",
        "  string a = 1 [deprecated = true];",
        "  string b = 2;",
        '  string c = 3 [(confluent.field_meta).doc = "kept"];',
        "}",
    )


def test_an_unknown_form_is_the_canonical_text():
    schema = parse('syntax="proto3"; message M {}')

    assert schema.text_in("resolved") == schema.text_in("") == schema.canonical


def test_texts_that_differ_in_order_are_two_schemas_unless_normal():
    one = parse('syntax = "proto3"; message M { string a = 1; string b = 2; }')
    other = parse('syntax = "proto3"; message M { string b = 2; string a = 1; }')

    assert not one.equivalent(other)
    assert one.normalized == other.normalized
    assert one.equivalent(parse("/* c */" + one.canonical))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "Could not parse Protobuf - Syntax error in :1:1: unexpected label: hello"),
        ('syntax = "proto3";\nmessage M { string a = 1 }', ":2:25: expected ';' but was '}'"),
        ('syntax = "proto4";', "unexpected syntax: proto4"),
        ('edition = "2023";', "edition is not currently supported"),
        ('message M {} syntax = "proto3";', "'syntax' element must be the first declaration in a file"),
        ("message M {} message M {}", "M is already defined"),
        ("message M { int32 a = 1; }", "unexpected label: int32"),
        ('syntax = "proto3"; message M { required int32 a = 1; }', "'required' label forbidden in proto3"),
        (
            'syntax = "proto3"; message M { repeated map<string, string> a = 1; }',
            "'map' type cannot have label",
        ),
        ("message M { optional int32 a = x; }", "expected an integer but was x"),
        ("message M { optional int32 a = 2147483648; }", "expected an integer but was 2147483648"),
        ("message M { optional int32 1a = 1; }", "cannot start with a digit"),
        ("message M { optional int32 \u00e9 = 1; }", "expected a word but was '\u00e9'"),
        ("message M { reserved 1 bis 2; }", "expected ',', ';', or 'to'"),
        ("message M {", "unexpected end of file"),
        ('option a = "x', "unterminated string"),
        ('option a = "x\\"', "unterminated string"),
        ("option a = 'x\\';", "unterminated string"),
        ('option a = "\\xg";', "expected a digit"),
        ("/* x", "unterminated comment"),
        ("/", "unexpected '/'"),
        ("import x;", "expected quoted string"),
    ],
)
def test_refusals_say_where_and_why(text, message):
    with pytest.raises(InvalidSchema) as refusal:
        parse(text)

    assert message in str(refusal.value)


def test_new_schemas_name_only_types_that_there_are():
    for text in (
        "message M { optional N n = 1; }",
        "message M { map<string, N> n = 1; }",
        "service S { rpc R (N) returns (N); }",
        "extend N { optional string s = 1; }",
    ):
        parse(text)
        with pytest.raises(InvalidSchema, match="Could not resolve type: N"):
            parse(text, new=True)

    with pytest.raises(InvalidSchema, match="Empty schema"):
        parse("// nothing", new=True)


def test_names_are_found_in_the_nearest_scope():
    text = """
    syntax = "proto3"; package a.b.c;
    import "other.proto";
    message M { message N { M m = 1; N n = 2; b.Other o = 3; c.M full = 4; } }
    """
    schema = parse(text, {"other.proto": 'syntax = "proto3"; package a.b; message Other {}'}, new=True)

    assert schema.normalized.splitlines()[7:11] == [
        "    .a.b.c.M m = 1;",
        "    .a.b.c.M.N n = 2;",
        "    .a.b.Other o = 3;",
        "    .a.b.c.M full = 4;",
    ]


def test_well_known_types_need_no_reference_and_no_import():
    known = [
        "google.protobuf.Timestamp",
        "google.type.PostalAddress",
        "confluent.type.Decimal",
        "confluent.type.Variant",
    ]
    fields = " ".join(f"{name} f{at} = {at};" for at, name in enumerate(known, 1))

    assert parse(f'syntax = "proto3"; message M {{ {fields} }}', new=True).normalized.count(" .") == len(
        known
    )


def test_fields_of_the_first_message_are_the_names():
    text = """
    syntax = "proto3";
    enum E { A = 0; } message M { string a = 1; oneof o { string b = 2; } } message N { string c = 1; }
    """

    assert parse(text).field_names() == {"a", "b"}
    assert parse("enum E { A = 0; }").field_names() == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; message M { string a = 1; string b = 1; }',
        'syntax = "proto3"; message M { string a = 1; string a = 2; }',
        'syntax = "proto3"; message M { string a = 0; }',
        'syntax = "proto3"; message a-b { }',
    ],
)
def test_what_java_descriptors_refuse_is_refused_where_fields_are_checked(text):
    schema = parse(text, new=True)

    with pytest.raises(InvalidSchema):
        schema.check_fields()


def test_fields_are_checked_with_references():
    used = 'syntax = "proto3"; package n; message N { google.protobuf.Any a = 1; }'
    text = 'syntax = "proto3"; import "n.proto"; message M { n.N n = 1; }'

    parse(text, {"n.proto": used}, new=True).check_fields()
