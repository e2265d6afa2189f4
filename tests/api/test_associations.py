"""Associations through the API: rules, refusals, batches, dry runs, lists, filters, records."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest

from tests.api.driver import FIRST_TS, Api, Reply, record

STRING, INT = '"string"', '"int"'
R, R_WIDER, R_OTHER = record("R", "a"), record("R", "a", "b"), '{"type":"record","name":"Q","fields":[]}'


@pytest.fixture
def api() -> Iterator[Api]:
    """A registry with the subjects ``s`` and ``t``."""
    with Api() as found:
        found.register("s", STRING)
        found.register("t", INT)
        yield found


def resource(*associations: dict[str, Any], name: str = "n", **members: Any) -> dict[str, Any]:
    found = {"resourceName": name, "resourceNamespace": "ns", "resourceId": "r", "resourceType": "topic"}
    return found | {"associations": [*associations]} | members


def weak(subject: str = "s", kind: str = "value", **members: Any) -> dict[str, Any]:
    return {"subject": subject, "associationType": kind, **members}


def strong(schema: str = R, kind: str = "value", **members: Any) -> dict[str, Any]:
    return {"associationType": kind, "schema": {"schema": schema}, **members}


def post(api: Api, *associations: dict[str, Any], query: str = "", **members: Any) -> Reply:
    return api.post(f"/associations{query}", resource(*associations, **members))


def put(api: Api, *associations: dict[str, Any], query: str = "", **members: Any) -> Reply:
    body = resource(*associations, **members)
    return api.put(f"/associations/resources/{body['resourceId']}{query}", body)


def mutate(api: Api, *requests: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
    reply = api.post(f"/associations:batchMutate{query}", {"requests": [*requests]})
    assert reply.status == 207, reply.body
    found: list[dict[str, Any]] = reply.json["results"]
    return found


def made(reply: Reply) -> list[dict[str, Any]]:
    """What an answer says of associations, without their schemas."""
    assert reply.status == 200, reply.body
    listed = reply.json.get("associations", [])
    return [{name: value for name, value in each.items() if name != "schema"} for each in listed]


def of(api: Api, resource_id: str = "r") -> list[tuple[str, str, str]]:
    """Type, subject and lifecycle of a resource's associations."""
    listed = api.get(f"/associations/resources/{resource_id}").json
    return [(each["associationType"], each["subject"], each["lifecycle"]) for each in listed]


def refused(api: Api, ask: Callable[[], Reply]) -> tuple[int, str]:
    """Code and message of a request that must be refused and write nothing."""
    written, ids = len(api.backend.log), api.backend.ids.saved()
    status, code, message = ask().error
    assert (len(api.backend.log), api.backend.ids.saved()) == (written, ids)
    assert status == (code if code < 1000 else code // 100)
    return code, message


def invalid(member: str, detail: str) -> tuple[int, str]:
    return 42212, f"The association specified an invalid value for property: '{member}', detail: {detail}"


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


class TestDryRun:
    @pytest.mark.parametrize("wanted", [weak(), strong()])
    def test_it_answers_without_associations_and_without_effect(self, api: Api, wanted: Any) -> None:
        rows, ids = dict(api.backend.rows.rows()), api.backend.ids.saved()
        reply = post(api, wanted, query="?dryRun=true", resourceId=None)
        assert reply.json == {"resourceName": "n", "resourceNamespace": "ns", "resourceType": "topic"}
        put(api, weak(), query="?dryRun=true")
        mutate(api, resource({"opType": "CREATE", **wanted}), query="?dryRun=true")
        assert (dict(api.backend.rows.rows()), api.backend.ids.saved()) == (rows, ids)

    def test_it_refuses_as_the_real_one_would(self, api: Api) -> None:
        post(api, strong())
        written = len(api.backend.log)
        assert refused(api, lambda: post(api, weak("none"), query="?dryRun=true", name="m"))[0] == 40903
        assert (
            refused(api, lambda: post(api, weak("none"), query="?dryRun=true", name="m", resourceId=None))[0]
            == 40907
        )
        assert refused(api, lambda: put(api, strong(R_OTHER), query="?dryRun=true"))[0] == 40901
        assert refused(api, lambda: api.delete("/associations/resources/r?dryRun=true"))[0] == 40908
        assert api.delete("/associations/resources/r?dryRun=true&cascadeLifecycle=true").status == 204
        assert api.delete("/associations/resources/q?dryRun=true").error[1] == 40410
        assert len(api.backend.log) == written

    def test_without_an_id_the_resource_is_found_by_its_name(self, api: Api) -> None:
        post(api, strong())
        assert post(api, strong(), query="?dryRun=true", resourceId=None).status == 200
        assert (
            refused(api, lambda: post(api, weak(kind="key"), query="?dryRun=true", resourceId=None))[0]
            == 42212
        )

    def test_of_resources_that_share_a_name_the_newest_counts(self, api: Api) -> None:
        post(api, strong(kind="key"), resourceId="older")
        post(api, weak("s"), resourceId="newer")
        assert post(api, weak("s"), query="?dryRun=true", resourceId=None).status == 200

    def test_requests_of_a_batch_see_those_before_them(self, api: Api) -> None:
        requests = (
            resource({"opType": "CREATE", **strong()}),
            resource({"opType": "DELETE", "cascadeLifecycle": True}),
            resource({"opType": "DELETE"}),
        )
        written = len(api.backend.log)
        dry, real = mutate(api, *requests, query="?dryRun=true"), mutate(api, *requests)
        assert [next(iter(each)) for each in dry] == [next(iter(each)) for each in real]
        assert [next(iter(each)) for each in real] == ["result", "result", "error"]
        assert "associations" not in dry[0]["result"]
        assert len(real[0]["result"]["associations"]) == 1
        assert len(api.backend.log) > written


class TestBatches:
    def test_each_request_is_answered_by_itself_in_order(self, api: Api) -> None:
        results = mutate(
            api,
            resource({"opType": "CREATE", **weak("s")}, {"opType": "CREATE", **weak("t", "key")}),
            resource({"opType": "CREATE", **weak("none")}, name="m", resourceId="r2"),
            resource({"opType": "UPSERT", **weak("t")}, name="o", resourceId="r3"),
        )
        first, second, third = results
        assert [each["subject"] for each in first["result"]["associations"]] == ["s", "t"]
        message = "No active (non-deleted) version exists for subject 'none'"
        assert second == {"error": {"error_code": 40907, "message": message}}
        assert third["result"]["resourceId"] == "r3"
        assert of(api) == [("key", "t", "WEAK"), ("value", "s", "WEAK")]
        assert (of(api, "r2"), of(api, "r3")) == ([], [("value", "t", "WEAK")])

    def test_a_run_of_one_kind_is_all_or_nothing(self, api: Api) -> None:
        ops = [{"opType": "UPSERT", **weak("s", "key")}, {"opType": "UPSERT", **weak("none")}]
        (result,) = mutate(api, resource(*ops))
        assert (result["error"]["error_code"], of(api)) == (40907, [])
        ops = [{"opType": "CREATE", **strong()}, {"opType": "CREATE", **strong("{", "key")}]
        (result,) = mutate(api, resource(*ops))
        assert (result["error"]["error_code"], api.get("/subjects").json) == (42201, ["s", "t"])
        assert api.register("u", '"long"') == 3

    def test_what_was_done_before_a_refused_run_stands(self, api: Api) -> None:
        ops = [{"opType": "CREATE", **weak("s", "key")}, {"opType": "UPSERT", **weak("none")}]
        (result,) = mutate(api, resource(*ops))
        assert (result["error"]["error_code"], of(api)) == (40907, [("key", "s", "WEAK")])

    def test_after_a_removal_what_is_left_is_told(self, api: Api) -> None:
        post(api, weak("s", "key"))
        ops = [{"opType": "CREATE", **weak("t")}, {"opType": "DELETE", "associationType": "key"}]
        (result,) = mutate(api, resource(*ops))
        assert [each["subject"] for each in result["result"]["associations"]] == ["t"]
        (result,) = mutate(api, resource({"opType": "DELETE"}))
        assert "associations" not in result["result"]
        (result,) = mutate(api, resource({"opType": "DELETE"}))
        assert result == {"error": {"error_code": 40410, "message": "Association for 'r' not found."}}

    def test_a_strong_one_is_removed_with_its_subject(self, api: Api) -> None:
        post(api, strong())
        kept, gone = mutate(
            api,
            resource({"opType": "DELETE"}),
            resource({"opType": "DELETE", "associationType": "value", "cascadeLifecycle": True}),
        )
        assert kept["error"]["error_code"] == 40908
        assert "result" in gone
        assert api.get("/subjects?deleted=true").json == ["s", "t"]

    @pytest.mark.parametrize(("path", "most"), [("batchGet", 1000), ("batchMutate", 500)])
    def test_a_batch_holds_requests_and_not_too_many(self, api: Api, path: str, most: int) -> None:
        bodies: tuple[dict[str, Any], ...] = ({}, {"requests": []}, {"requests": None})
        for body in bodies:
            assert refused(api, partial(api.post, f"/associations:{path}", body)) == invalid(
                "requests", "cannot be null or empty"
            )
        assert refused(
            api, lambda: api.post(f"/associations:{path}", {"requests": [{}] * (most + 1)})
        ) == invalid("requests", f"cannot be more than {most}")
        junk: tuple[Any, ...] = ("x", [None], [{"resourceName": {}}])
        for bad in ({"requests": each} for each in junk):
            assert api.post(f"/associations:{path}", bad).error[:2] == (400, 400)

    def test_many_are_got_at_once(self, api: Api) -> None:
        post(api, weak("s"), weak("t", "key"))
        requests = [
            {"resourceId": "r"},
            {"resourceName": "n", "resourceNamespace": "ns", "associationTypes": ["key"]},
            {"resourceId": "r", "lifecycle": "STRONG"},
            {"resourceId": "q", "resourceName": "m", "resourceType": "topic"},
            {"resourceName": "n"},
            {"resourceName": "-", "resourceNamespace": "-"},
        ]
        reply = api.post("/associations:batchGet", {"requests": requests})
        assert reply.status == 207
        named = {"resourceName": "n", "resourceNamespace": "ns", "resourceId": "r", "resourceType": "topic"}
        key = {"subject": "t", "associationType": "key", "lifecycle": "WEAK", "frozen": False}
        value = {"subject": "s", "associationType": "value", "lifecycle": "WEAK", "frozen": False}
        detail = "cannot be null or empty without a name and a namespace"
        assert reply.json["results"] == [
            {"result": named | {"associations": [key, value]}},
            {"result": named | {"associations": [key]}},
            {"result": named},
            {"result": {"resourceName": "m", "resourceId": "q", "resourceType": "topic"}},
            {"error": {"error_code": 42212, "message": invalid("resourceId", detail)[1]}},
            {"result": {"resourceName": "-", "resourceNamespace": "-", "resourceType": "topic"}},
        ]

    def test_they_are_got_with_their_latest_schemas(self, api: Api) -> None:
        post(api, strong())
        put(api, strong(R_WIDER))
        body = {"requests": [{"resourceId": "r"}]}
        reply = api.post("/associations:batchGet?includeSchemas=true", body)
        (found,) = reply.json["results"][0]["result"]["associations"]
        assert found["schema"] == api.get("/subjects/:.ns:n-value/versions/latest").json


class TestLists:
    @pytest.fixture(autouse=True)
    def _some(self, api: Api) -> None:
        post(api, weak("s"), weak("t", "key"), name="b", resourceId="1")
        post(api, weak("s"), name="a", resourceId="2", resourceNamespace="other")
        post(api, strong(), name="c", resourceId="3")

    @pytest.mark.parametrize(
        ("path", "found"),
        [
            ("subjects/s", ["a-value", "b-value"]),
            ("subjects/none", []),
            ("subjects/:.ns:c-value", ["c-value"]),
            ("subjects/s?limit=1&offset=1", ["b-value"]),
            ("subjects/s?associationType=key", []),
            ("resources/1", ["b-key", "b-value"]),
            ("resources/1?associationType=value", ["b-value"]),
            ("resources/1?associationType=value&associationType=key", ["b-key", "b-value"]),
            ("resources/1?lifecycle=STRONG", []),
            ("resources/3?lifecycle=STRONG", ["c-value"]),
            ("resources/1?resourceType=queue", []),
            ("resources/1?resourceType=&lifecycle=", ["b-key", "b-value"]),
            ("resources/9", []),
            ("resources/ns/b", ["b-key", "b-value"]),
            ("resources/other/b", []),
            ("resources/-/b", ["b-key", "b-value"]),
            ("resources/other/-", ["a-value"]),
            ("resources/ns/-", ["b-key", "b-value", "c-value"]),
            ("resources/-/-", ["a-value", "b-key", "b-value", "c-value"]),
            ("resources/-/-?offset=1&limit=2", ["b-key", "b-value"]),
            ("resources/-/-?limit=1001&lifecycle=WEAK", ["a-value", "b-key", "b-value"]),
        ],
    )
    def test_they_are_sorted_chosen_and_cut(self, api: Api, path: str, found: list[str]) -> None:
        listed = api.get(f"/associations/{path}").json
        assert [f"{each['resourceName']}-{each['associationType']}" for each in listed] == found

    def test_an_unknown_lifecycle_does_not_exist(self, api: Api) -> None:
        for path in ("/associations/subjects/s?lifecycle=LOOSE", "/schemas?lifecycle=LOOSE"):
            assert api.get(path).error == (404, 404, "HTTP 404 Not Found")
        assert api.get("/associations/subjects/s?lifecycle=NONE").status == 404
        assert api.get("/associations/subjects/s?offset=-1").error[:2] == (422, 422)

    def test_an_association_is_told_in_confluents_order(self, api: Api) -> None:
        (found,) = api.get("/associations/resources/3").json
        assert list(found) == [
            "subject", "guid", "resourceName", "resourceNamespace", "resourceId", "resourceType",
            "associationType", "lifecycle", "createTs", "updateTs",
        ]  # fmt: skip
        assert found["createTs"] == found["updateTs"] == FIRST_TS + len(api.backend.log) - 1

    def test_an_alias_leads_to_its_subject(self, api: Api) -> None:
        api.put("/config/nick", {"alias": "s"})
        assert len(api.get("/associations/subjects/nick").json) == 2

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("", [":.ns:c-value", "s", "t", "u"]),
            ("resourceType=topic", [":.ns:c-value", "s", "t"]),
            ("resourceType=queue", []),
            ("associationType=key", ["t"]),
            ("associationType=key&associationType=value", [":.ns:c-value", "s", "t"]),
            ("lifecycle=WEAK", ["s", "t"]),
            ("lifecycle=STRONG", [":.ns:c-value"]),
            ("lifecycle=NONE", ["u"]),
            ("lifecycle=NONE&associationType=key", ["u"]),
            ("lifecycle=NONE&lifecycle=STRONG&resourceType=topic", [":.ns:c-value", "u"]),
            ("associationType=value&lifecycle=WEAK&limit=1", ["s"]),
            ("associationType=&lifecycle=&resourceType=", [":.ns:c-value", "s", "t", "u"]),
        ],
    )
    def test_subjects_and_schemas_are_filtered_by_them(self, api: Api, query: str, found: list[str]) -> None:
        api.register("u", STRING)
        assert api.get(f"/subjects?{query}").json == found
        listed = api.get(f"/schemas?subjectPrefix=:*:&{query}").json
        assert [each["subject"] for each in listed] == found

    def test_schemas_are_listed_with_the_chosen_associations(self, api: Api) -> None:
        api.put("/config/nick", {"alias": "s"})
        assert all("associations" not in each for each in api.get("/schemas?subjectPrefix=:*:").json)
        listed = api.get("/schemas?lifecycle=WEAK&aliases=true").json
        assert [len(each["associations"]) for each in listed] == [2, 1]
        assert listed[0]["associations"] == api.get("/associations/subjects/s").json
        assert listed[0]["aliases"] == ["nick"]
        (one,) = api.get("/schemas?associationType=key").json
        assert [each["resourceId"] for each in one["associations"]] == ["1"]
        api.register("u", STRING)
        (none,) = api.get("/schemas?lifecycle=NONE").json
        assert "associations" not in none

    def test_all_versions_of_a_subject_are_listed_with_them(self, api: Api) -> None:
        put(api, strong(R_WIDER), name="c", resourceId="3")
        listed = api.get("/schemas?subjectPrefix=:.ns:&lifecycle=STRONG").json
        assert [each["version"] for each in listed] == [1, 2]
        assert listed[0]["associations"] == listed[1]["associations"]
        assert len(api.get("/schemas?subjectPrefix=:.ns:&lifecycle=STRONG&latestOnly=true").json) == 1


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
