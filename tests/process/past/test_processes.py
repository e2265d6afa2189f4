"""The history and the past of a running registry: readers, kills while it is filled, snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.log.embedded.log import EmbeddedLog
from tests.process.node.test_follower import history as said
from tests.support.running import Registry, until

RECORDS = 15_000
WAIT_S = 60.0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a node's folder with a store that has no history yet."""
    folder = tmp_path_factory.mktemp("past") / "data"
    folder.mkdir()
    log = EmbeddedLog(folder / "log")
    log.append(said(RECORDS))
    log.close()
    registry = Registry(folder, "--readers", "1", "--history", "false").wait()
    assert get(registry, "/subjects/subject-1/history").status_code == 501
    assert get(registry, "/subjects/subject-1/versions?atOffset=5").status_code == 501
    registry.stop()
    return folder


@pytest.fixture(scope="module")
def registry(data: Path) -> Iterator[Registry]:
    """Start it with history, and kill it while that is filled."""
    killed = Registry(data, "--readers", "1").wait()
    before = told(killed, "subject-1")
    until(lambda: _further(told(killed, "subject-1"), before), WAIT_S, "the filling")
    killed.kill()
    found = Registry(data, "--readers", "1", port=killed.port).wait()
    until(lambda: not told(found, "subject-1")["filling"], WAIT_S, "the history to be filled")
    yield found
    found.stop()


def _further(now: dict[str, Any], before: dict[str, Any]) -> bool:
    return now["completeFrom"] < before["completeFrom"] or not now["filling"]


def get(registry: Registry, path: str) -> httpx.Response:
    return httpx.get(registry.url + path, timeout=60)


def told(registry: Registry, subject: str, query: str = "") -> dict[str, Any]:
    answer = get(registry, f"/subjects/{subject}/history{query}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def register(registry: Registry, subject: str, field: str) -> int:
    """Register a version and return the offset of its record."""
    schema = f'{{"type":"record","name":"R","fields":[{{"name":"{field}","type":"int"}}]}}'
    url = f"{registry.url}/subjects/{subject}/versions"
    answer = httpx.post(url, json={"schema": schema}, timeout=60)
    assert answer.status_code == 200, answer.text
    return int(answer.headers["x-registry-offset"]) - 1


def test_a_history_that_was_filled_across_a_kill_lacks_nothing(registry: Registry) -> None:
    names = [(entry.key or b"") for entry in said(RECORDS)]
    found = told(registry, "subject-7", "?order=asc")
    assert found["completeFrom"] == 0
    expected = [offset for offset, key in enumerate(names) if b'"subject-7"' in key]
    assert [each["offset"] for each in found["events"]] == expected


def test_the_next_read_shows_what_was_written(registry: Registry) -> None:
    httpx.put(f"{registry.url}/config/mine", json={"compatibility": "NONE"}, timeout=60)
    for number in range(10):
        offset = register(registry, "mine", f"f{number}")
        newest = told(registry, "mine", "?limit=1")["events"][0]
        assert (newest["offset"], newest["version"]) == (offset, number + 1)
        assert get(registry, f"/subjects/mine/versions?atOffset={offset}").json() == [*range(1, number + 2)]
        assert len(get(registry, f"/subjects/mine/versions?atOffset={offset - 1}").content) > 0


def test_a_deleted_subject_is_reconstructed_from_a_snapshot_and_the_log(registry: Registry) -> None:
    first = register(registry, "gone", "a")
    text = get(registry, "/subjects/gone/versions/1").text
    place = httpx.post(f"{registry.url}/admin/snapshots", headers={"content-type": "application/json"}).json()
    path = f"/admin/snapshots/{place['id']}"
    until(lambda: get(registry, path).json()["state"] == "ready", WAIT_S, "the snapshot")
    httpx.put(f"{registry.url}/config/gone", json={"compatibility": "FULL"}, timeout=60)
    changed = told(registry, "gone", "?limit=1")["events"][0]["offset"]
    for query in ("", "?permanent=true"):
        assert httpx.delete(f"{registry.url}/subjects/gone{query}", timeout=60).status_code == 200
    assert get(registry, "/subjects/gone/versions/1").status_code == 404
    assert get(registry, f"/subjects/gone/versions/1?atOffset={first}").text == text
    assert get(registry, f"/subjects/gone/versions/latest?atOffset={changed}").text == text
    assert get(registry, f"/config/gone?atOffset={changed}").json() == {"compatibilityLevel": "FULL"}
    assert get(registry, f"/config/gone?atOffset={changed - 1}").status_code == 404
    assert get(registry, f"/subjects/gone/versions/1?atOffset={first - 1}").status_code == 404


def test_what_lies_in_the_future_is_refused(registry: Registry) -> None:
    end = get(registry, "/node").json()["end"]
    assert get(registry, f"/subjects/subject-1/versions?atOffset={end}").status_code == 400
    assert get(registry, "/subjects/subject-1/versions?atTime=2100-01-01").status_code == 400
    assert get(registry, f"/subjects/subject-7/versions?deleted=true&atOffset={end - 1}").status_code == 200
