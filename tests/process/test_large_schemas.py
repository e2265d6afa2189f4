"""A schema that takes long to parse delays only the clients that sent it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from deploy.local.process import freeze
from registry.workers.pool import WAITING_CHARACTERS_MAX
from tests.process.raw import RawClient, get, post
from tests.process.test_lifecycle import children
from tests.support.running import PATIENT, Registry

# Requests that are answered while the processes that parse stand still.
ANSWERED = 20
# More than the event loop parses itself, and too large to be remembered as parsed.
LARGE, HUGE = 1_000, 4_000_000


def large(fields: int, name: str = "Large", doc: str = "") -> bytes:
    names = [{"name": f"field_{n}", "type": "int"} for n in range(fields)]
    schema = {"type": "record", "name": name, "doc": doc, "fields": names}
    return json.dumps({"schema": json.dumps(schema)}).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    data = tmp_path_factory.mktemp("large") / "data"
    running = Registry(data, "--readers", "1").wait()
    known = f"{running.url}/subjects/known/versions"
    httpx.post(known, json={"schema": '"int"'}, timeout=PATIENT).raise_for_status()
    # Reader and node have started the processes that parse.
    first = f"{running.url}/subjects/first/versions"
    httpx.post(first, content=large(LARGE, "First"), timeout=PATIENT).raise_for_status()
    assert parsing(running)
    yield running
    assert running.stop() == 0, running.output
    assert "Traceback" not in running.output


@pytest.mark.parametrize(
    ("name", "target", "status"),
    [
        ("LookedUp", "/subjects/known", 404),
        ("Checked", "/compatibility/subjects/known/versions/latest", 200),
        ("Registered", "/subjects/new/versions", 200),
    ],
)
def test_others_are_answered_while_a_large_schema_is_parsed(
    served: Registry, name: str, target: str, status: int
) -> None:
    check_others_are_answered(served, post(target, large(LARGE, name)), status)


def test_a_stored_large_schema_is_parsed_aside_too(served: Registry) -> None:
    body = large(LARGE, "Stored", "x" * HUGE)
    stored = f"{served.url}/subjects/stored/versions"
    httpx.post(stored, content=body, timeout=PATIENT).raise_for_status()
    check = post("/compatibility/subjects/stored/versions/latest", b'{"schema": "\\"string\\""}')
    assert check_others_are_answered(served, check, 200) == b'{"is_compatible":false}'


def check_others_are_answered(served: Registry, request: bytes, status: int) -> bytes:
    """Check that a request waits for the processes that parse, and others do not; return its body."""
    with ExitStack() as frozen, RawClient(served.port) as slow, RawClient(served.port) as quick:
        for pid in parsing(served):
            freeze(pid)
            frozen.callback(os.kill, pid, signal.SIGCONT)
        slow.send(request)
        for _ in range(ANSWERED):
            assert quick.send(get("/schemas/ids/1")).reply().status == 200
        assert not select.select([slow.socket], [], [], 0)[0], "the event loop has parsed it"
        frozen.close()
        answer = slow.reply()
        assert answer.status == status
        return answer.body


def parsing(served: Registry) -> list[int]:
    """Return the processes that parse for the registry's reader and node."""
    parents = map(str, children(served))
    below = subprocess.run(["pgrep", "-P", ",".join(parents)], capture_output=True, text=True, check=True)
    pids = [int(pid) for pid in below.stdout.split()]
    return [pid for pid in pids if b"registry.workers.process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_more_large_schemas_at_once_than_there_is_room_for_take_turns(served: Registry) -> None:
    """None is refused: those for which there is no room are received later."""
    doc = "x" * (WAITING_CHARACTERS_MAX // 16)
    bodies = [large(1_000, f"Large{number}", doc) for number in range(16)]

    def look_up(body: bytes) -> int:
        return httpx.post(f"{served.url}/subjects/known", content=body, timeout=PATIENT).status_code

    with ThreadPoolExecutor(len(bodies)) as clients:
        assert {*clients.map(look_up, bodies)} == {404}
