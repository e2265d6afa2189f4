"""Subjects and versions over HTTP: statuses, codes, messages and bodies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.driver import FIRST_TS, Api, record

STRING = '"string"'
STRING_GUID = "095d71cf-1255-6b9d-5e33-0ad575b3df5d"
A, AB = record("R", "a"), record("R", "a", "b")
INVALID_VERSION = (
    "The specified version '{}' is not a valid version id. "
    'Allowed values are between [1, 2^31-1] and the string "latest"'
)


def test_registering_answers_with_everything(api: Api) -> None:
    reply = api.post("/subjects/s/versions", {"schema": STRING})
    assert reply.status == 200
    assert reply.body == (
        b'{"id":1,"version":1,"guid":"%s","schemaType":"AVRO","schema":"\\"string\\""}' % STRING_GUID.encode()
    )


def test_registering_again_is_a_lookup(api: Api) -> None:
    first = api.post("/subjects/s/versions", {"schema": STRING})
    written = len(api.backend.log)
    assert api.post("/subjects/s/versions", {"schema": ' { "type" : "string" } '}).body == first.body
    assert (len(api.backend.log), len(api.backend.submitted)) == (written, 1)


def test_what_was_parsed_travels_as_canonical_text(api: Api) -> None:
    api.register("s", ' { "type" : "string" } ')
    command = api.backend.submitted[0]
    assert (command.schema, command.canonical) == (STRING, True)


@pytest.mark.parametrize(
    ("body", "details"),
    [
        ({"schema": "nonsense"}, "of type AVRO, details: "),
        ({"schema": '{"type":"record"}'}, "of type AVRO, details: "),
    ],
)
def test_what_is_no_schema_is_42201(api: Api, body: Any, details: str) -> None:
    status, code, text = api.post("/subjects/s/versions", body).error
    assert (status, code) == (422, 42201)
    assert details in text
    assert api.backend.log == []


@pytest.mark.parametrize("body", [{}, {"schema": ""}, {"schema": None}])
def test_nothing_to_register_is_42201(api: Api, body: Any) -> None:
    assert api.post("/subjects/s/versions", body).error == (422, 42201, "Empty schema")


@pytest.mark.parametrize("kind", ["avro", "json", "XML"])
def test_other_types_are_42201(api: Api, kind: str) -> None:
    body = {"schema": STRING, "schemaType": kind}
    assert api.post("/subjects/s/versions", body).error == (422, 42201, f"Invalid schema type {kind}")


def test_an_incompatible_schema_is_40901(api: Api) -> None:
    api.register("s", record("R", "a"))
    status, code, text = api.post(
        "/subjects/s/versions",
        {"schema": '{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}'},
    ).error
    assert (status, code) == (409, 40901)
    assert text.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "s", details: '
        "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', "
    )
    assert text.endswith("{validateFields: 'false', compatibility: 'BACKWARD'}]")
    assert "{oldSchemaVersion: 1}" in text
    forced = api.post("/subjects/s/versions?force=true", {"schema": STRING})
    assert (forced.status, forced.json["version"]) == (200, 2)


@pytest.mark.parametrize("name", ["a%00b", "%1F", "__GLOBAL", "__EMPTY", ":.__GLOBAL:s"])
def test_an_illegal_subject_is_42208(api: Api, name: str) -> None:
    status, code, text = api.post(f"/subjects/{name}/versions", {"schema": STRING}).error
    assert (status, code) == (422, 42208)
    assert text.startswith("The specified subject '")
    assert text.endswith("' is not a valid.")
    assert api.backend.log == []


@pytest.mark.parametrize(
    "name", ["a%2Fb", "a%20b", "%C3%BC", "a%25b", "%22", "a:b", ":ctx:x", "..", "a;b", "a%3Fb%23"]
)
def test_odd_subjects_are_kept_apart_and_found(api: Api, name: str) -> None:
    api.register(name, STRING)
    assert api.get(f"/subjects/{name}/versions").json == [1]
    assert api.get(f"/subjects/{name}/versions/1").json["id"] == 1
    assert len(api.get("/subjects").json) == 1


def test_a_long_subject_is_found(api: Api) -> None:
    name = "ü" * 300
    api.register("%C3%BC" * 300, STRING)
    assert api.get("/subjects").json == [name]
    assert api.get("/subjects/" + "%C3%BC" * 300 + "/versions/latest").json["subject"] == name


def test_a_version_that_is_not_next_is_42201(api: Api) -> None:
    api.register("s", A)
    body = {"schema": AB, "version": 5}
    assert api.post("/subjects/s/versions", body).error[:2] == (422, 42201)


def test_an_id_needs_import_mode(api: Api) -> None:
    body = {"schema": STRING, "id": 7}
    assert api.post("/subjects/s/versions", body).error == (
        422,
        42205,
        "Subject s in context  is not in import mode",
    )
    api.put("/mode/s", {"mode": "IMPORT"})
    assert api.post("/subjects/s/versions", {"schema": STRING, "id": 7, "version": 3}).json["id"] == 7
    assert api.get("/subjects/s/versions").json == [3]


def test_read_only_refuses_writes_but_not_lookups(api: Api) -> None:
    api.register("s", STRING)
    api.put("/mode/s", {"mode": "READONLY"})
    refused = (422, 42205, "Subject s in context  is in read-only mode")
    assert api.post("/subjects/s/versions", {"schema": STRING}).status == 200
    assert api.post("/subjects/s/versions", {"schema": '"int"'}).error == refused
    assert api.delete("/subjects/s").error == refused
    assert api.delete("/subjects/s/versions/1").error == refused
    assert api.put("/config/s", {}).error == refused


def test_metadata_and_rules_are_stored_and_returned(api: Api) -> None:
    metadata = {"properties": {"owner": "me"}, "sensitive": ["x"], "tags": {"a": ["PII"]}}
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    sent = {"schema": STRING, "metadata": metadata, "ruleSet": {"domainRules": [rule]}}
    api.post("/subjects/s/versions", sent)
    found = api.get("/subjects/s/versions/1").json
    assert found["metadata"] == metadata
    assert found["ruleSet"]["domainRules"][0].items() >= rule.items()
    assert api.get("/subjects/s/metadata?key=owner&value=me").json == found
    assert api.get("/subjects/s/metadata?key=owner&value=you").error == (404, 40403, "Schema not found")
    assert api.get("/subjects/t/metadata?key=owner&value=me").error == (404, 40401, "Subject 't' not found.")


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "", "kind": "CONDITION"},
        {},
        {"name": "r", "kind": "NONSENSE", "mode": "WRITE", "type": "CEL"},
    ],
)
def test_a_bad_rule_is_refused(api: Api, rule: Any) -> None:
    status, code, _ = api.post(
        "/subjects/s/versions", {"schema": STRING, "ruleSet": {"domainRules": [rule]}}
    ).error
    assert (status, code) in ((422, 42210), (400, 400))
    assert api.backend.log == []


def test_lookup_shapes(api: Api) -> None:
    api.register("s", AB)
    exact = api.post("/subjects/s", {"schema": AB})
    assert list(exact.json) == ["subject", "version", "id", "guid", "schemaType", "schema"]
    turned = AB.replace('"type":"record","name":"R"', '"name":"R","type":"record"')
    assert api.post("/subjects/s", {"schema": turned}).body == exact.body
    named = AB.replace('"name":"a","type":"string","default":""', '"default":"","type":"string","name":"a"')
    assert api.post("/subjects/s", {"schema": named}).body == exact.body


@pytest.mark.parametrize("body", [{}, {"schema": ""}, {"schema": None}])
def test_a_lookup_without_a_schema_finds_nothing(api: Api, body: dict[str, Any]) -> None:
    api.register("s", AB)
    assert api.post("/subjects/s", body).error == (404, 40403, "Schema not found")
    assert api.post("/subjects/t", body).error == (404, 40401, "Subject 't' not found.")


def test_lookup_misses(api: Api) -> None:
    api.register("s", STRING)
    assert api.post("/subjects/s", {"schema": '"int"'}).error == (404, 40403, "Schema not found")
    assert api.post("/subjects/t", {"schema": '"int"'}).error == (404, 40401, "Subject 't' not found.")
    assert api.post("/subjects/s", {"schema": "nonsense"}).error[:2] == (422, 42201)
    api.delete("/subjects/s")
    assert api.post("/subjects/s", {"schema": STRING}).error == (404, 40401, "Subject 's' not found.")
    assert api.post("/subjects/s?deleted=true", {"schema": STRING}).json["version"] == 1


def test_subjects_are_listed(api: Api) -> None:
    for name in ("b", "a", ":.c:a", ":.c:z", "ab"):
        api.register(name, STRING)
    api.delete("/subjects/ab")
    assert api.get("/subjects").json == [":.c:a", ":.c:z", "a", "b"]
    assert api.get("/subjects?deleted=true").json == [":.c:a", ":.c:z", "a", "ab", "b"]
    assert api.get("/subjects?deletedOnly=true&deleted=true").json == ["ab"]
    assert api.get("/subjects?subjectPrefix=").json == ["a", "b"]
    assert api.get("/subjects?subjectPrefix=a&deleted=true").json == ["a", "ab"]
    assert api.get("/subjects?subjectPrefix=:.c:").json == [":.c:a", ":.c:z"]
    assert api.get("/subjects?subjectPrefix=:*:a").json == [":.c:a", "a"]
    assert api.get("/subjects?offset=1&limit=2").json == [":.c:z", "a"]
    assert api.get("/subjects?limit=0").json == [":.c:a", ":.c:z", "a", "b"]
    assert api.get("/contexts/c/subjects").json == [":.c:a", ":.c:z"]


def test_versions_are_listed(api: Api) -> None:
    for schema in (record("R"), A, AB):
        api.register("s", schema)
    api.delete("/subjects/s/versions/2")
    assert api.get("/subjects/s/versions").json == [1, 3]
    assert api.get("/subjects/s/versions?deleted=true").json == [1, 2, 3]
    assert api.get("/subjects/s/versions?deletedOnly=true").json == [2]
    assert api.get("/subjects/s/versions?deletedAsNegative=true&deletedOnly=true").json == [1, -2, 3]
    assert api.get("/subjects/s/versions?deleted=true&offset=1&limit=1").json == [2]
    assert api.get("/subjects/t/versions").error == (404, 40401, "Subject 't' not found.")


def test_negative_versions_do_not_show_a_deleted_subject(api: Api) -> None:
    api.register("s", STRING)
    api.delete("/subjects/s")
    assert api.get("/subjects/s/versions?deletedAsNegative=true").error[1] == 40401
    assert api.get("/subjects/s/versions?deletedAsNegative=true&deleted=true").json == [-1]


def test_a_version_is_read(api: Api) -> None:
    api.register("s", STRING)
    reply = api.get("/subjects/s/versions/1")
    assert reply.json == {
        "subject": "s", "version": 1, "id": 1, "guid": STRING_GUID, "schemaType": "AVRO", "schema": STRING,
        "ts": FIRST_TS + len(api.backend.log) - 1, "deleted": False,
    }  # fmt: skip
    assert list(reply.json) == ["subject", "version", "id", "guid", "schemaType", "schema", "ts", "deleted"]
    for latest in ("latest", "LATEST", "%20latest%20", "-1"):
        assert api.get(f"/subjects/s/versions/{latest}").body == reply.body
    bare = api.get("/subjects/s/versions/1/schema")
    assert (bare.status, bare.body) == (200, STRING.encode())
    assert bare.headers["content-type"].endswith("json")


@pytest.mark.parametrize("version", ["0", "-2", "abc", "1.0", "2147483648", "9" * 5000, "%20"])
@pytest.mark.parametrize("path", ["", "/schema", "/referencedby"])
def test_a_version_that_is_none_is_42202(api: Api, version: str, path: str) -> None:
    shown = " " if version == "%20" else version
    assert api.get(f"/subjects/s/versions/{version}{path}").error == (
        422,
        42202,
        INVALID_VERSION.format(shown),
    )


def test_a_missing_version(api: Api) -> None:
    assert api.get("/subjects/s/versions/1").error == (404, 40401, "Subject 's' not found.")
    api.register("s", STRING)
    assert api.get("/subjects/s/versions/2").error == (404, 40402, "Version 2 not found.")
    api.delete("/subjects/s")
    assert api.get("/subjects/s/versions/latest").error == (404, 40401, "Subject 's' not found.")
    assert api.get("/subjects/s/versions/latest?deleted=true").error == (404, 40402, "Version -1 not found.")
    assert api.get("/subjects/s/versions/1?deleted=true").json["deleted"] is True


def test_an_unqualified_subject_is_found_in_another_context(api: Api) -> None:
    api.register(":.c:s", STRING)
    assert api.get("/subjects/s/versions/latest").json["subject"] == ":.c:s"
    assert api.post("/subjects/s", {"schema": STRING}).json["subject"] == ":.c:s"
    assert api.get("/subjects/s/versions").error[1] == 40401


def test_deleting_versions(api: Api) -> None:
    api.register("s", A)
    api.register("s", AB)
    text = "Subject 's' Version 1 was not deleted first before being permanently deleted"
    assert api.delete("/subjects/s/versions/1?permanent=true").error == (404, 40407, text)
    reply = api.delete("/subjects/s/versions/1")
    assert (reply.status, reply.body) == (200, b"1")
    text = "Subject 's' Version 1 was soft deleted.Set permanent=true to delete permanently"
    assert api.delete("/subjects/s/versions/1").error == (404, 40406, text)
    assert api.delete("/subjects/s/versions/1?permanent=true").body == b"1"
    assert api.delete("/subjects/s/versions/1").error == (404, 40402, "Version 1 not found.")
    assert api.delete("/subjects/s/versions/latest").body == b"2"
    assert api.delete("/subjects/t/versions/1").error == (404, 40401, "Subject 't' not found.")
    assert api.delete("/subjects/s/versions/x").error == (422, 42202, INVALID_VERSION.format("x"))


def test_deleting_a_subject(api: Api) -> None:
    api.register("s", A)
    api.register("s", AB)
    text = "Subject 's' was not deleted first before being permanently deleted"
    assert api.delete("/subjects/s?permanent=true").error == (404, 40405, text)
    assert api.delete("/subjects/s").json == [1, 2]
    text = "Subject 's' was soft deleted.Set permanent=true to delete permanently"
    assert api.delete("/subjects/s").error == (404, 40404, text)
    assert api.delete("/subjects/s?permanent=true").json == [1, 2]
    assert api.delete("/subjects/s").error == (404, 40401, "Subject 's' not found.")
    assert api.get("/subjects?deleted=true").json == []


def test_references_are_followed_and_guarded(api: Api) -> None:
    api.register("base", record("Base", "x"))
    using = '{"type":"record","name":"User","fields":[{"name":"base","type":"Base"}]}'
    reference = {"name": "Base", "subject": "base", "version": 1}
    reply = api.post("/subjects/user/versions", {"schema": using, "references": [reference]})
    assert (reply.status, reply.json["references"]) == (200, [reference])
    assert api.get("/subjects/base/versions/1/referencedby").json == [2]
    guard = "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=base,version=1}."
    assert api.delete("/subjects/base").error == (422, 42206, guard)
    assert api.delete("/subjects/base/versions/1").error == (422, 42206, guard)
    resolved = api.get("/subjects/user/versions/1?format=resolved").json
    assert '"name":"x"' in resolved["schema"]
    assert resolved["guid"] == reply.json["guid"]
    assert api.get("/subjects/user/versions/1/schema?format=RESOLVED").body.decode() == resolved["schema"]
    assert api.get("/subjects/user/versions/1?format=unknown").json["schema"] == reply.json["schema"]
    api.delete("/subjects/user")
    assert api.get("/subjects/base/versions/1/referencedby").json == []
    assert api.get("/subjects/base/versions/1/referencedby?deleted=true").json == [2]


def test_a_missing_reference_is_42201(api: Api) -> None:
    reference = {"name": "Base", "subject": "base", "version": 1}
    status, code, text = api.post("/subjects/s/versions", {"schema": STRING, "references": [reference]}).error
    assert (status, code) == (422, 42201)
    assert 'No schema reference found for subject "base" and version 1' in text


def test_references_can_be_printed_qualified(api: Api) -> None:
    api.register(":.c:base", record("Base", "x"))
    using = '{"type":"record","name":"User","fields":[{"name":"base","type":"Base"}]}'
    reference = {"name": "Base", "subject": "base", "version": 1}
    api.register(":.c:user", using, references=[reference])
    url = "/subjects/:.c:user/versions/1"
    assert api.get(url).json["references"] == [reference]
    qualified = [{**reference, "subject": ":.c:base"}]
    assert api.get(f"{url}?referenceFormat=qualified").json["references"] == qualified
    assert api.get("/schemas/ids/2?subject=:.c:&referenceFormat=qualified").json["references"] == qualified


def test_an_alias_leads_to_its_subject(api: Api) -> None:
    api.register("real", STRING)
    api.put("/config/nick", {"alias": "real"})
    assert api.get("/subjects/nick/versions/latest").json["subject"] == "real"
    assert api.get("/subjects/nick/versions").json == [1]
    assert api.post("/subjects/nick", {"schema": STRING}).json["subject"] == "real"
    assert api.post("/compatibility/subjects/nick/versions/latest", {"schema": '"int"'}).json == {
        "is_compatible": False
    }
    assert api.post("/subjects/nick/versions", {"schema": STRING}).json["id"] == 1
    assert api.get("/subjects").json == ["real"]
    assert api.get("/config/nick").json["alias"] == "real"
    assert api.delete("/subjects/nick").json == [1]


def test_an_alias_stays_in_its_context_and_is_one_step(api: Api) -> None:
    api.register(":.c:real", STRING)
    api.put("/config/:.c:nick", {"alias": "real"})
    api.put("/config/:.c:nicknick", {"alias": "nick"})
    assert api.get("/contexts/c/subjects/nick/versions").json == [1]
    assert api.get("/contexts/c/subjects/nicknick/versions").error == (
        404,
        40401,
        "Subject ':.c:nick' not found.",
    )


def test_normalizing(api: Api) -> None:
    api.register("s", STRING)
    odd = '{"type":"record","fields":[{"type":{"type":"string"},"name":"a","default":""}],"name":"R"}'
    assert api.post("/subjects/t/versions?normalize=true", {"schema": odd}).json["schema"] == A
    assert api.post("/subjects/t?normalize=true", {"schema": odd}).json["schema"] == A
