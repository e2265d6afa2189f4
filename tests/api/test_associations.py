"""Associations through the API: made, changed, removed, refused, and the records of that."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.api.associating import (
    INT,
    R_OTHER,
    R_WIDER,
    STRING,
    R,
    invalid,
    made,
    mutate,
    of,
    post,
    put,
    refused,
    resource,
    strong,
    two_subjects,
    weak,
)
from tests.api.driver import FIRST_TS, Api


@pytest.fixture
def api() -> Iterator[Api]:
    with two_subjects() as found:
        yield found


class TestMade:
    def test_a_weak_one_uses_a_subject_that_is_there(self, api: Api) -> None:
        reply = post(api, weak("s"), weak("t", "key", lifecycle="WEAK", frozen=False))
        assert list(reply.json) == [
            "resourceName", "resourceNamespace", "resourceId", "resourceType", "associations",
        ]  # fmt: skip
        assert made(reply) == [
            {"subject": "s", "associationType": "value", "lifecycle": "WEAK", "frozen": False},
            {"subject": "t", "associationType": "key", "lifecycle": "WEAK", "frozen": False},
        ]
        assert all("schema" not in each for each in reply.json["associations"])
        assert reply.headers["x-registry-offset"] == str(len(api.backend.log))
        assert of(api) == [("key", "t", "WEAK"), ("value", "s", "WEAK")]

    def test_a_strong_one_brings_the_first_schema_of_its_own_subject(self, api: Api) -> None:
        reply = post(api, strong())
        own = {"subject": ":.ns:n-value", "associationType": "value", "lifecycle": "STRONG", "frozen": True}
        assert made(reply) == [own]
        schema = reply.json["associations"][0]["schema"]
        assert list(schema) == ["subject", "version", "id", "guid", "schemaType", "schema"]
        assert (schema["subject"], schema["version"], schema["schema"]) == (":.ns:n-value", 1, R)
        latest = api.get("/subjects/:.ns:n-value/versions/latest").json
        assert {name: latest[name] for name in schema} == schema

    def test_the_records_are_confluents(self, api: Api) -> None:
        before = len(api.backend.log)
        post(api, strong(), strong(R_WIDER, "key"))
        keys = [orjson.loads(each.key or b"")["keytype"] for each in api.backend.log[before:]]
        assert [each for each in keys if each != "NOOP"] == ["CONTEXT", "SCHEMA", "SCHEMA", "ASSOC", "ASSOC"]
        value, key = api.backend.log[-2:]
        guid = orjson.loads(value.value or b"")["guid"]
        assert str(uuid.UUID(guid)) == guid
        assert value.key == (
            b'{"keytype":"ASSOC","tenant":"default","resourceName":"n","resourceNamespace":"ns",'
            b'"resourceType":"topic","associationType":"value","subject":":.ns:n-value","magic":0}'
        )
        assert value.value == (
            b'{"guid":"%b","tenant":"default","resourceName":"n","resourceNamespace":"ns",'
            b'"resourceId":"r","resourceType":"topic","associationType":"value",'
            b'"subject":":.ns:n-value","lifecycle":"STRONG","frozen":true}' % guid.encode()
        )
        assert b'"associationType":"key","subject":":.ns:n-key"' in (key.value or b"")
        post(api, weak("s"), resourceId="r2", name="m")
        assert b'"subject":"s","lifecycle":"WEAK","frozen":false}' in (api.backend.log[-1].value or b"")

    def test_a_tombstone_removes_it(self, api: Api) -> None:
        post(api, weak())
        key = api.backend.log[-1].key
        assert api.delete("/associations/resources/r").status == 204
        assert (api.backend.log[-1].key, api.backend.log[-1].value) == (key, None)
        assert of(api) == []

    def test_the_context_is_that_of_unqualified_subjects(self, api: Api) -> None:
        api.register(":.c:s", STRING)
        assert made(post(api, weak(), query="?context=:.c:"))[0]["subject"] == ":.c:s"
        reply = api.post("/contexts/c/associations", resource(weak(), resourceId="r2", name="m"))
        assert made(reply)[0]["subject"] == ":.c:s"
        for name in ("c", ".c"):
            body = resource(weak(), resourceId=name, name="m")
            assert made(api.post(f"/associations?context={name}", body))[0]["subject"] == ":.c:s"
        assert post(api, weak(), query="?context=a:b").error[:2] == (400, 400)

    def test_both_of_a_resource_may_have_the_same_schema(self, api: Api) -> None:
        listed = post(api, strong(), strong(kind="key")).json["associations"]
        assert [each["schema"]["id"] for each in listed] == [1, 1]

    def test_what_is_there_just_so_is_made_again_without_effect(self, api: Api) -> None:
        for wanted in (strong(), strong() | {"lifecycle": "STRONG", "frozen": True}):
            assert post(api, wanted).status == 200
        post(api, weak(), name="m", resourceId="r2")
        written = len(api.backend.log)
        assert "associations" not in post(api, strong()).json
        assert "associations" not in post(api, weak(), name="m", resourceId="r2").json
        assert "associations" not in put(api, weak(), name="m", resourceId="r2").json
        assert "associations" not in put(api, {"associationType": "value"}).json
        assert len(api.backend.log) == written

    @pytest.mark.parametrize(
        ("again", "kind"),
        [
            (strong(R_WIDER), "value"),
            (strong(R_OTHER), "value"),
            (weak("s"), "value"),
            (weak("s") | {"associationType": None}, "value"),
        ],
    )
    def test_what_is_there_otherwise_is_not_made_again(self, api: Api, again: Any, kind: str) -> None:
        post(api, strong())
        message = f"An association of type '{kind}' already exists for resource 'r'"
        assert refused(api, lambda: post(api, again)) == (40903, message)


class TestChanged:
    def test_an_upsert_makes_a_weak_one(self, api: Api) -> None:
        assert made(put(api, {"subject": "s"}))[0]["lifecycle"] == "WEAK"
        assert of(api) == [("value", "s", "WEAK")]

    def test_an_upsert_registers_a_further_schema_of_a_strong_one(self, api: Api) -> None:
        post(api, strong())
        written = len(api.backend.log)
        reply = put(api, strong(R_WIDER))
        assert reply.json["associations"][0]["schema"]["version"] == 2
        assert [b"SCHEMA" in (each.key or b"") for each in api.backend.log[written:]] == [True]
        assert put(api, strong(R_WIDER)).json["associations"][0]["schema"]["version"] == 2
        assert len(api.backend.log) == written + 1

    def test_an_incompatible_schema_is_told_by_its_messages_alone(self, api: Api) -> None:
        post(api, strong())
        refusal = refused(api, lambda: put(api, strong(R_OTHER)))
        assert refusal[0] == 40901
        assert refusal[1].startswith("[{errorType:'NAME_MISMATCH'")
        assert refusal[1].endswith("{validateFields: 'false', compatibility: 'BACKWARD'}]")

    @pytest.mark.parametrize(
        ("wanted", "code", "message"),
        [
            (weak("t"), *invalid("subject", "subject of association cannot be changed")),
            (weak("s", lifecycle="STRONG", frozen=True),
             *invalid("frozen", "frozen attribute of association cannot be changed")),
            ({"lifecycle": "STRONG"},
             *invalid("frozen", "association with lifecycle of STRONG cannot be frozen=false")),
            ({"schema": {"schema": R}}, *invalid("lifecycle", "cannot be WEAK when schema is provided")),
            ({"frozen": True}, *invalid("frozen", "frozen attribute of association cannot be changed")),
        ],
    )  # fmt: skip
    def test_a_weak_one_cannot_be_changed(self, api: Api, wanted: Any, code: int, message: str) -> None:
        post(api, weak("s"))
        assert refused(api, lambda: put(api, wanted)) == (code, message)

    @pytest.mark.parametrize(
        ("wanted", "code", "message"),
        [
            (weak("s"), *invalid("subject", "subject of association cannot be changed")),
            ({"frozen": False}, *invalid("frozen", "frozen attribute of association cannot be changed")),
            ({"lifecycle": "WEAK"}, 40908,
             "The association of type  'value' is frozen for subject ':.ns:n-value'"),
        ],
    )  # fmt: skip
    def test_a_strong_one_is_frozen(self, api: Api, wanted: Any, code: int, message: str) -> None:
        post(api, strong())
        assert refused(api, lambda: put(api, wanted)) == (code, message)

    @pytest.mark.parametrize(
        ("wanted", "code", "message"),
        [
            (strong(), *invalid("schema", "cannot be provided when an upsert creates the association")),
            ({"lifecycle": "STRONG"},
             *invalid("lifecycle", "cannot be STRONG when an upsert creates the association")),
            ({}, *invalid("subject", "must be provided for non-frozen associations")),
            (weak(frozen=True), *invalid("frozen", "association with lifecycle of WEAK cannot be frozen")),
        ],
    )  # fmt: skip
    def test_an_upsert_makes_no_strong_one(self, api: Api, wanted: Any, code: int, message: str) -> None:
        assert refused(api, lambda: put(api, wanted)) == (code, message)

    def test_the_id_of_the_path_counts(self, api: Api) -> None:
        body = resource(weak(), resourceId=None)
        assert api.put("/associations/resources/q", body).json["resourceId"] == "q"
        detail = "Resource ID in the path parameter does not match the resource ID in the request body"
        assert refused(api, lambda: api.put("/associations/resources/q", resource(weak()))) == invalid(
            "resourceId", detail
        )

    def test_what_others_made_strong_and_not_frozen_may_become_weak(self, api: Api) -> None:
        api.backend.append(
            b'{"keytype":"ASSOC","tenant":"default","resourceName":"n","resourceNamespace":"ns",'
            b'"resourceType":"topic","associationType":"value","subject":"s","magic":0}',
            b'{"guid":"g","resourceId":"r","lifecycle":"STRONG","frozen":false,"createTs":7}',
        )
        (found,) = api.get("/associations/resources/r").json
        assert (found["lifecycle"], found["frozen"], found["createTs"]) == ("STRONG", False, 7)
        assert made(put(api, {"lifecycle": "WEAK"}))[0]["lifecycle"] == "WEAK"
        (found,) = api.get("/associations/resources/r").json
        assert (found["guid"], found["lifecycle"], found["createTs"]) == ("g", "WEAK", 7)
        assert found["updateTs"] == FIRST_TS + len(api.backend.log) - 1


class TestRequests:
    @pytest.mark.parametrize(
        ("members", "member", "detail"),
        [
            ({"resourceName": None}, "resourceName", "cannot be null or empty"),
            ({"resourceName": ""}, "resourceName", "cannot be null or empty"),
            ({"resourceName": "n" * 257}, "resourceName", "exceeds max length of 256"),
            ({"resourceName": "a.b"}, "resourceName", "illegal character '.'"),
            ({"resourceNamespace": "a b"}, "resourceNamespace", "illegal character ' '"),
            ({"resourceNamespace": None}, "resourceNamespace", "cannot be null or empty"),
            ({"resourceId": ""}, "resourceId", "cannot be null or empty"),
            ({"resourceType": "queue"}, "resourceType", "must be 'topic'"),
            ({"associations": None}, "associations", "cannot be null or empty"),
            ({"associations": []}, "associations", "cannot be null or empty"),
        ],
    )
    def test_a_resource_is_named(self, api: Api, members: Any, member: str, detail: str) -> None:
        body = resource(weak()) | members
        assert refused(api, lambda: api.post("/associations", body)) == invalid(member, detail)
        ops = [each | {"opType": "CREATE"} for each in body["associations"] or ()]
        (result,) = mutate(api, body | {"associations": ops})
        assert result == {"error": {"error_code": 42212, "message": invalid(member, detail)[1]}}

    @pytest.mark.parametrize(
        ("wanted", "member", "detail"),
        [
            (weak(kind="header"), "associationType", "must be either 'key' or 'value'"),
            (weak(""), "subject", "must not be empty"),
            (weak("a\x07"), "subject", "must not be empty"),
            (weak(":.ns:n-value"), "subject", "WEAK associations cannot use subject ':.ns:n-value'"),
            ({}, "subject", "must be provided for non-frozen associations"),
            (weak(frozen=True), "frozen", "association with lifecycle of WEAK cannot be frozen"),
            (strong(lifecycle="WEAK"), "lifecycle", "cannot be WEAK when schema is provided for create"),
            (strong(frozen=False), "frozen", "cannot be false when schema is provided for create"),
            (strong(subject="s"), "subject", "frozen associations must use subject ':.ns:n-value'"),
            ({"lifecycle": "STRONG", "frozen": False}, "frozen",
             "association with lifecycle of STRONG cannot be frozen=false"),
            ({"lifecycle": "STRONG"}, "schema", "schema must be provided when creating a frozen association"),
        ],
    )  # fmt: skip
    def test_an_association_is_named(self, api: Api, wanted: Any, member: str, detail: str) -> None:
        assert refused(api, lambda: post(api, wanted)) == invalid(member, detail)

    def test_each_type_is_named_once(self, api: Api) -> None:
        detail = "'value' may be given once in a request"
        assert refused(api, lambda: post(api, weak(), weak("t"))) == invalid("associationType", detail)
        ops = [{"opType": "UPSERT", **weak()}, {"opType": "DELETE"}]
        (result,) = mutate(api, resource(*ops))
        assert result["error"]["message"] == invalid("associationType", detail)[1]

    def test_no_more_associations_are_read_than_it_takes_to_refuse_them(self, api: Api) -> None:
        detail = "'value' may be given once in a request"
        assert refused(api, lambda: post(api, *[weak("s")] * 50_000)) == invalid("associationType", detail)
        command = api.backend.submitted[-1]
        assert len(command.request.associations) == 3

    def test_names_of_any_letters_and_digits_are_taken(self, api: Api) -> None:
        name = "Ä٣_-" + "x" * 252
        assert post(api, weak(), name=name).json["resourceName"] == name
        assert len(api.get(f"/associations/resources/ns/{name}").json) == 1

    @pytest.mark.parametrize(
        "body",
        [
            b"", b"[]", {"associations": [None]}, {"associations": "x"}, {"resourceName": []},
            {"associations": [{"lifecycle": "LOOSE"}]}, {"associations": [{"lifecycle": ""}]},
            {"associations": [{"schema": "x"}]}, {"associations": [{"frozen": "x"}]},
        ],
    )  # fmt: skip
    def test_what_cannot_be_read_is_400(self, api: Api, body: Any) -> None:
        for reply in (api.post("/associations", body), api.put("/associations/resources/r", body)):
            assert reply.error[0] == (400 if body else 422)

    @pytest.mark.parametrize("ops", [[{}], [{"opType": "MOVE"}], [{"opType": 1}], [None]])
    def test_operations_have_names(self, api: Api, ops: Any) -> None:
        body = {"requests": [resource(*ops)]}
        assert api.post("/associations:batchMutate", body).error[:2] == (400, 400)


class TestRefused:
    def test_all_of_a_resource_own_their_subjects_or_none_does(self, api: Api) -> None:
        uniform = invalid("lifecycle", "all associations for a resource must have the same lifecycle")
        assert refused(api, lambda: post(api, weak(kind="key"), strong())) == uniform
        post(api, strong())
        assert refused(api, lambda: post(api, weak(kind="key"))) == uniform
        post(api, weak(kind="key"), name="m", resourceId="r2")
        assert refused(api, lambda: post(api, strong(), name="m", resourceId="r2")) == uniform

    def test_a_subject_of_a_strong_one_admits_no_other(self, api: Api) -> None:
        post(api, strong())
        message = "A strong association already exists for subject ':.ns:n-value'"
        assert refused(api, lambda: post(api, weak(":.ns:n-value"), name="m", resourceId="r2")) == (
            40905,
            message,
        )

    def test_a_strong_one_takes_no_subject_of_others(self, api: Api) -> None:
        api.register(":.ns:m-value", STRING)
        post(api, weak(":.ns:m-value"))
        message = "An association already exists for subject ':.ns:m-value'"
        assert refused(api, lambda: post(api, strong(), name="m", resourceId="r2")) == (40904, message)

    def test_a_topic_made_anew_under_its_name_takes_no_subject_of_the_former(self, api: Api) -> None:
        post(api, strong())
        assert refused(api, lambda: post(api, strong(), resourceId="r2"))[0] == 40904

    def test_a_weak_one_needs_an_active_version(self, api: Api) -> None:
        message = "No active (non-deleted) version exists for subject '%s'"
        assert refused(api, lambda: post(api, weak("none"))) == (40907, message % "none")
        api.delete("/subjects/s")
        assert refused(api, lambda: post(api, weak("s"))) == (40907, message % "s")

    def test_a_strong_one_begins_its_subject(self, api: Api) -> None:
        api.register(":.ns:n-value", R)
        detail = "cannot create a frozen association when schemas already exist in the subject"
        assert refused(api, lambda: post(api, strong())) == invalid("frozen", detail)

    def test_the_schema_is_one(self, api: Api) -> None:
        assert refused(api, lambda: post(api, strong("{")))[0] == 42201
        assert refused(api, lambda: post(api, strong(), strong("{", "key")))[0] == 42201
        assert refused(api, lambda: post(api, strong(""), query="?dryRun=true")) == (42201, "Empty schema")
        assert api.register("u", '"long"') == 3  # what was refused took no id

    def test_a_referenced_subject_is_not_owned(self, api: Api) -> None:
        api.put("/mode/:.ns:n-value?force=true", {"mode": "IMPORT"})
        api.register(":.ns:n-value", R, id=7, version=1)
        reference = {"name": "R", "subject": ":.ns:n-value", "version": 1}
        api.register("u", '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}',
                     references=[reference])  # fmt: skip
        message = "One or more references exist to the schema :.ns:n-value."
        wanted = {"lifecycle": "STRONG"}
        assert refused(api, lambda: post(api, wanted)) == (42206, message)
        assert refused(api, lambda: put(api, wanted)) == (42206, message)

    def test_an_owned_subject_is_not_referred_to(self, api: Api) -> None:
        post(api, strong())
        reference = {"name": "R", "subject": ":.ns:n-value", "version": 1}
        body = {"schema": '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}'}
        message = "Subject ':.ns:n-value' has a strong association and cannot be referenced"
        assert refused(api, lambda: api.post("/subjects/u/versions", body | {"references": [reference]})) == (
            42205,
            message,
        )

    def test_a_subject_that_is_read_only_gets_and_loses_none(self, api: Api) -> None:
        post(api, weak("t"), name="m", resourceId="r2")
        api.put("/mode", {"mode": "READONLY"})
        for ask in (
            lambda: post(api, weak()),
            lambda: put(api, weak()),
            lambda: api.delete("/associations/resources/r2"),
        ):
            assert refused(api, ask)[0] == 42205
        assert refused(api, lambda: post(api, weak()))[1] == "Subject s in context  is in read-only mode"

    def test_a_subject_that_is_imported_brings_its_versions_itself(self, api: Api) -> None:
        api.put("/mode/:.ns:?force=true", {"mode": "IMPORT"})
        refusal = "Subject :.ns:n-value in context :.ns: is not in read-write mode"
        assert refused(api, lambda: post(api, strong())) == (42205, refusal)
        assert refused(api, lambda: post(api, {"lifecycle": "STRONG"}))[0] == 40907
        api.register(":.ns:n-value", R, id=7, version=3)
        assert made(post(api, {"lifecycle": "STRONG", "frozen": True}))[0]["frozen"] is True
        api.register(":.ns:m-value", R, id=7, version=3)
        assert made(put(api, {"lifecycle": "STRONG"}, name="m", resourceId="r2"))[0]["frozen"] is True
        assert refused(api, lambda: put(api, strong(R_WIDER))) == (42205, refusal)


class TestRemoved:
    def test_some_types_or_all(self, api: Api) -> None:
        post(api, weak("s"), weak("t", "key"))
        assert api.delete("/associations/resources/r?associationType=key").body == b""
        assert of(api) == [("value", "s", "WEAK")]
        post(api, weak("t", "key"))
        assert api.delete("/associations/resources/r?associationType=key&associationType=value").status == 204
        assert of(api) == []
        assert api.get("/subjects").json == ["s", "t"]

    @pytest.mark.parametrize(
        "query", ["q", "r?associationType=key", "r?resourceType=x", "r?associationType=x"]
    )
    def test_what_is_not_there_is_not_found(self, api: Api, query: str) -> None:
        post(api, weak("s"))
        name = query.partition("?")[0]
        assert refused(api, lambda: api.delete(f"/associations/resources/{query}")) == (
            40410,
            f"Association for '{name}' not found.",
        )

    def test_a_strong_one_goes_only_with_its_subject(self, api: Api) -> None:
        post(api, strong(), strong(R_WIDER, "key"))
        api.put("/config/:.ns:n-value", {"compatibility": "NONE"})
        message = "The association of type  'key' is frozen for subject ':.ns:n-key'"
        written = len(api.backend.log)
        assert refused(api, lambda: api.delete("/associations/resources/r")) == (40908, message)
        assert api.delete("/associations/resources/r?cascadeLifecycle=true").status == 204
        assert (of(api), api.get("/subjects?deleted=true").json) == ([], ["s", "t"])
        told = [orjson.loads(each.key or b"") for each in api.backend.log[written:]]
        assert [(each["keytype"], each["subject"]) for each in told] == [
            ("ASSOC", ":.ns:n-key"), ("ASSOC", ":.ns:n-value"),
            ("DELETE_SUBJECT", ":.ns:n-key"), ("SCHEMA", ":.ns:n-key"),
            ("DELETE_SUBJECT", ":.ns:n-value"), ("SCHEMA", ":.ns:n-value"), ("CONFIG", ":.ns:n-value"),
        ]  # fmt: skip
        assert made(post(api, strong()))[0]["subject"] == ":.ns:n-value"

    def test_a_cascade_leaves_the_subject_of_a_weak_one(self, api: Api) -> None:
        post(api, weak("s"))
        assert api.delete("/associations/resources/r?cascadeLifecycle=true").status == 204
        assert api.get("/subjects").json == ["s", "t"]

    def test_a_cascade_leaves_a_subject_that_is_imported(self, api: Api) -> None:
        post(api, strong())
        api.put("/mode/:.ns:n-value?force=true", {"mode": "IMPORT"})
        assert api.delete("/associations/resources/r?cascadeLifecycle=true").status == 204
        assert api.get("/subjects/:.ns:n-value/versions").json == [1]


class TestSubjects:
    def test_an_associated_subject_is_not_deleted(self, api: Api) -> None:
        post(api, weak("s"))
        message = "An association already exists for subject 's'"
        assert refused(api, lambda: api.delete("/subjects/s")) == (40904, message)

    def test_it_keeps_an_active_version(self, api: Api) -> None:
        api.put("/config/s", {"compatibility": "NONE"})
        api.register("s", INT)
        post(api, weak("s"))
        assert api.delete("/subjects/s/versions/1").json == 1
        message = "No active (non-deleted) version exists for subject 's'"
        assert refused(api, lambda: api.delete("/subjects/s/versions/2")) == (40907, message)
        assert api.delete("/subjects/s/versions/1?permanent=true").json == 1
        api.delete("/associations/resources/r")
        assert api.delete("/subjects/s/versions/2").json == 2


def test_a_subject_of_a_long_name_has_associations(api: Api) -> None:
    name = "l" * 300
    api.register(name, STRING)
    post(api, weak(name), resourceId="i" * 300, name="n" * 256, resourceNamespace="m" * 256)
    assert of(api, "i" * 300) == [("value", name, "WEAK")]
    assert len(api.get(f"/associations/resources/{'m' * 256}/{'n' * 256}").json) == 1
    assert api.delete(f"/associations/resources/{'i' * 300}").status == 204
    assert api.get("/associations/resources/-/-").json == []


PII = {"schemaEntity": {"entityPath": "R", "entityType": "sr_record"}, "tags": ["PII"]}


class TestTags:
    def test_a_schema_comes_with_tags(self, api: Api) -> None:
        for number, members in enumerate(
            (
                {"schemaTagsToAdd": [PII]},
                {"propagateSchemaTags": True},
                {"schemaTagsToRemove": [PII]},
            )
        ):
            wanted = {"schema": {"schema": R_WIDER if number else R, **members}}
            (found,) = (put if number else post)(api, wanted).json["associations"]
            tagged = '"confluent:tags":["PII"]' in found["schema"]["schema"]
            assert (found["schema"]["version"], tagged) == (number + 1, number < 2)

    @pytest.mark.parametrize("query", ["", "?dryRun=true"])
    def test_tags_of_what_is_not_there_are_refused(self, api: Api, query: str) -> None:
        entity = {"schemaEntity": {"entityPath": "None", "entityType": "sr_record"}, "tags": ["PII"]}
        wanted = {"schema": {"schema": R, "schemaTagsToAdd": [entity]}}
        assert refused(api, lambda: post(api, wanted, query=query))[0] == 42201
