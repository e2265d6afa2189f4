"""The change feed as pages: parameters, filters, permissions and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.events import Kind
from registry.domain.log_format import records
from tests.api.driver import Api, Reply, record
from tests.api.permitting import PermittingApi, rule

SCHEMA = record("R", "a")


@pytest.fixture
def api() -> Any:
    with Api() as api:
        api.register("orders-value", SCHEMA)
        api.register(":.c:orders-value", SCHEMA)
        assert api.put("/config/orders-value", {"compatibility": "FULL"}).status == 200
        assert api.put("/mode", {"mode": "READONLY"}).status == 200
        api.backend.append(records.SNAPSHOT_KEY, b"{}")
        yield api


def kinds(reply: Reply) -> list[tuple[str, str | None]]:
    assert reply.status == 200, reply.body
    return [(each["kind"], each.get("subject", each.get("context"))) for each in reply.json["events"]]


ALL = [
    ("version_registered", "orders-value"),
    ("context_created", ".c"),
    ("version_registered", ":.c:orders-value"),
    ("config_set", "orders-value"),
    ("mode_set", "."),
    ("snapshot_requested", None),
]


def test_all_changes_come_in_the_order_of_the_log(api: Api) -> None:
    reply = api.get("/changes?after=-1")
    assert kinds(reply) == ALL
    offsets = [each["offset"] for each in reply.json["events"]]
    assert offsets == sorted(offsets)
    assert reply.json["next"] == len(api.backend.log) - 1
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    first = reply.json["events"][0]
    assert first | {"offset": 0, "time": 0} == {
        "offset": 0, "time": 0, "kind": "version_registered", "context": ".", "subject": "orders-value",
        "version": 1, "id": 1, "type": "AVRO",
    }  # fmt: skip


def test_next_leads_through_all_pages(api: Api) -> None:
    found, after = [], -1
    for _ in range(len(ALL)):
        page = api.get(f"/changes?after={after}&limit=1")
        assert len(page.json["events"]) == 1
        found += kinds(page)
        after = page.json["next"]
    assert found == ALL
    assert api.get(f"/changes?after={after}").json == {"events": [], "next": after}


def test_without_a_position_the_feed_begins_now(api: Api) -> None:
    assert api.get("/changes").json == {"events": [], "next": len(api.backend.log) - 1}


def test_last_event_id_counts_more_than_the_query(api: Api) -> None:
    end = len(api.backend.log) - 1
    assert api.get("/changes?after=-1", last_event_id=str(end)).json["events"] == []
    assert kinds(api.get(f"/changes?after={end}", last_event_id="-1")) == ALL


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=config_set", ["config_set"]),
        ("kind=config_set,mode_set", ["config_set", "mode_set"]),
        ("kind=config_set&kind=mode_set,", ["config_set", "mode_set"]),
        ("subjectPrefix=orders", ["version_registered", "config_set"]),
        ("subjectPrefix=", ["version_registered", "config_set", "mode_set"]),
        ("subjectPrefix=:.c:", ["context_created", "version_registered"]),
        ("subjectPrefix=:*:orders&kind=version_registered", ["version_registered"] * 2),
        ("subjectPrefix=nothing", []),
    ],
)
def test_filters(api: Api, query: str, expected: list[str]) -> None:
    assert [kind for kind, _ in kinds(api.get(f"/changes?after=-1&{query}"))] == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/contexts/c/changes?after=-1", [".c", ":.c:orders-value"]),
        ("/contexts/.c/changes?after=-1&subjectPrefix=orders", [":.c:orders-value"]),
        ("/contexts/./changes?after=-1", ["orders-value", "orders-value", "."]),
    ],
)
def test_a_context_shows_its_own_changes(api: Api, path: str, expected: list[str]) -> None:
    assert [about for _, about in kinds(api.get(path))] == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("after=x", "after must be an offset or -1"),
        ("after=-2", "after must be an offset or -1"),
        ("after=1234567890123456789", "after must be an offset or -1"),
        ("limit=0", "limit is not between 1 and 1000"),
        ("limit=1001", "limit is not between 1 and 1000"),
        ("wait_ms=-1", "wait_ms is not between 0 and 30000"),
        ("wait_ms=30001", "wait_ms is not between 0 and 30000"),
        ("kind=Config_set", f"kind names an unknown kind of event; known are {', '.join(Kind)}"),
    ],
)
def test_wrong_parameters_are_refused(api: Api, query: str, message: str) -> None:
    assert api.get(f"/changes?{query}").error == (400, 400, message)


def test_a_wrong_last_event_id_is_refused(api: Api) -> None:
    refused = api.get("/changes", last_event_id="a").error
    assert refused == (400, 400, "Last-Event-ID must be an offset or -1")


def test_an_offset_beyond_the_end_is_refused_only_after_the_log_was_asked(api: Api) -> None:
    end = len(api.backend.log)
    message = f"after is beyond the end of the log: its last offset is {end - 1}"
    assert api.get(f"/changes?after={end}").error == (400, 400, message)
    api.backend.lag()
    assert api.get(f"/changes?after={end - 1}").json == {"events": [], "next": end - 1}
    api.backend.lag()
    api.backend.fresh = False
    refused = api.get(f"/changes?after={end - 1}")
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")


def test_deleted_records_are_reported_with_the_oldest_offset(api: Api) -> None:
    api.backend.deleted_before = 3
    message = (
        "The records after offset 0 are no longer in the log; the oldest one left has offset 3, so "
        "resume after 2"
    )
    assert api.get("/changes?after=0").error == (410, 41080, message)
    streamed = api.get("/changes?after=0", accept="text/event-stream")
    assert streamed.error == (410, 41080, message)
    assert kinds(api.get("/changes?after=2")) == kinds(api.get("/changes?after=-1"))


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json, text/event-stream;q=0.5"])
def test_a_head_request_shows_what_a_stream_would_be(api: Api, accept: str) -> None:
    reply = api.request("HEAD", "/changes", headers={"accept": accept})
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.body == b""


@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "application/json", "text/event-stream;q=0", "text/event-stream; charset=utf-8; q=0.000"],
)
def test_others_get_pages(api: Api, accept: str) -> None:
    assert api.get("/changes", accept=accept).headers["content-type"] == "application/json"


def test_options_names_the_methods(api: Api) -> None:
    assert api.request("OPTIONS", "/changes").headers["allow"] == "GET, HEAD, OPTIONS"
    assert api.post("/changes").status == 405


@pytest.mark.parametrize(
    ("operations", "subjects", "expected"),
    [
        ("read", "orders-*", ["version_registered", "config_set"]),
        ("read", ":.c:*", ["context_created", "version_registered"]),
        ("read", ":.c:orders-value", ["version_registered"]),
        ("config", ":.:*", []),
        ("mode", "*", ["mode_set"]),
        ("read,mode", "*", [kind for kind, _ in ALL[:-1]]),
        ("admin", "*", [kind for kind, _ in ALL]),
        ("read", "other", []),
    ],
)
def test_a_principal_sees_what_it_may_read(operations: str, subjects: str, expected: list[str]) -> None:
    with PermittingApi(rule("some", operations, subjects)) as api:
        for subject in ("orders-value", ":.c:orders-value"):
            api.register(subject, SCHEMA)
        api.put("/config/orders-value", {"compatibility": "FULL"})
        api.put("/mode", {"mode": "READONLY"})
        api.backend.append(records.SNAPSHOT_KEY, b"{}")
        assert kinds(api.get("/changes?after=-1")) == ALL
        assert [kind for kind, _ in kinds(api.request("GET", "/changes?after=-1", user="some"))] == expected
