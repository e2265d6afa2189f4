"""Requests for snapshots to running registries, over HTTP."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson

from registry.base.processes import file_lock
from tests.support.running import Registry, Served, until

BUILT_S = 60.0
KIND = "application/vnd.schemaregistry.v1+json"


def http(method: str, node: Served, path: str, **given: Any) -> httpx.Response:
    return httpx.request(method, f"{node.url}{path}", timeout=40.0, **given)


def ask(node: Served) -> dict[str, Any]:
    """Request a snapshot; return its entry."""
    asked = http("POST", node, "/admin/snapshots")
    assert asked.status_code == 202, asked.text
    entry: dict[str, Any] = asked.json()
    assert asked.headers["location"] == f"/admin/snapshots/{entry['id']}"
    return entry


def snapshots(node: Served) -> list[dict[str, Any]]:
    listed = http("GET", node, "/admin/snapshots")
    assert listed.status_code == 200, listed.text
    entries: list[dict[str, Any]] = listed.json()
    return entries


def snapshot(node: Served, id: str) -> dict[str, Any]:
    found = http("GET", node, f"/admin/snapshots/{id}")
    assert found.status_code == 200, found.text
    entry: dict[str, Any] = found.json()
    return entry


def until_it_is(state: str, node: Served, id: str, timeout_s: float = BUILT_S) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        entry = snapshot(node, id)
        assert state == "failed" or not (entry["state"] == "failed" and entry["attempts"] >= 3), entry
        return entry if entry["state"] == state else None

    found: dict[str, Any] = until(there, timeout_s, f"the snapshot {id} to be {state}")
    return found


def until_begun(node: Served, id: str) -> None:
    """Return when a request no longer satisfies further ones."""
    until(lambda: snapshot(node, id)["state"] != "requested", BUILT_S, f"the build of {id} to begin")


@contextmanager
def held_up(data: Path) -> Iterator[None]:
    """Make builders in this data folder wait during the block, once they have taken the request."""
    lock = file_lock.hold(data / "building.lock")
    try:
        yield
    finally:
        os.close(lock)


def kill_builder(node: Served, id: str) -> int:
    """Kill the process that builds a snapshot, which must be held up; return the number of attempts."""
    entry = until_it_is("building", node, id)
    os.kill(int(entry["builder"].rpartition(":")[2]), signal.SIGKILL)
    attempts: int = entry["attempts"]
    return attempts


def register(node: Served, subject: str, field: str) -> httpx.Response:
    fields = [{"name": field, "type": "int", "default": 0}]
    schema = orjson.dumps({"type": "record", "name": "R", "fields": fields}).decode()
    return http(
        "POST",
        node,
        f"/subjects/{subject}/versions",
        content=orjson.dumps({"schema": schema}),
        headers={"content-type": KIND},
    )


def told(node: Registry) -> dict[str, Any]:
    """Return the status of the node."""
    found: dict[str, Any] = http("GET", node, "/node").json()
    return found
