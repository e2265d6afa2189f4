"""Requests about what a census found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.driver import Api, Reply
from tests.api.permitting import PermittingApi, rule

CENSUS = {
    "id": "c1", "location": "/census/c1", "sha256": "00", "started": 10, "ended": 20, "complete": True,
    "patterns": ["*"], "sources": 1, "unread": 0, "partitions": 3, "messages": 4, "base": "",
}  # fmt: skip
USES = [["value", "id", 1, 3, 60, 5, 7, True], ["key", "none", None, 1, 4, 5, 5, True]]


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as found:
        yield found


def put(api: Api, path: str, body: Any, **more: Any) -> Reply:
    return api.request("PUT", path, body, {"content-type": "application/json"}, **more)


def usage(**members: Any) -> dict[str, Any]:
    return {"census": "c1", "state": "read", "ms": 9, "messages": 4, "uses": USES, **members}


def test_what_is_published_is_returned(api: Api) -> None:
    assert api.get("/usage/census").error[:2] == (404, 40482)
    assert put(api, "/usage/sources/orders", usage()).status == 204
    assert put(api, "/usage/census", CENSUS).status == 204
    assert api.get("/usage/census").json == CENSUS
    source = {"source": "orders", "reason": "", "context": ".", **usage()}
    assert api.get("/usage/sources/orders").json == source
    assert api.get("/usage/sources").json == [source]
    assert api.request("DELETE", "/usage/sources/orders").status == 204
    assert api.get("/usage/sources/orders").error == (404, 40483, "Source 'orders' not found.")


def test_an_equal_value_appends_nothing(api: Api) -> None:
    for _ in range(2):
        put(api, "/usage/sources/orders", usage())
        put(api, "/usage/census", CENSUS)
    assert len(api.backend.log) == 2


def test_a_source_may_be_a_path(api: Api) -> None:
    name = "/data/2026/*.parquet#value"
    assert put(api, f"/usage/sources/{quote(name, safe='')}", usage()).status == 204
    assert [each["source"] for each in api.get("/usage/sources").json] == [name]


def test_sources_come_in_pages(api: Api) -> None:
    for name in ("a", "b", "c" * 200):
        put(api, f"/usage/sources/{name}", usage())
    first = api.get("/usage/sources?limit=2")
    assert [each["source"] for each in first.json] == ["a", "b"]
    following = first.headers["link"].partition("<")[2].partition(">")[0]
    assert [each["source"] for each in api.get(following).json] == ["c" * 200]
    assert [each["source"] for each in api.get("/usage/sources?offset=1&limit=1").json] == ["b"]


def test_bad_bodies_are_refused_and_change_nothing(api: Api) -> None:
    for body, code in (({}, 42284), (usage(state="half"), 42284), ([], 400), (None, 422)):
        assert put(api, "/usage/sources/orders", body).error[1] == code
    assert put(api, "/usage/census", {**CENSUS, "unread": 1}).error[1] == 42284
    many = usage(uses=[USES[0]] * 20_001)
    assert put(api, "/usage/sources/orders", many).error[1] == 42284
    assert api.backend.log == []


def test_places_in_the_census_are_only_for_administrators() -> None:
    with PermittingApi(rule("reader", "reader", "*") + rule("admin", "admin", "*")) as api:
        put(api, "/usage/census", CENSUS, user="admin")
        assert api.request("GET", "/usage/census", user="admin").json == CENSUS
        shown = api.request("GET", "/usage/census", user="reader").json
        assert CENSUS.keys() - shown.keys() == {"location", "sha256", "patterns"}
        assert api.request("GET", "/usage/sources", user="reader").status == 403
