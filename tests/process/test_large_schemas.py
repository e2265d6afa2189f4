"""A schema that takes long to parse delays only the clients that sent it."""

from __future__ import annotations

import json
import select
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from registry.workers.pool import WAITING_CHARACTERS_MAX
from tests.process.raw import RawClient, get, post
from tests.support.running import PATIENT, Registry

# More than the event loop parses itself, which is one or two, before and after it.
KEPT_MAX = 5


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
    yield running
    assert running.stop() == 0, running.output
    assert "Traceback" not in running.output


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/subjects/known", 404),
        ("/compatibility/subjects/known/versions/latest", 200),
        ("/subjects/new/versions", 200),
    ],
)
def test_others_are_answered_while_a_large_schema_is_parsed(
    served: Registry, target: str, status: int
) -> None:
    with RawClient(served.port) as slow, RawClient(served.port) as quick:
        slow.send(post(target, large(80_000)))
        answered = 0
        while not select.select([slow.socket], [], [], 0)[0]:
            reply = quick.send(get("/schemas/ids/1")).reply()
            assert reply.status == 200
            answered += 1
        assert slow.reply().status == status
    assert answered > KEPT_MAX, "the event loop was kept"


def test_a_stored_large_schema_is_parsed_aside_too(served: Registry) -> None:
    body = large(90_000)  # Too large to be remembered as parsed.
    with httpx.Client(base_url=served.url, timeout=30) as client:
        client.post("/subjects/stored/versions", content=body).raise_for_status()
    with RawClient(served.port) as slow, RawClient(served.port) as quick:
        check = post("/compatibility/subjects/stored/versions/latest", b'{"schema": "\\"string\\""}')
        slow.send(check)
        answered = 0
        while not select.select([slow.socket], [], [], 0)[0]:
            assert quick.send(get("/schemas/ids/1")).reply().status == 200
            answered += 1
        assert slow.reply().body == b'{"is_compatible":false}'
    assert answered > KEPT_MAX, "the event loop was kept"


def test_more_large_schemas_at_once_than_there_is_room_for_take_turns(served: Registry) -> None:
    """None is refused: those for which there is no room are received later."""
    doc = "x" * (WAITING_CHARACTERS_MAX // 16)
    bodies = [large(1_000, f"Large{number}", doc) for number in range(16)]

    def look_up(body: bytes) -> int:
        return httpx.post(f"{served.url}/subjects/known", content=body, timeout=PATIENT).status_code

    with ThreadPoolExecutor(len(bodies)) as clients:
        assert {*clients.map(look_up, bodies)} == {404}
