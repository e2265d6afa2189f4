"""Requests about associations that are only tried, and many at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.api.associating import (
    R_OTHER,
    R_WIDER,
    invalid,
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
from tests.api.driver import Api


@pytest.fixture
def api() -> Iterator[Api]:
    with two_subjects() as found:
        yield found


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

    @pytest.mark.parametrize(("path", "most"), [("batchGet", 1000), ("batchMutate", 200)])
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
