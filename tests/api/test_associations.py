"""Associations: their records, and behavior that conversations cannot express."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from registry.domain.log_format.subject_values import (
    WRITTEN_WITHIN_MS,
    creation_time,
    guid_with_time,
    new_guid,
    time_of_guid,
)
from tests.api.associating import (
    FORMER,
    R_OTHER,
    R_WIDER,
    STRING,
    R,
    invalid,
    made,
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

KEY = (
    b'{"keytype":"ASSOC","tenant":"default","resourceName":"n","resourceNamespace":"ns",'
    b'"resourceType":"topic","associationType":"value","subject":"s","magic":0}'
)


@pytest.fixture
def api() -> Iterator[Api]:
    with two_subjects() as found:
        yield found


@pytest.fixture
def former() -> Iterator[Api]:
    """Return a registry with the rules of 8.3."""
    with two_subjects(FORMER) as found:
        yield found


def listed(api: Api, resource_id: str = "r") -> dict[str, Any]:
    (found,) = api.get(f"/associations/resources/{resource_id}").json
    return dict(found)


class TestRecords:
    def test_they_are_confluents_byte_for_byte(self, api: Api) -> None:
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

    def test_an_update_writes_the_same_key_and_guid_and_the_time_of_creation(self, former: Api) -> None:
        post(former, weak())
        first = former.backend.log[-1]
        assert (first.value or b"").endswith(b'"subject":"s","lifecycle":"WEAK","frozen":false}')
        put(former, {"lifecycle": "STRONG"})
        second = former.backend.log[-1]
        assert second.key == first.key == KEY
        created = b'"STRONG","frozen":false,"createTs":%d}' % first.ts
        assert second.value == (first.value or b"").replace(b'"WEAK","frozen":false}', created)

    def test_a_tombstone_removes_it(self, api: Api) -> None:
        post(api, weak())
        assert api.delete("/associations/resources/r").status == 204
        assert (api.backend.log[-1].key, api.backend.log[-1].value) == (KEY, None)
        assert of(api) == []

    def test_a_cascade_removes_each_with_its_subject(self, api: Api) -> None:
        post(api, strong(), strong(R_WIDER, "key"))
        api.put("/config/:.ns:n-value", {"compatibility": "NONE"})
        written = len(api.backend.log)
        assert api.delete("/associations/resources/r?cascadeLifecycle=true").status == 204
        told = [orjson.loads(each.key or b"") for each in api.backend.log[written:]]
        assert [(each["keytype"], each["subject"]) for each in told] == [
            ("ASSOC", ":.ns:n-key"), ("DELETE_SUBJECT", ":.ns:n-key"), ("SCHEMA", ":.ns:n-key"),
            ("ASSOC", ":.ns:n-value"), ("DELETE_SUBJECT", ":.ns:n-value"), ("SCHEMA", ":.ns:n-value"),
            ("CONFIG", ":.ns:n-value"),
        ]  # fmt: skip
        assert made(post(api, strong()))[0]["subject"] == ":.ns:n-value"

    def test_without_frozen_it_is_not(self, api: Api) -> None:
        api.backend.append(KEY, b'{"guid":"g","resourceId":"r","lifecycle":"STRONG"}')
        assert listed(api)["frozen"] is False
        assert api.delete("/associations/resources/r").status == 204

    def test_what_a_record_says_of_its_creation_is_shown(self, api: Api) -> None:
        api.backend.append(
            KEY, b'{"guid":"g","resourceId":"r","lifecycle":"STRONG","frozen":false,"createTs":7}'
        )
        assert (listed(api)["createTs"], listed(api)["frozen"]) == (7, False)
        assert made(put(api, {"lifecycle": "WEAK"}))[0]["lifecycle"] == "WEAK"
        assert (listed(api)["guid"], listed(api)["updateTs"]) == ("g", FIRST_TS + len(api.backend.log) - 1)
        assert b'"createTs":7' in (api.backend.log[-1].value or b"")

    def test_the_time_of_creation_is_that_of_the_first_record_also_once_that_is_gone(
        self, former: Api
    ) -> None:
        former.register("s", STRING)
        post(former, weak())
        created = listed(former)["createTs"]
        assert created == listed(former)["updateTs"] == former.backend.log[-1].ts
        first = former.backend.log[-1]
        assert b"createTs" not in (first.value or b"")
        for lifecycle in ("STRONG", "WEAK"):
            put(former, {"lifecycle": lifecycle})
            assert listed(former)["createTs"] == created < listed(former)["updateTs"]
        former.backend.log.remove(first)
        former.backend.log.append(former.backend.log[-1])
        former.backend.lag()
        assert listed(former)["createTs"] == created

    def test_a_resource_of_the_same_name_and_another_id_keeps_the_time_of_creation(self, api: Api) -> None:
        post(api, weak())
        first = api.backend.log[-1]
        assert post(api, weak(), resourceId="other").status == 200
        assert api.backend.log[-1].key == first.key
        replaced = listed(api, "other")
        assert replaced["createTs"] == first.ts < replaced["updateTs"]

    def test_guids_carry_a_time(self) -> None:
        guid = new_guid(1_700_000_000_123, bytes(range(10)))
        assert (uuid.UUID(guid).version, uuid.UUID(guid).variant) == (7, uuid.RFC_4122)
        assert time_of_guid(guid) == 1_700_000_000_123
        other = guid_with_time(guid, 5)
        assert (time_of_guid(other), other[14:]) == (5, guid[14:])
        assert time_of_guid(str(uuid.uuid4())) is None
        assert time_of_guid("g") is None

    def test_the_time_in_the_guid_counts_once_a_record_is_too_young_to_be_the_first(self) -> None:
        guid = new_guid(1_000_000, bytes(range(10)))
        assert creation_time(guid, 1_000_004) == 1_000_004
        assert creation_time(guid, 1_000_000 + WRITTEN_WITHIN_MS + 1) == 1_000_000
        assert creation_time("g", 7) == 7


class TestRequests:
    def test_answers_say_at_which_offset_it_is_seen(self, api: Api) -> None:
        assert post(api, weak()).headers["x-registry-offset"] == str(len(api.backend.log))

    def test_a_repeat_writes_nothing(self, former: Api) -> None:
        post(former, strong(), weak(kind="key"))
        written = len(former.backend.log)
        for again in (strong(), strong() | {"lifecycle": "STRONG", "frozen": True}, weak(kind="key")):
            assert "associations" not in post(former, again).json
            if "schema" not in again:
                assert "associations" not in put(former, again).json
        assert len(former.backend.log) == written

    def test_no_more_associations_are_read_than_it_takes_to_refuse_them(self, api: Api) -> None:
        detail = "may only appear once per request, but 'value' appears more than once"
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

    def test_both_of_a_resource_may_have_the_same_schema(self, api: Api) -> None:
        told = post(api, strong(), strong(kind="key")).json["associations"]
        assert [each["schema"]["id"] for each in told] == [1, 1]

    def test_what_is_refused_takes_no_id(self, api: Api) -> None:
        assert refused(api, lambda: post(api, strong(), strong("{", "key")))[0] == 42201
        assert refused(api, lambda: post(api, strong(""), query="?dryRun=true")) == (42201, "Empty schema")
        assert api.register("u", '"long"') == 3

    def test_an_incompatible_schema_is_reported_by_its_messages_alone(self, api: Api) -> None:
        post(api, strong())
        refusal = refused(api, lambda: put(api, strong(R_OTHER)))
        assert refusal[0] == 40901
        assert refusal[1].startswith("[{errorType:'NAME_MISMATCH'")
        assert refusal[1].endswith("{validateFields: 'false', compatibility: 'BACKWARD'}]")


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
            ),
            1,
        ):
            wanted = {"schema": {"schema": R if number == 1 else R_WIDER, **members}}
            assert (post if number == 1 else put)(api, wanted).status == 200
            version = api.get("/subjects/:.ns:n-value/versions/latest").json
            tagged = '"confluent:tags":["PII"]' in version["schema"]
            assert (version["version"], tagged) == (number, number < 3)

    @pytest.mark.parametrize("query", ["", "?dryRun=true"])
    def test_tags_of_what_is_not_there_are_refused(self, api: Api, query: str) -> None:
        entity = {"schemaEntity": {"entityPath": "None", "entityType": "sr_record"}, "tags": ["PII"]}
        wanted = {"schema": {"schema": R, "schemaTagsToAdd": [entity]}}
        assert refused(api, lambda: post(api, wanted, query=query))[0] == 42201
