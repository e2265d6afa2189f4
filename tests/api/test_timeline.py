"""``GET /subjects/{subject}/timeline``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.domain.log_format.records import schema_key
from registry.domain.model import Subject
from tests.api.driver import Api, Requests
from tests.api.permitting import PermittingApi, rule

TIMELINE = "/subjects/s/timeline"
RULE = {"name": "rule", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "1<2"}


def record(*fields: str | dict[str, Any], name: str = "R") -> str:
    listed = [each if isinstance(each, dict) else field(each) for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": listed})


def field(name: str, kind: Any = "string", **more: Any) -> dict[str, Any]:
    """Return a field; one that ends in ``?`` has a default."""
    default = {"default": ""} if name.endswith("?") else {}
    return {"name": name.rstrip("?"), "type": kind, **default, **more}


def versions(api: Api, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(TIMELINE + query).json["versions"]
    return found


def verdicts(api: Api, query: str = "") -> list[bool | None]:
    return [each.get("compatible") for each in versions(api, query)]


def test_each_version_says_what_it_changes_of_the_one_before(api: Api) -> None:
    api.register("s", record("a", "b"))
    api.register(
        "s", record("a", "c?", field("d?", **{"confluent:tags": ["PII"]})), ruleSet={"domainRules": [RULE]}
    )
    api.register("s", record(field("a", doc="new"), "c?", "d?"), metadata={"tags": {"R.c": ["GOLD"]}})
    found = api.get(TIMELINE).json
    ts = api.get("/subjects/s/versions/3").json["ts"]
    assert found | {"versions": []} == {
        "subject": "s", "compatibilityLevel": "BACKWARD", "versions": [], "next": None,
    }  # fmt: skip
    assert found["versions"][0] == {
        "version": 3, "id": 3, "schemaType": "AVRO", "ts": ts, "deleted": False, "previous": 2, "added": 0,
        "removed": 0, "changed": 2, "compatible": True, "tags": ["GOLD"], "rules": 1,
    }  # fmt: skip
    counts = [[each[name] for name in ("added", "removed", "changed")] for each in found["versions"]]
    assert counts == [[0, 0, 2], [2, 1, 0], [2, 0, 0]]
    assert [found["versions"][1][name] for name in ("tags", "rules")] == [["PII"], 1]
    assert "previous" not in found["versions"][2]
    assert "compatible" not in found["versions"][2]


def test_the_level_in_effect_decides_and_a_check_says_the_same(api: Api) -> None:
    api.put("/config/s", {"compatibility": "NONE"})
    texts = [
        record("a"),
        record("a", "b"),
        record("a", "d?"),
        record("a", "b?"),
        record("a?"),
        '"int"',
        '"long"',
    ]
    for each in texts:
        api.register("s", each)
    assert verdicts(api) == [None] * len(texts)
    for level in ("BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE"):
        api.put("/config/s", {"compatibility": level})
        checked = [
            api.post(f"/compatibility/subjects/s/versions/{at}", {"schema": text}).json["is_compatible"]
            for at, text in enumerate(texts[1:], 1)
        ]
        assert verdicts(api)[::-1] == [None, *checked], level


@pytest.mark.parametrize("schema_type", ["JSON", "PROTOBUF"])
def test_all_formats_are_counted_and_compared(api: Api, schema_type: str) -> None:
    requests = Requests(schema_type)
    texts = {
        "JSON": (
            '{"type":"object","properties":{"a":{"type":"string"}}}',
            '{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}',
        ),
        "PROTOBUF": (
            'syntax = "proto3"; message M { string a = 1; }',
            'syntax = "proto3"; message M { int32 a = 1; string b = 2; }',
        ),
    }[schema_type]
    api.put("/config/s", {"compatibility": "NONE"})
    for each in texts:
        requests.register(api, "s", each)
    api.put("/config/s", {"compatibility": "FULL"})
    newest = versions(api)[0]
    assert (newest["added"], newest["removed"], newest["changed"], newest["compatible"]) == (1, 0, 1, False)


def test_a_page_leads_to_the_next_and_any_number_is_a_place_to_begin(api: Api) -> None:
    for at in range(7):
        api.register("s", record("a", f"b{at}?"))
    seen, query = [], "?limit=3"
    while query:
        page = api.get(TIMELINE + query).json
        seen += [(each["version"], each.get("previous")) for each in page["versions"]]
        query = f"?limit=3&below={page['next']}" if page["next"] else ""
    assert seen == [(7, 6), (6, 5), (5, 4), (4, 3), (3, 2), (2, 1), (1, None)]
    assert [each["version"] for each in versions(api, "?limit=2&below=5")] == [4, 3]
    assert api.get(f"{TIMELINE}?below=1").json["versions"] == []
    assert api.get(f"{TIMELINE}?below=-1").error[:2] == (422, 422)
    assert api.get(f"{TIMELINE}?below=x").error[:2] == (404, 404)
    assert api.get("/subjects/none/timeline").error[:2] == (404, 40401)


def test_soft_deleted_versions_are_listed_and_compared_when_asked_for(api: Api) -> None:
    api.put("/config/s", {"compatibility": "NONE"})
    for each in (record("a"), record("b"), record("a", "c?")):
        api.register("s", each)
    api.put("/config/s", {"compatibility": "BACKWARD"})
    assert verdicts(api) == [False, False, None]
    api.delete("/subjects/s/versions/2")
    live = versions(api)
    assert [(each["version"], each.get("previous"), each.get("compatible")) for each in live] == [
        (3, 1, True), (1, None, None),
    ]  # fmt: skip
    every = versions(api, "?deleted=true")
    assert [(each["version"], each["deleted"], each.get("compatible")) for each in every] == [
        (3, False, False), (2, True, False), (1, False, None),
    ]  # fmt: skip
    api.delete("/subjects/s")
    assert api.get(TIMELINE).error[:2] == (404, 40401)
    assert len(versions(api, "?deleted=true")) == 3


def test_other_types_follow_only_under_none(api: Api) -> None:
    api.put("/config/s", {"compatibility": "NONE"})
    api.register("s", record("a"))
    api.register("s", "{}", schemaType="JSON")
    newest = versions(api)[0]
    assert newest["previousType"] == "AVRO"
    assert {"added", "compatible"}.isdisjoint(newest)
    api.put("/config/s", {"compatibility": "BACKWARD"})
    assert verdicts(api) == [False, None]


def test_what_cannot_be_read_any_more_is_unknown_and_hides_nothing_else(api: Api) -> None:
    api.register("base", record("z", name="Base"))
    reference = {"name": "Base", "subject": "base", "version": 1}
    api.register("s", record("a"))
    api.register("s", record("a", field("b", ["null", "Base"], default=None)), references=[reference])
    assert verdicts(api) == [True, None]
    # As another writer could do: the referenced version is gone, and the next one is no schema.
    api.backend.append(schema_key(Subject.parse("base"), 1), None)
    assert "compatible" not in versions(api)[0]
    assert (versions(api)[0]["added"], versions(api)[0]["references"]) == (1, 1)
    broken = {"subject": "s", "version": 3, "id": 9, "schema": "{", "deleted": False}
    api.backend.append(schema_key(Subject.parse("s"), 3), json.dumps(broken).encode())
    assert [each["version"] for each in versions(api)] == [3, 2, 1]
    assert verdicts(api) == [None, None, None]
    assert [each.get("added") for each in versions(api)] == [None, 1, 1]


def test_groups_are_not_compared_with_each_other_and_policies_count(api: Api) -> None:
    api.put("/config/s", {"compatibility": "BACKWARD", "compatibilityGroup": "major"})
    api.register("s", record("a"), metadata={"properties": {"major": "1"}})
    api.register("s", record("b"), metadata={"properties": {"major": "2"}})
    api.register("s", record("b", "c?"), metadata={"properties": {"major": "2"}})
    assert verdicts(api) == [True, None, None]
    # Not even the type of another group counts.
    assert api.register("s", "{}", schemaType="JSON", metadata={"properties": {"major": "3"}})
    assert verdicts(api) == [None, True, None, None]
    api.delete("/config/s")
    assert verdicts(api) == [False, True, False, None]


def test_what_no_table_can_hold_breaks_under_the_policy_logical(api: Api) -> None:
    api.put("/config/s", {"compatibility": "NONE"})
    api.register("s", record("a"))
    recursive = record("a", field("self", ["null", "R"], default=None))
    api.register("s", recursive)
    api.put("/config/s", {"compatibility": "BACKWARD", "compatibilityPolicy": "LOGICAL"})
    checked = api.post("/compatibility/subjects/s/versions/1", {"schema": recursive}).json["is_compatible"]
    newest = versions(api)[0]
    assert (newest["compatible"], newest["added"]) == (checked, 1) == (False, 1)


def test_an_alias_leads_to_the_versions_and_the_past_is_listed_too(api: Api) -> None:
    api.register("s", record("a"))
    moment = len(api.backend.log) - 1
    api.register("s", record("a", "b?"))
    api.put("/config/other", {"alias": "s"})
    assert api.get("/subjects/other/timeline").json == api.get(TIMELINE).json
    past = api.get(f"{TIMELINE}?atOffset={moment}")
    assert [each["version"] for each in past.json["versions"]] == [1]
    assert past.headers["x-registry-at-offset"] == str(moment)


def test_who_registered_and_who_deleted_are_named_and_what_is_hidden_is_not_compared() -> None:
    with PermittingApi(rule("dev", "developer", "own-*")) as api:
        api.register("base", record("z", name="Base"))
        reference = {"name": "Base", "subject": "base", "version": 1}
        api.register("own", record("a"))
        api.request("POST", "/subjects/own-value/versions", {"schema": record("a")}, user="dev")
        uses = record("a", field("b", ["null", "Base"], default=None))
        api.register("own-value", uses, references=[reference])
        api.delete("/subjects/own-value/versions/1")
        target = "/subjects/own-value/timeline?deleted=true"
        newest, oldest = api.get(target).json["versions"]
        assert (newest["principal"], oldest["deletedBy"]) == ("root", "root")
        assert newest["compatible"]
        assert "principal" not in oldest
        shown = newest
        newest, _ = api.request("GET", target, user="dev").json["versions"]
        assert newest == {name: value for name, value in shown.items() if name != "compatible"}
        assert api.request("GET", "/subjects/base/timeline", user="dev").status == 403


def differences(api: Api, old: Any, new: Any) -> Any:
    return api.post("/schemas/differences", {"old": old, "new": new}, content_type="application/json")


def test_fields_of_any_two_types_are_compared(api: Api) -> None:
    avro = {"schema": record("a", "b?")}
    found = differences(api, avro, {"schema": record("a?"), "schemaType": "AVRO"}).json
    assert [found[name] for name in ("added", "removed", "changed")] == [0, 1, 1]
    shared, gone = found["differences"]
    assert shared == {
        "old": {"kind": "field", "path": "a", "name": "a", "type": "string", "required": True},
        "new": {"kind": "field", "path": "a", "name": "a", "type": "string", "default": '""'},
    }
    assert list(gone) == ["old"]
    json_schema = {"schemaType": "JSON", "schema": '{"properties":{"a":{"type":"string"}}}'}
    found = differences(api, json_schema, avro).json
    assert [found[name] for name in ("added", "removed", "changed")] == [1, 0, 1]
    many = [f"f{at}" for at in range(1200)]
    found = differences(api, {"schema": record()}, {"schema": record(*many)}).json
    assert (found["added"], len(found["differences"])) == (1200, 1000)


def test_what_is_no_pair_of_schemas_is_refused(api: Api) -> None:
    avro = {"schema": record("a")}
    assert differences(api, None, avro).error[:2] == (422, 422)
    assert differences(api, avro, {"schema": {}}).error[0] in (400, 422)
    assert differences(api, avro, {"schema": "{"}).error[:2] == (422, 42201)
    assert differences(api, avro, {"schema": "{}", "schemaType": "THRIFT"}).error[:2] == (422, 42201)
    wide = {"schema": record(*(f"f{at}" for at in range(20_000)))}
    assert differences(api, avro, wide).error[:2] == (422, 422)
    reply = api.post("/schemas/differences", {"old": avro, "new": avro}, content_type="text/plain")
    assert reply.status == 415
