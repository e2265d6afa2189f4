"""Schemas by id and by guid, and lists of them."""

from __future__ import annotations

import pytest

from registry.api.backend import ApiSettings
from tests.api.driver import Api, record

STRING = '"string"'
STRING_GUID = "095d71cf-1255-6b9d-5e33-0ad575b3df5d"


def test_a_schema_is_read_by_id(api: Api) -> None:
    api.register("s", STRING)
    found = api.get("/schemas/ids/1").json
    assert list(found) == ["subject", "version", "guid", "schemaType", "schema", "ts", "deleted"]
    assert (found["subject"], found["version"], found["guid"]) == ("s", 1, STRING_GUID)
    assert api.get("/schemas/ids/1?fetchMaxId=true").json["maxId"] == 1
    assert "maxId" not in api.get("/schemas/ids/1?fetchMaxId=false").json
    bare = api.get("/schemas/ids/1/schema")
    assert (bare.status, bare.body) == (200, STRING.encode())


def test_an_unknown_id_is_40403(api: Api) -> None:
    for path in ("", "/schema"):
        assert api.get(f"/schemas/ids/9{path}").error == (404, 40403, "Schema 9 not found")
    for path in ("/subjects", "/versions"):
        assert api.get(f"/schemas/ids/9{path}").error == (404, 40403, "Schema not found")


def test_deleted_schemas_are_read_by_id_until_they_are_gone(api: Api) -> None:
    api.register("s", STRING)
    api.delete("/subjects/s")
    assert api.get("/schemas/ids/1").json["deleted"] is True
    assert api.get("/schemas/ids/1/subjects").json == []
    assert api.get("/schemas/ids/1/subjects?deleted=true").json == ["s"]
    assert api.get("/schemas/ids/1/versions").json == []
    assert api.get("/schemas/ids/1/versions?deleted=true").json == [{"subject": "s", "version": 1}]
    api.delete("/subjects/s?permanent=true")
    assert api.get("/schemas/ids/1").error == (404, 40403, "Schema 1 not found")


def test_the_scope_of_an_id(api: Api) -> None:
    api.register("s", STRING)
    api.register(":.c:t", '"int"')
    assert api.get("/schemas/ids/1").json["schema"] == STRING
    assert api.get("/schemas/ids/1?subject=:.c:").json["schema"] == '"int"'
    assert api.get("/schemas/ids/1?subject=t").json["subject"] == ":.c:t"
    assert api.get("/schemas/ids/1?subject=nowhere").json["subject"] == "s"
    assert api.get("/schemas/ids/1?subject=:.c:s").error == (404, 40403, "Schema 1 not found")
    assert api.get("/contexts/c/schemas/ids/1").json["subject"] == ":.c:t"
    assert api.get("/contexts/c/schemas/ids/1/subjects").json == [":.c:t"]


def test_the_subject_of_an_id_may_be_an_alias(api: Api) -> None:
    api.register("a", STRING)
    api.register("b", STRING)
    api.put("/config/nick", {"alias": "b"})
    assert api.get("/schemas/ids/1?subject=nick").json["subject"] == "b"


def test_the_subjects_and_versions_of_an_id(api: Api) -> None:
    for name in ("b", "a"):
        api.register(name, STRING)
    assert sorted(api.get("/schemas/ids/1/subjects").json) == ["a", "b"]
    assert len(api.get("/schemas/ids/1/subjects?limit=1").json) == 1
    assert {"subject": "a", "version": 1} in api.get("/schemas/ids/1/versions").json


@pytest.mark.parametrize("guid", [STRING_GUID, STRING_GUID.upper(), STRING_GUID.replace("-", "")])
def test_a_schema_is_read_by_guid(api: Api, guid: str) -> None:
    api.register(":.c:s", STRING)
    found = api.get(f"/schemas/guids/{guid}").json
    assert list(found) == ["guid", "schemaType", "schema", "ts", "deleted"]
    assert api.get(f"/schemas/guids/{guid}/ids").json == [{"context": ".c", "id": 1}]


@pytest.mark.parametrize("guid", ["x", STRING_GUID, STRING_GUID[:-1], STRING_GUID[:20] + STRING_GUID[21:]])
def test_an_unknown_guid(api: Api, guid: str) -> None:
    assert api.get(f"/schemas/guids/{guid}").error == (404, 40403, f"Schema {guid} not found")
    assert api.get(f"/schemas/guids/{guid}/ids").json == []


def test_types_are_those_that_can_be_registered(api: Api) -> None:
    assert api.get("/schemas/types").json == ["JSON", "PROTOBUF", "AVRO"]


def test_what_is_read_by_id_or_guid_has_an_etag(api: Api) -> None:
    api.register("s", STRING)
    for target in ("/schemas/ids/1", "/schemas/ids/1/schema", f"/schemas/guids/{STRING_GUID}"):
        reply = api.get(target)
        etag = reply.headers["etag"]
        for given in (etag, etag.removeprefix("W/"), f'"x", {etag}', "*"):
            again = api.get(target, if_none_match=given)
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == etag
        assert api.get(target, if_none_match='"other"').body == reply.body
    before = api.get("/schemas/ids/1").headers["etag"]
    api.delete("/subjects/s")
    assert api.get("/schemas/ids/1", if_none_match=before).status == 200


def test_how_long_ids_may_be_kept_is_a_setting(api: Api) -> None:
    assert api.get("/schemas/ids/1").headers["cache-control"] == "no-cache, no-store, must-revalidate"
    kept = Api(settings=ApiSettings(cache_max_age_s=60))
    kept.register("s", STRING)
    assert kept.get("/schemas/ids/1").headers["cache-control"] == "max-age=60"
    assert kept.get("/schemas/ids/2").headers["cache-control"] == "no-cache, no-store, must-revalidate"
    kept.close()


def test_schemas_are_listed(api: Api) -> None:
    api.register("b", STRING)
    api.register("a", record("R"))
    api.register("a", record("R", "x"))
    api.register(":.c:z", STRING)
    api.register("gone", STRING)
    api.delete("/subjects/gone")

    def listed(query: str) -> list[tuple[str, int]]:
        return [(each["subject"], each["version"]) for each in api.get(f"/schemas{query}").json]

    assert listed("") == [("a", 1), ("a", 2), ("b", 1)]
    assert listed("?latestOnly=true") == [("a", 2), ("b", 1)]
    assert listed("?subjectPrefix=:.c:") == [(":.c:z", 1)]
    assert listed("?subjectPrefix=:*:") == [(":.c:z", 1), ("a", 1), ("a", 2), ("b", 1)]
    assert listed("?deleted=true") == [("a", 1), ("a", 2), ("b", 1), ("gone", 1)]
    assert listed("?offset=1&limit=1") == [("a", 2)]
    assert listed("?limit=5000") == [("a", 1), ("a", 2), ("b", 1)]
    entity = api.get("/schemas?subjectPrefix=b").json[0]
    assert entity == api.get("/subjects/b/versions/1").json


def test_schemas_are_listed_with_their_aliases(api: Api) -> None:
    api.register("real", STRING)
    api.put("/config/nick", {"alias": "real"})
    assert "aliases" not in api.get("/schemas").json[0]
    assert api.get("/schemas?aliases=true").json[0]["aliases"] == ["nick"]
    assert api.get("/schemas?subjectPrefix=nick&aliases=true").json[0]["subject"] == "real"
    assert api.get("/schemas?subjectPrefix=nick").json == []


def test_schemas_are_listed_by_type_of_rule(api: Api) -> None:
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    api.register("a", STRING, ruleSet={"domainRules": [rule]})
    api.register("b", STRING)
    assert [each["subject"] for each in api.get("/schemas?ruleType=CEL").json] == ["a"]
