"""A schema that takes long to parse keeps nobody waiting but those who sent it."""

from __future__ import annotations

import json
import select
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from registry.workers.pool import WAITING_CHARACTERS_MAX
from tests.process.raw import RawClient, get, post
from tests.running import PATIENT, Registry

KEPT_MAX = 5
"""More than are answered where the event loop parses: one or two, before and after it."""


def large(fields: int, name: str = "Large", doc: str = "") -> bytes:
    names = [{"name": f"field_{n}", "type": "int"} for n in range(fields)]
    schema = {"type": "record", "name": name, "doc": doc, "fields": names}
    return json.dumps({"schema": json.dumps(schema)}).encode()


@pytest.fixture(scope="module", params=["0", "1"], ids=["node alone", "one reader"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    data = tmp_path_factory.mktemp("large") / "data"
    # All bodies that are sent at once arrive only with the last of them.
    running = Registry(data, "--readers", request.param, "--body-timeout-s", "300").wait()
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
        slow.send(post(target, large(40_000)))
        answered = 0
        while not select.select([slow.socket], [], [], 0)[0]:
            reply = quick.send(get("/schemas/ids/1")).reply()
            assert reply.status == 200
            answered += 1
        assert slow.reply().status == status
    assert answered > KEPT_MAX, "the event loop was kept"


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
    assert answered > KEPT_MAX, "the event loop was kept"


def test_too_many_large_schemas_at_once_are_refused(served: Registry) -> None:
    doc = "x" * (WAITING_CHARACTERS_MAX // 16)
    requests = [post("/subjects/known", large(10_000, f"Large{number}", doc)) for number in range(40)]
    with ExitStack() as stack:
        # Each connects when it sends, not before: there is a time for headers too.
        clients = [stack.enter_context(RawClient(served.port, 60)).send(request[:-1]) for request in requests]
        # Only now is any of them complete, so that they come together however slow this process is.
        for each, request in zip(clients, requests, strict=True):
            each.send(request[-1:])
        replies = [each.reply() for each in clients]
    assert {reply.status for reply in replies} == {404, 503}
    refused = next(reply for reply in replies if reply.status == 503)
    assert refused.headers["retry-after"] == "1"
    assert json.loads(refused.body)["error_code"] == 503
