"""Protobuf schemas through the resources."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.api.driver import Api, Requests

SENT = """syntax="proto3"; package p; /* a user */
message User { string name=1; repeated Role roles=2; enum Role { NONE=0; } }"""
USER = """syntax = "proto3";
package p;

message User {
  string name = 1;
  repeated Role roles = 2;

  enum Role {
    NONE = 0;
  }
}
"""
AGED = USER.replace("roles = 2;\n", "roles = 2;\n  int32 age = 3;\n")
RETYPED = USER.replace("string name", "double name")
ADDRESS = 'syntax = "proto3";\npackage a;\n\nmessage Address {\n  string street = 1;\n}\n'
PERSON = """syntax = "proto3";
package p;

import "a/address.proto";
import "google/protobuf/timestamp.proto";

message Person {
  a.Address home = 1;
  google.protobuf.Timestamp born = 2;
}
"""
USED = [{"name": "a/address.proto", "subject": "address", "version": 1}]


PROTOBUF = Requests("PROTOBUF")
body, register, check = PROTOBUF.body, PROTOBUF.register, PROTOBUF.check


def test_what_is_registered_is_read_everywhere(api: Api) -> None:
    placed = register(api, "s", SENT)

    assert (placed["id"], placed["version"], placed["schemaType"]) == (1, 1, "PROTOBUF")
    assert placed["schema"] == USER
    for target in ("/schemas/ids/1", "/subjects/s/versions/1", "/subjects/s/versions/latest"):
        found = api.get(target).json
        assert (found["schema"], found["schemaType"]) == (USER, "PROTOBUF")
    for target in ("/schemas/ids/1/schema", "/subjects/s/versions/1/schema"):
        assert api.get(target).body.decode() == USER
    assert api.get(f"/schemas/guids/{placed['guid']}").json["schema"] == USER
    assert [each["schemaType"] for each in api.get("/schemas").json] == ["PROTOBUF"]
    assert "PROTOBUF" in api.get("/schemas/types").json


def test_the_same_again_is_the_same(api: Api) -> None:
    first = register(api, "s", SENT)
    submitted = len(api.backend.submitted)

    assert register(api, "s", SENT) == first
    assert register(api, "s", USER) == first
    assert len(api.backend.submitted) == submitted
    assert register(api, "t", SENT)["id"] == first["id"]
    assert api.post("/subjects/s", body(SENT.replace("/* a user */", "// x\n"))).json["version"] == 1


def test_the_order_of_fields_counts_unless_normalized(api: Api) -> None:
    other = 'syntax = "proto3"; message M { string b = 2; string a = 1; }'
    register(api, "s", 'syntax = "proto3"; message M { string a = 1; string b = 2; }')

    assert api.post("/subjects/s", body(other)).error[:2] == (404, 40403)
    assert api.post("/subjects/s?normalize=true", body(other)).json["version"] == 1


def test_the_normal_form_is_stored_where_it_is_wanted(api: Api) -> None:
    api.put("/config/s", {"normalize": True})

    assert register(api, "s", SENT)["schema"] == USER.replace("repeated Role", "repeated .p.User.Role")
    assert register(api, "s", USER)["version"] == 1


def test_descriptors_are_taken_and_given(api: Api) -> None:
    register(api, "s", SENT)
    descriptor = api.get("/schemas/ids/1?format=serialized").json["schema"]
    proto = FileDescriptorProto.FromString(base64.b64decode(descriptor))

    assert [field.name for field in proto.message_type[0].field] == ["name", "roles"]
    assert api.get("/subjects/s/versions/1?format=Serialized").json["schema"] == descriptor
    assert register(api, "d", descriptor)["schema"] == USER.replace("repeated Role", "repeated .p.User.Role")
    assert api.post("/subjects/s?normalize=true", body(descriptor)).error[:2] == (404, 40403)
    register(api, "n", USER.replace("repeated Role", "repeated .p.User.Role"))
    assert api.post("/subjects/n?normalize=true", body(descriptor)).json["version"] == 1


def test_extensions_can_be_left_out(api: Api) -> None:
    register(api, "s", 'syntax = "proto3"; message M { string a = 1 [(x.y) = 1]; }')

    assert "(x.y)" in api.get("/schemas/ids/1").json["schema"]
    assert "(x.y)" not in api.get("/schemas/ids/1?format=ignore_extensions").json["schema"]
    assert "(x.y)" in api.get("/schemas/ids/1?format=resolved").json["schema"]


def test_references_are_imports(api: Api) -> None:
    register(api, "address", ADDRESS)

    placed = register(api, "person", PERSON, references=USED)

    assert (placed["schema"], placed["references"]) == (PERSON, USED)
    assert api.get("/subjects/address/versions/1/referencedby").json == [placed["id"]]
    assert register(api, "person", PERSON, references=[{**USED[0], "version": -1}]) == placed
    assert api.delete("/subjects/address/versions/1").error[:2] == (422, 42206)
    proto = FileDescriptorProto.FromString(
        base64.b64decode(api.get(f"/schemas/ids/{placed['id']}?format=serialized").json["schema"])
    )
    assert list(proto.dependency) == ["a/address.proto", "google/protobuf/timestamp.proto"]
    assert proto.message_type[0].field[0].type_name == ".a.Address"


def test_references_of_references_are_seen(api: Api) -> None:
    register(api, "address", ADDRESS)
    register(api, "person", PERSON, references=USED)
    members = "repeated p.Person members = 1; a.Address at = 2;"
    text = f'syntax = "proto3"; import "person.proto"; message Team {{ {members} }}'

    placed = register(
        api, "team", text, references=[{"name": "person.proto", "subject": "person", "version": 1}]
    )

    assert placed["version"] == 1


def test_what_is_not_declared_is_refused(api: Api) -> None:
    status, code, message = api.post("/subjects/s/versions", body(PERSON)).error
    assert (status, code) == (422, 42201)
    assert message.endswith(", details: Could not resolve type: a.Address")

    status, code, message = api.post("/subjects/s/versions", body("message M { int32 a = 1; }")).error
    assert (status, code) == (422, 42201)
    assert message.endswith("Could not parse Protobuf - Syntax error in :1:12: unexpected label: int32")

    register(api, "avro", "{}", schemaType="JSON")
    wrong = [{"name": "a/address.proto", "subject": "avro", "version": 1}]
    assert api.post("/subjects/s/versions", body(PERSON, references=wrong)).error[:2] == (422, 42201)
    assert api.post("/subjects/s?normalize=true", body(PERSON)).error[:2] == (422, 42201)
    assert api.post("/subjects/s/versions", body("// nothing")).error[:2] == (422, 42201)


def test_imports_take_what_new_schemas_may_not_be(api: Api) -> None:
    api.put("/mode", {"mode": "IMPORT"})

    placed = register(api, "s", PERSON, id=7, version=3)

    assert (placed["id"], placed["version"], placed["schema"]) == (7, 3, PERSON)
    assert api.get("/schemas/ids/7").json["schema"] == PERSON
    serialized = api.get("/schemas/ids/7?format=serialized").json["schema"]
    assert FileDescriptorProto.FromString(base64.b64decode(serialized)).message_type[0].name == "Person"


@pytest.mark.parametrize("level", ["BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FULL_TRANSITIVE"])
def test_checks_and_registrations_agree(api: Api, level: str) -> None:
    api.put("/config/s", {"compatibility": level})
    register(api, "s", USER)

    assert check(api, "s", AGED) == []
    register(api, "s", AGED)
    found = check(api, "s", RETYPED)
    status, code, message = api.post("/subjects/s/versions", body(RETYPED)).error

    assert (status, code) == (409, 40901)
    assert message.endswith(f"details: [{', '.join(found)}]")
    assert "FIELD_SCALAR_KIND_CHANGED" in found[0]
    assert found[-3:] == [
        "{oldSchemaVersion: 2}",
        f"{{oldSchema: '{AGED}'}}",
        f"{{validateFields: 'false', compatibility: '{level}'}}",
    ]


def test_both_directions_are_reported_old_reader_first(api: Api) -> None:
    api.put("/config/s", {"compatibility": "FULL"})
    register(api, "s", USER)

    first, second, *_ = check(api, "s", RETYPED)

    assert "in the old schema does not match its kind in the new schema" in first
    assert "in the new schema does not match its kind in the old schema" in second


def test_messages_of_references_are_compared(api: Api) -> None:
    register(api, "address", ADDRESS)
    register(api, "person", PERSON, references=USED)
    api.put("/config/address", {"compatibility": "NONE"})
    register(api, "address", ADDRESS.replace("string street", "int32 street"))

    found = check(api, "person", PERSON, references=[{**USED[0], "version": 2}])

    assert [each.split('"')[1] for each in found[:2]] == [
        "FIELD_SCALAR_KIND_CHANGED",
        "FIELD_NAMED_TYPE_CHANGED",
    ]
    assert "'#/Address/1'" in found[0]
    assert "'#/Person/1'" in found[1]


def test_other_types_do_not_follow(api: Api) -> None:
    register(api, "s", USER)

    assert (
        check(api, "s", '"string"', schemaType="AVRO")[0] == "Incompatible because of different schema type"
    )


def test_fields_are_checked_where_that_is_wanted(api: Api) -> None:
    twice = 'syntax = "proto3"; message M { string a = 1; string b = 1; }'
    register(api, "s", twice)
    api.put("/config/t", {"validateFields": True, "compatibility": "NONE"})

    status, code, message = api.post("/subjects/t/versions", body(twice)).error
    assert (status, code) == (422, 42201)
    assert message.endswith('M.b: Field number 1 has already been used in "M" by field "a".')
    reserved = {"properties": {"confluent:reserved": "name"}}
    assert api.post("/subjects/t/versions", body(USER, metadata=reserved)).error[:2] == (409, 40901)
    register(api, "t", AGED.replace("string name", "string title"), metadata=reserved)


def test_large_files_are_served_too(api: Api) -> None:
    fields = " ".join(f"string field_number_{at} = {at};" for at in range(1, 3000))

    register(api, "s", f'syntax = "proto3"; message M {{ {fields} }}')

    assert check(api, "s", f'syntax = "proto3"; message M {{ {fields} string more = 3000; }}') == []
    assert api.get("/schemas/ids/1").json["schema"].count("\n") > 3000
