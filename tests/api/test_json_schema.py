"""JSON schemas through the resources."""

from __future__ import annotations

import json

import pytest

from registry.api.backend import ApiSettings
from tests.api.driver import Api, Requests

OPEN = '{"type":"object","properties":{"a":{"type":"string"}}}'
CLOSED = '{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}'
WIDER = CLOSED.replace("}}", '},"b":{"type":"integer"}}')
ITEM = '{"$id":"http://example.com/item.json","type":"object","properties":{"n":{"type":"integer"}}}'
ORDER = '{"type":"array","items":{"$ref":"http://example.com/item.json"}}'
USED = [{"name": "http://example.com/item.json", "subject": "item", "version": 1}]


JSON = Requests("JSON")
body, register, check = JSON.body, JSON.register, JSON.check


def test_what_is_registered_is_read_everywhere(api: Api) -> None:
    placed = register(api, "s", ' {"type": "object", "properties": {"a": {"type": "string"}}} ')
    assert (placed["id"], placed["version"], placed["schemaType"]) == (1, 1, "JSON")
    assert placed["schema"] == OPEN
    for target in ("/schemas/ids/1", "/subjects/s/versions/1", "/subjects/s/versions/latest"):
        found = api.get(target).json
        assert (found["schema"], found["schemaType"]) == (OPEN, "JSON")
    for target in ("/schemas/ids/1/schema", "/subjects/s/versions/1/schema"):
        assert api.get(target).body.decode() == OPEN
    assert api.get(f"/schemas/guids/{placed['guid']}").json["schema"] == OPEN
    assert [each["schemaType"] for each in api.get("/schemas").json] == ["JSON"]
    assert "JSON" in api.get("/schemas/types").json


def test_the_same_again_is_the_same(api: Api) -> None:
    first = register(api, "s", OPEN)
    submitted = len(api.backend.submitted)
    assert register(api, "s", OPEN.replace(":", ": ")) == first
    assert len(api.backend.submitted) == submitted
    assert register(api, "t", OPEN)["id"] == first["id"]
    assert api.post("/subjects/s", body(OPEN.replace(",", ", "))).json["version"] == 1


def test_the_order_of_members_counts_unless_normalized(api: Api) -> None:
    register(api, "s", '{"type":"string","title":"t"}')
    other = '{"title":"t","type":"string"}'
    assert api.post("/subjects/s", body(other)).error[:2] == (404, 40403)
    register(api, "n", other, version=0)
    assert (
        api.post("/subjects/n/versions?normalize=true", body('{"type":"string","title":"t"}')).json["version"]
        == 1
    )
    assert api.post("/subjects/n?normalize=true", body('{"type":"string","title":"t"}')).json["version"] == 1
    normalized = api.post(
        "/subjects/m/versions?normalize=true", body('{"type":"string","title":"t","a":[{"d":1,"c":1e2}]}')
    )
    assert normalized.json["schema"] == '{"a":[{"c":1E+2,"d":1}],"title":"t","type":"string"}'


def test_types_do_not_mix(api: Api) -> None:
    register(api, "s", "{}")
    avro = {"schema": '{"type":"string"}'}
    code, message = api.post("/subjects/s/versions", avro).error[1:]
    assert code == 40901
    assert "[Incompatible because of different schema type, {validateFields: 'false'" in message
    first = api.register("a", '"string"')
    assert api.post("/subjects/a/versions", body('{"type":"string"}')).status == 409
    assert api.post("/subjects/a", body('{"type":"string"}')).error[:2] == (404, 40403)
    assert register(api, "j", '{"type":"string"}')["id"] != first
    assert api.post("/subjects/s/versions", {"schema": "{}", "schemaType": "json"}).error[:2] == (422, 42201)


@pytest.mark.parametrize(
    ("schema", "detail"),
    [
        ("{", "Invalid JSON"),
        ("5", "expected an object or boolean at the root, found NUMBER"),
        ('{"type":"nonsense"}', "#/type"),
        ('{"$ref":"#/definitions/x"}', "cannot resolve '#/definitions/x'"),
        ('{"$ref":"http://example.com/x"}', "Remote schema reference fetching over HTTP(S) is disabled"),
        ("[" * 3000, "Invalid JSON"),
    ],
)
def test_what_makes_no_sense_is_42201(api: Api, schema: str, detail: str) -> None:
    status, code, message = api.post("/subjects/s/versions", body(schema)).error
    assert (status, code) == (422, 42201)
    assert detail in message or "nesting depth" in message or "end-of-input" in message
    assert "schemaType=JSON," in message or message.startswith("Invalid schema of type JSON, details: ")
    assert api.backend.log == []
    register(api, "t", "{}")
    assert api.post("/compatibility/subjects/t/versions/latest", body(schema)).error[:2] == (422, 42201)


@pytest.mark.parametrize(
    ("level", "old", "new", "is_compatible"),
    [
        ("BACKWARD", OPEN, OPEN.replace('"a"', '"b"'), False),
        ("BACKWARD", CLOSED, WIDER, True),
        ("BACKWARD", WIDER, CLOSED, False),
        ("FORWARD", CLOSED, WIDER, False),
        ("FORWARD", WIDER, CLOSED, True),
        ("FULL", CLOSED, WIDER, False),
        ("FULL", CLOSED, CLOSED.replace('"a":{', '"a":{"title":"t",'), True),
        ("NONE", OPEN, '{"type":"array"}', True),
        ("BACKWARD_TRANSITIVE", CLOSED, WIDER, True),
        ("FORWARD_TRANSITIVE", CLOSED, WIDER, False),
        ("FULL_TRANSITIVE", CLOSED, WIDER, False),
    ],
)
def test_levels(api: Api, level: str, old: str, new: str, is_compatible: bool) -> None:
    register(api, "s", old)
    api.put("/config/s", {"compatibility": level})
    assert (check(api, "s", new) == []) is is_compatible
    assert (
        (api.post("/compatibility/subjects/s/versions/1", body(new)).json["is_compatible"]) is is_compatible
    )
    assert api.post("/subjects/s/versions", body(new)).status == (200 if is_compatible else 409)


def test_the_messages_are_confluents(api: Api) -> None:
    register(api, "s", OPEN)
    new = OPEN.replace("}}", '},"b":{"type":"integer"}}')
    expected = [
        '{errorType:"OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", description:"The new schema has an open '
        "content model and has a property or item at path '#/properties/b' which is missing in the old "
        "schema'}",
        "{oldSchemaVersion: 1}",
        f"{{oldSchema: '{OPEN}'}}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]
    assert check(api, "s", new) == expected
    assert api.post("/subjects/s/versions", body(new)).error == (
        409,
        40901,
        'Schema being registered is incompatible with an earlier schema for subject "s", '
        f"details: [{', '.join(expected)}]",
    )


def test_references(api: Api) -> None:
    register(api, "item", ITEM)
    assert "Remote" in api.post("/subjects/order/versions", body(ORDER)).error[2]
    placed = register(api, "order", ORDER, references=USED)
    assert placed["references"] == USED
    assert api.get("/subjects/item/versions/1/referencedby").json == [placed["id"]]
    assert api.delete("/subjects/item/versions/1").error[:2] == (422, 42206)
    again = api.post("/subjects/order", body(ORDER, references=[{**USED[0], "version": -1}]))
    assert again.json["version"] == 1
    wider = ITEM.replace("integer", "number")
    api.put("/config/item", {"compatibility": "NONE"})
    register(api, "item", wider)
    newer = [{**USED[0], "version": 2}]
    assert check(api, "order", ORDER, references=newer) == []
    assert register(api, "order", ORDER, references=newer)["version"] == 2
    assert "TYPE_NARROWED" in check(api, "order", ORDER, references=USED)[0]


def test_references_of_references_and_to_parts(api: Api) -> None:
    register(api, "country", '{"definitions":{"code":{"type":"string"}}}')
    register(
        api,
        "address",
        '{"type":"object","properties":{"c":{"$ref":"country.json#/definitions/code"}}}',
        references=[{"name": "country.json", "subject": "country", "version": 1}],
    )
    person = '{"type":"object","properties":{"home":{"$ref":"address.json"}}}'
    used = [{"name": "address.json", "subject": "address", "version": 1}]
    register(api, "person", person, references=used)
    other = person.replace("}}}", '},"x":{"$ref":"country.json"}}}')
    assert api.post("/subjects/t/versions", body(other.replace("x", "home2"), references=used)).status == 200
    missing = api.post("/subjects/t/versions", body(person, references=[{**used[0], "version": 7}]))
    assert 'No schema reference found for subject "address" and version 7' in missing.error[2]


def test_import_takes_what_makes_no_sense_and_lookups_find_it(api: Api) -> None:
    api.put("/mode", {"mode": "IMPORT"})
    broken = '{"type":"nonsense","$ref":"http://example.com/x"}'
    reply = api.post("/subjects/s/versions", body(broken, id=50, version=3))
    assert reply.json["id"] == 50
    api.put("/mode", {"mode": "READWRITE"})
    assert api.post("/subjects/s", body(broken)).json["version"] == 3
    assert register(api, "s", broken)["id"] == 50
    assert check(api, "s", "{}")[0].startswith("Unexpected exception during compatibility check: ")


@pytest.mark.parametrize("form", ["resolved", "serialized", "ignore_extensions", "default", ""])
def test_there_is_one_form_of_the_text(api: Api, form: str) -> None:
    register(api, "item", ITEM)
    placed = register(api, "order", ORDER, references=USED)
    for target in (f"/schemas/ids/{placed['id']}", "/subjects/order/versions/1"):
        assert api.get(f"{target}?format={form}").json["schema"] == ORDER


def test_reserved_fields_and_prefixes(api: Api) -> None:
    api.put("/config", {"validateFields": True})
    status, code, message = api.post("/subjects/s/versions", body('{"properties":{"$$x":{}}}')).error
    assert (status, code) == (422, 42201)
    assert "Field names cannot start with $$ prefix" in message
    reserved = {"properties": {"confluent:reserved": "b"}}
    register(api, "s", CLOSED, metadata=reserved)
    assert check(api, "s", WIDER, metadata=reserved) == [
        "The new schema has field that conflicts with the reserved field b.",
        "{validateFields: 'true', compatibility: 'BACKWARD'}",
    ]


def test_metadata_and_rules_are_kept(api: Api) -> None:
    rules = {
        "domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]
    }
    placed = register(api, "s", OPEN, metadata={"properties": {"owner": "me"}}, ruleSet=rules)
    assert placed["metadata"] == {"properties": {"owner": "me"}}
    assert placed["ruleSet"]["domainRules"][0]["name"] == "r"
    assert register(api, "s", OPEN)["version"] == 1  # inherited


def test_five_thousand_levels(api: Api) -> None:
    def nested(leaf: str) -> str:
        return '{"properties":{"a":' * 5000 + f'{{"type":"{leaf}"}}' + "}}" * 5000

    register(api, "s", nested("string"))
    assert register(api, "s", nested("string").replace(":", " :"))["version"] == 1
    assert api.get("/schemas/ids/1").json["schema"] == nested("string")
    assert check(api, "s", nested("integer"))[0].startswith('{errorType:"TYPE_CHANGED"')
    assert api.post("/subjects/s/versions", body(nested("integer"))).error[1] == 40901
    assert api.post("/subjects/t/versions?normalize=true", body(nested("string"))).status == 200


def test_a_comparison_without_end_is_422() -> None:
    def unions(leaf: str) -> str:
        return '{"anyOf":[{"type":"null"},' * 1000 + f'{{"type":"{leaf}"}}' + "]}" * 1000

    with Api(settings=ApiSettings(compatibility_budget_s=0.6)) as api:
        register(api, "s", unions("string"))
        for target in ("/compatibility/subjects/s/versions?verbose=true", "/subjects/s/versions"):
            status, code, message = api.post(target, body(unions("integer"))).error
            assert (status, code) == (422, 422)
            assert message.startswith("The comparison with version 1 of subject 's' takes too long")


def test_large_schemas_are_no_burden(api: Api) -> None:
    def many(kind: str) -> str:
        fields = {f"field_{i}": {"type": kind, "description": "x" * 40} for i in range(2000)}
        return json.dumps({"type": "object", "properties": fields, "additionalProperties": False})

    register(api, "s", many("integer"))
    assert check(api, "s", many("number")) == []
    assert register(api, "s", many("number"))["version"] == 2
    assert len(check(api, "s", many("string"))) == 1003
