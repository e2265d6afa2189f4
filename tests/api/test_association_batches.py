"""Dry runs of requests about associations, and batches of requests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.api.associating import (
    FORMER,
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
        rows, ids = dict(api.backend.rows.rows()), api.backend.ids.save()
        reply = post(api, wanted, query="?dryRun=true", resourceId=None)
        assert reply.json == {"resourceName": "n", "resourceNamespace": "ns", "resourceType": "topic"}
        put(api, weak(), query="?dryRun=true")
        mutate(api, resource({"opType": "CREATE", **wanted}), query="?dryRun=true")
        assert (dict(api.backend.rows.rows()), api.backend.ids.save()) == (rows, ids)

    def test_it_refuses_as_the_real_one_would(self, api: Api) -> None:
        post(api, strong())
        written = len(api.backend.log)
        for wanted, options, code in (
            (weak("none"), {"name": "m"}, 42212),
            (weak("none"), {"name": "m", "resourceId": None}, 40907),
        ):
            assert refused(api, partial(post, api, wanted, query="?dryRun=true", **options))[0] == code
        assert refused(api, lambda: put(api, strong(R_OTHER), query="?dryRun=true"))[0] == 40901
        assert refused(api, lambda: api.delete("/associations/resources/r?dryRun=true"))[0] == 40908
        assert api.delete("/associations/resources/r?dryRun=true&cascadeLifecycle=true").status == 204
        assert api.delete("/associations/resources/q?dryRun=true").error[1] == 40410
        assert len(api.backend.log) == written

    def test_of_resources_that_share_a_name_the_newest_counts(self, api: Api) -> None:
        post(api, weak("t"), weak("s", "key"), resourceId="older")
        post(api, weak("s"), resourceId="newer")
        assert post(api, weak("s"), weak("t", "key"), query="?dryRun=true", resourceId=None).status == 200
        assert post(api, weak("t"), query="?dryRun=true", resourceId=None).error[1] == 40903


class TestBatches:
    def test_an_operation_is_all_or_nothing(self) -> None:
        ops = [{"opType": "CREATE", **strong()}, {"opType": "CREATE", **strong("{", "key")}]
        with two_subjects(FORMER) as former:
            (result,) = mutate(former, resource(*ops))
            assert (result["error"]["error_code"], of(former)) == (
                42212,
                [("value", ":.ns:n-value", "STRONG")],
            )
            assert former.get("/subjects").json == [":.ns:n-value", "s", "t"]
            assert former.register("u", '"long"') == 3

    def test_adjacent_operations_of_one_kind_are_all_or_nothing(self, api: Api) -> None:
        ops = [{"opType": "CREATE", **strong()}, {"opType": "CREATE", **strong("{", "key")}]
        (result,) = mutate(api, resource(*ops))
        assert (result["error"]["error_code"], of(api)) == (42212, [])
        assert api.get("/subjects").json == ["s", "t"]
        assert api.register("u", '"long"') == 3

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

    def test_a_batch_holds_not_too_many_operations(self, api: Api) -> None:
        ops = [{"opType": "CREATE", **weak()}] * 401
        ask = partial(api.post, "/associations:batchMutate", {"requests": [resource(*ops)]})
        assert refused(api, ask) == invalid("associations", "cannot be more than 400 in a batch")
        with two_subjects(FORMER) as former:
            assert "result" in mutate(former, resource(*ops[:400]))[0]

    def test_they_are_got_with_their_latest_schemas(self, api: Api) -> None:
        post(api, strong())
        put(api, strong(R_WIDER))
        body = {"requests": [{"resourceId": "r"}]}
        reply = api.post("/associations:batchGet?includeSchemas=true", body)
        (found,) = reply.json["results"][0]["result"]["associations"]
        assert found["schema"] == api.get("/subjects/:.ns:n-value/versions/latest").json
