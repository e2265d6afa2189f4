"""Searches for duplicates in a running registry: one at a time, in a process that ends with its answer."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.console import filled
from tests.process.test_lifecycle import alive, children
from tests.support.running import PATIENT, Registry, until

ONE = '{"type":"array","items":"int","x":1,"y":1}'
OTHER = '{"type":"array","items":"int","y":1,"x":1}'
WAIT_S = 30
# So many that no search is over before it is stopped.
SUBJECTS = 6_000
MODULE = b"registry.duplicates.process"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    data = tmp_path_factory.mktemp("duplicates") / "data"
    texts = {"a": ONE, "b": OTHER, "c": ONE, ":.x:other": OTHER}
    ids = range(SUBJECTS + 1, SUBJECTS + 5)
    equal = [
        filled.version(name, each, text=text) for each, (name, text) in zip(ids, texts.items(), strict=True)
    ]
    filled.write_log(data, [*filled.many(SUBJECTS), *equal])
    running = Registry(data, "--readers", "2").wait()
    yield running
    assert running.stop() == 0, running.output


def get(served: Registry, **query: str | int) -> httpx.Response:
    return httpx.get(f"{served.url}/admin/duplicates", params=query, timeout=PATIENT)


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def searching(served: Registry) -> list[int]:
    """Return the ids of the processes that search."""
    parents = (served.process.pid, *children(served))
    files = (file for parent in parents for file in Path(f"/proc/{parent}/task").glob("*/children"))
    pids = [pid.decode() for file in files for pid in read(file).split()]
    return [int(pid) for pid in pids if MODULE in read(Path(f"/proc/{pid}/cmdline"))]


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@contextmanager
def stopped(served: Registry) -> Iterator[tuple[int, Iterator[str]]]:
    """Begin a search and freeze its process; yield that, and the lines of the answer."""
    with httpx.stream("GET", f"{served.url}/admin/duplicates", timeout=PATIENT) as answer:
        received = answer.iter_lines()
        assert json.loads(next(received)) == {"progress": {"step": "starting", "done": 0, "total": 0}}
        steps = (json.loads(line)["progress"]["step"] for line in received)
        assert next(step for step in steps if step != "starting") == "normalizing the schemas"
        [pid] = until(lambda: searching(served), WAIT_S, "the process that searches")
        os.kill(pid, signal.SIGSTOP)
        yield pid, received


def gone(pid: int) -> None:
    until(lambda: not alive(pid), WAIT_S, "the process that searches to end")


def test_the_groups_are_found_and_counted(served: Registry) -> None:
    *progress, group, found = lines(get(served))
    assert all(list(each) == ["progress"] for each in progress)
    assert found == {"found": {"groups": 1, "listed": 1}}
    contents = group["group"]["contents"]
    places = [[(at["subject"], at["version"]) for at in each["versions"]] for each in contents]
    assert places == [[("a", 1), ("c", 1)], [("b", 1), (":.x:other", 1)]]
    assert lines(get(served, subjectPrefix="a"))[-1] == {"found": {"groups": 0, "listed": 0}}
    assert [list(each) for each in lines(get(served, subjectPrefix=":*:b"))][-1] == ["found"]
    assert searching(served) == []


def test_one_search_runs_at_a_time(served: Registry) -> None:
    with stopped(served) as (pid, received):
        for _ in range(8):  # by either reader
            answer = get(served)
            assert (answer.status_code, answer.json()["error_code"]) == (429, 429)
            assert answer.headers["retry-after"] == "5"
        os.kill(pid, signal.SIGCONT)
        assert [json.loads(line) for line in received][-1] == {"found": {"groups": 1, "listed": 1}}
    gone(pid)
    assert get(served).status_code == 200


def test_a_search_ends_with_its_client(served: Registry) -> None:
    with stopped(served) as (pid, _):
        pass
    gone(pid)
    assert get(served).status_code == 200
    assert httpx.head(f"{served.url}/admin/duplicates", timeout=PATIENT).status_code == 200
    for each in searching(served):  # of HEAD
        gone(each)


def test_the_client_learns_that_the_process_was_killed(served: Registry) -> None:
    with stopped(served) as (pid, received):
        os.kill(pid, signal.SIGKILL)
        *_, last = received
    assert json.loads(last)["error"] == {
        "error_code": 503,
        "message": "The process that searched ended before it was done; try again",
    }
    assert get(served).status_code == 200


@pytest.mark.logs_errors(r"the reader ended \(SIGKILL\)")
def test_a_search_ends_with_the_process_that_answers(tmp_path: Path) -> None:
    filled.write_log(tmp_path / "data", filled.many(SUBJECTS))
    running = Registry(tmp_path / "data", "--readers", "1").wait()
    with stopped(running) as (pid, received):
        [reader] = [each for each, module in children(running).items() if module == "registry-reader"]
        os.kill(reader, signal.SIGKILL)
        gone(pid)
        with pytest.raises(httpx.RemoteProtocolError):
            list(received)
    until(running.ready, WAIT_S, "the next reader")
    assert get(running).status_code == 200
    with stopped(running) as (pid, received):
        assert running.stop() == 0, running.output
        gone(pid)
        with pytest.raises(httpx.RemoteProtocolError):
            list(received)
