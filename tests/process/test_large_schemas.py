"""A schema that takes long to parse keeps nobody waiting but those who sent it."""

from __future__ import annotations

import json
import select
from collections.abc import Iterator

import httpx
import pytest

from registry.aside.pool import WAITING_CHARACTERS_MAX
from tests.process.raw import RawClient, get, post
from tests.running import Registry


def large(fields: int, name: str = "Large", doc: str = "") -> bytes:
    names = [{"name": f"field_{n}", "type": "int"} for n in range(fields)]
    schema = {"type": "record", "name": name, "doc": doc, "fields": names}
    return json.dumps({"schema": json.dumps(schema)}).encode()


@pytest.fixture(scope="module", params=["0", "1"], ids=["node alone", "one reader"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    running = Registry(tmp_path_factory.mktemp("large") / "data", "--readers", request.param).wait()
    httpx.post(f"{running.url}/subjects/known/versions", json={"schema": '"int"'}).raise_for_status()
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
        slow.send(post(target, large(40_000)))
        answered = 0
        while not select.select([slow.socket], [], [], 0)[0]:
            reply = quick.send(get("/schemas/ids/1")).reply()
            assert reply.status == 200
            answered += 1
        assert slow.reply().status == status
    assert answered > 20, "the event loop was kept"


def test_a_stored_large_schema_is_parsed_aside_too(served: Registry) -> None:
    body = large(60_000)  # too large to be remembered as parsed
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
    assert answered > 20, "the event loop was kept"


def test_too_many_large_schemas_at_once_are_refused(served: Registry) -> None:
    clients = [RawClient(served.port, 60).__enter__() for _ in range(40)]
    try:
        numbers = range(len(clients))
        doc = "x" * (WAITING_CHARACTERS_MAX // 16)
        requests = [post("/subjects/known", large(10_000, f"Large{number}", doc)) for number in numbers]
        for each, request in zip(clients, requests, strict=True):
            each.send(request[:-1])
        # Only now is any of them complete, so that they come together however slow this process is.
        for each, request in zip(clients, requests, strict=True):
            each.send(request[-1:])
        replies = [each.reply() for each in clients]
    finally:
        for each in clients:
            each.__exit__(None, None, None)
    assert {reply.status for reply in replies} == {404, 503}
    refused = next(reply for reply in replies if reply.status == 503)
    assert refused.headers["retry-after"] == "1"
    assert json.loads(refused.body)["error_code"] == 503
