"""Tags in schemas: found, added, removed and inherited, for all formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.driver import Api

AVRO = '{"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":"string"}]}'
JSON = '{"type":"object","properties":{"f":{"type":"string"}}}'
PROTO = 'syntax = "proto3";\npackage a;\n\nmessage M {\n  string f = 1;\n}\n'


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as api:
        yield api


def tags(path: str, *names: str) -> dict[str, Any]:
    kind = "sr_field" if path.endswith((".f", ".zip")) else "sr_record"
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(names)}


def put(api: Api, subject: str, schema: str, kind: str = "AVRO", **members: Any) -> Any:
    reply = api.post(f"/subjects/{subject}/versions", {"schema": schema, "schemaType": kind, **members})
    assert reply.status == 200, reply.body
    return reply.json


def tag(api: Api, subject: str, version: str = "latest", **members: Any) -> Any:
    return api.post(f"/subjects/{subject}/versions/{version}/tags", members)


def found(api: Api, subject: str, wanted: str = "*", version: str = "latest") -> Any:
    return api.get(f"/subjects/{subject}/versions/{version}?findTags={wanted}").json.get("schemaTags", [])


CASES = [
    (
        "AVRO",
        AVRO,
        "a.R",
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":"string",'
        '"confluent:tags":["PII","X"]}],"confluent:tags":["ONE"]}',
    ),
    (
        "JSON",
        JSON,
        "object",
        '{"type":"object","properties":{"f":{"type":"string","confluent:tags":["PII","X"]}},'
        '"confluent:tags":["ONE"]}',
    ),
    (
        "PROTOBUF",
        PROTO,
        "M",
        'syntax = "proto3";\npackage a;\n\nmessage M {\n  option (confluent.message_meta) = {\n    tags: [\n'
        '      "ONE"\n    ]\n  };\n\n  string f = 1 [(confluent.field_meta) = {\n    tags: [\n'
        '      "PII",\n      "X"\n    ]\n  }];\n}\n',
    ),
]


@pytest.mark.parametrize(("kind", "schema", "record", "tagged"), CASES, ids=lambda each: str(each)[:8])
def test_tags_come_and_go(api: Api, kind: str, schema: str, record: str, tagged: str) -> None:
    put(api, "s", schema, kind)
    field = f"{record}.f"
    reply = tag(api, "s", tagsToAdd=[tags(f".{field}", "PII", "X"), tags(record, "ONE")])
    assert (reply.json["version"], reply.json["schema"]) == (2, tagged)
    assert reply.json["metadata"] == {"properties": {"confluent:version": "2"}}
    in_order = [tags(record, "ONE"), tags(field, "PII", "X")]
    assert found(api, "s") == in_order
    assert found(api, "s", "PII") == [tags(field, "PII", "X")]
    assert found(api, "s", "ONE&findTags=X") == in_order
    assert found(api, "s", "none") == []
    assert "schemaTags" not in api.get("/subjects/s/versions/2").json
    by_id = api.get(f"/schemas/ids/{reply.json['id']}?findTags=*").json
    assert by_id["schemaTags"] == in_order
    reply = tag(api, "s", newVersion=3, tagsToRemove=[tags(field, "PII"), tags(record, "ONE", "TWO")])
    assert reply.json["version"] == 3
    assert found(api, "s") == [tags(field, "X")]
    assert tag(api, "s", tagsToRemove=[tags(field, "X")]).json["schema"] == schema
    assert found(api, "s") == []


@pytest.mark.parametrize(("kind", "schema", "record", "tagged"), CASES, ids=lambda each: str(each)[:8])
def test_a_registration_changes_tags_of_what_it_sends(
    api: Api, kind: str, schema: str, record: str, tagged: str
) -> None:
    first = put(api, "s", schema, kind)
    sent = put(api, "s", schema, kind, schemaTagsToAdd=[tags(f"{record}.f", "PII", "X"), tags(record, "ONE")])
    assert (sent["version"], sent["schema"]) == (2, tagged)
    assert sent["metadata"]["properties"]["confluent:version"] == "2"
    assert sent["guid"] != first["guid"]
    kept = put(api, "s", schema, kind, propagateSchemaTags=True, schemaTagsToRemove=[tags(record, "ONE")])
    assert kept["version"] == 3
    assert found(api, "s") == [tags(f"{record}.f", "PII", "X")]


def test_what_is_not_there_any_more_keeps_no_tags(api: Api) -> None:
    put(api, "s", AVRO, schemaTagsToAdd=[tags("a.R.f", "PII"), tags("a.R", "ONE")])
    without = AVRO.replace('{"name":"f","type":"string"}', "")
    assert put(api, "s", without, propagateSchemaTags=True)["version"] == 2
    assert found(api, "s") == [tags("a.R", "ONE")]


def test_a_version_is_named_or_the_next(api: Api) -> None:
    put(api, "s", AVRO)
    add = [tags("a.R", "ONE")]
    assert tag(api, "s", newVersion=1, tagsToAdd=add).error[:2] == (422, 42201)
    assert tag(api, "s", newVersion=3, tagsToAdd=add).error[:2] == (422, 42201)
    assert tag(api, "s", newVersion=2, tagsToAdd=add).json["version"] == 2
    assert tag(api, "s", "1", tagsToAdd=add).json["version"] == 3


def test_refusals(api: Api) -> None:
    put(api, "s", AVRO)
    wrong = [tags("does.not.exist.f", "T")]
    assert tag(api, "none", tagsToAdd=wrong).error[:2] == (404, 40401)
    assert tag(api, "s", "7", tagsToAdd=wrong).error[:2] == (404, 40402)
    assert tag(api, "s", "0", tagsToAdd=wrong).error[:2] == (422, 42202)
    assert tag(api, "s", tagsToAdd=wrong).error[:2] == (422, 42201)
    assert tag(api, "__GLOBAL", tagsToAdd=wrong).error[:2] == (422, 42208)
    both = {"ruleSet": {}, "rulesToRemove": ["r"]}
    assert tag(api, "s", **both).error[:2] == (422, 42210)
    assert tag(api, "s", tagsToAdd=[{"tags": ["T"]}]).error[:2] == (400, 400)
    assert api.post("/subjects/s/versions/1/tags", b"").error[:2] == (422, 422)
    sent = {"schema": AVRO, "schemaTagsToAdd": wrong}
    assert api.post("/subjects/s/versions", sent).error[:2] == (422, 42201)
    api.put("/mode/s", {"mode": "READONLY"})
    assert tag(api, "s", tagsToAdd=[tags("a.R", "T")]).error[:2] == (422, 42205)


def test_rules_are_merged_and_removed(api: Api) -> None:
    def rules(*names: str) -> dict[str, Any]:
        each = {"kind": "TRANSFORM", "mode": "WRITEREAD", "type": "T"}
        return {"domainRules": [{"name": name, **each} for name in names]}

    def names() -> list[str]:
        return [
            each["name"] for each in api.get("/subjects/s/versions/latest").json["ruleSet"]["domainRules"]
        ]

    put(api, "s", AVRO)
    assert tag(api, "s", rulesToMerge=rules("one", "two", "three")).json["version"] == 2
    assert tag(api, "s", rulesToMerge=rules("four", "two"), rulesToRemove=["one"]).json["version"] == 3
    assert names() == ["three", "four", "two"]
    assert tag(api, "s", ruleSet=rules("only"), metadata={"properties": {"o": "x"}}).json["version"] == 4
    assert names() == ["only"]
    properties = api.get("/subjects/s/versions/4").json["metadata"]["properties"]
    assert properties == {"confluent:version": "4", "o": "x"}


def test_paths_lead_through_a_json_schema(api: Api) -> None:
    place = {"type": "object", "properties": {"zip": {"type": "string", "confluent:tags": ["T"]}}}
    schema = {
        "type": "object",
        "properties": {"at": place, "all": {"type": "array", "items": place}, "one": {"oneOf": [{}, place]}},
        "definitions": {"Place": place},
        "not": place,
    }
    put(api, "s", json.dumps(schema), "JSON")
    assert [each["schemaEntity"]["entityPath"] for each in found(api, "s")] == [
        "object.at.object.zip",
        "object.all.array.object.zip",
        "object.one.oneOf.1.object.zip",
        "object.definitions.Place.object.zip",
        "not.object.zip",
    ]
    api.put("/config/s", {"compatibility": "NONE"})
    deep = tags("object.one.oneOf.1.object.zip", "U")
    assert tag(api, "s", tagsToAdd=[deep]).status == 200
    assert found(api, "s", "U") == [tags("object.one.oneOf.1.object.zip", "T", "U")]


def test_nested_messages_oneofs_and_other_options_of_confluent(api: Api) -> None:
    schema = (
        'syntax = "proto3";\nmessage A { message B { oneof o { string f = 1 '
        '[(confluent.field_meta).doc = "d", (confluent.field_meta).tags = "T"]; } } }'
    )
    put(api, "s", schema, "PROTOBUF")
    assert found(api, "s") == [tags("A.B.f", "T")]
    changed = tag(api, "s", tagsToAdd=[tags("A.B.f", "U")]).json["schema"]
    assert 'doc: "d"' in changed
    assert found(api, "s") == [tags("A.B.f", "T", "U")]


def test_a_subject_elsewhere_and_one_by_its_alias(api: Api) -> None:
    put(api, ":.c:s", AVRO)
    assert tag(api, "s", tagsToAdd=[tags("a.R", "T")]).json["version"] == 2
    assert found(api, ":.c:s") == [tags("a.R", "T")]
    put(api, "t", AVRO)
    api.put("/config/other", {"alias": "t"})
    assert tag(api, "other", tagsToAdd=[tags("a.R", "T")]).json["version"] == 2
    assert found(api, "t") == [tags("a.R", "T")]
