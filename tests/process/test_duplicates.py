"""Looking for equal schemas keeps nobody waiting, with and without readers; and verdicts for people."""

from __future__ import annotations

import json
import select
from collections.abc import Iterator

import httpx
import pytest

from tests.process.raw import RawClient, get
from tests.running import Registry

COUNT = 15


def schema(number: int, *, swapped: bool) -> str:
    members = {f"field_{n}": {"type": "string", "description": f"{number}"} for n in range(500)}
    described = {"type": "object", "title": f"Large {number}", "properties": members}
    return json.dumps(dict(reversed(described.items())) if swapped else described)


@pytest.fixture(scope="module", params=["0", "2"], ids=["node alone", "two readers"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    running = Registry(tmp_path_factory.mktemp("equal") / "data", "--readers", request.param).wait()
    with httpx.Client(base_url=running.url, timeout=30) as client:
        for number in range(COUNT):
            for swapped in (False, True):
                body = {"schemaType": "JSON", "schema": schema(number, swapped=swapped)}
                subject = f"s{number}-{'swapped' if swapped else 'straight'}"
                client.post(f"/subjects/{subject}/versions", json=body).raise_for_status()
    yield running
    assert running.stop() == 0, running.output
    assert "Traceback" not in running.output


def test_others_are_answered_while_schemas_are_read(served: Registry) -> None:
    answered = 0
    with RawClient(served.port) as slow, RawClient(served.port) as quick:
        while True:
            slow.send(get("/schemas/duplicates"))
            while not select.select([slow.socket], [], [], 0)[0]:
                assert quick.send(get("/schemas/ids/1")).reply().status == 200
                answered += 1
            found = json.loads(slow.reply().body)
            if found["complete"]:
                break
    # One or two are answered where the event loop reads them.
    assert answered > 5, "the event loop was kept"
    assert found["examined"] == 2 * COUNT
    assert len(found["groups"]) == COUNT
    for group in found["groups"]:
        assert [len(content["versions"]) for content in group["contents"]] == [1, 1]


def test_a_verdict_for_people_comes_through_every_server(served: Registry) -> None:
    with httpx.Client(base_url=served.url, timeout=30) as client:
        body = {"schemaType": "JSON", "schema": '{"type":"string"}'}
        target = "/compatibility/subjects/s0-straight/versions"
        reply = client.post(target, json=body, headers={"accept": "text/plain"})
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
        assert reply.text.startswith("Incompatible: subject s0-straight at BACKWARD\n\n1. TYPE_CHANGED at #/")
        both = {"old": {"schema": '"int"'}, "new": {"schema": '"long"'}}
        levels = client.post("/compatibility/explain", json=both).json()["levels"]
        assert levels["BACKWARD"] == {"compatible": True, "messages": []}


def test_a_registration_is_told_what_it_repeats(served: Registry) -> None:
    with httpx.Client(base_url=served.url, timeout=30) as client:
        target = "/subjects/repeated/versions"
        texts = ('{"type":"string","title":"t"}', '{"title":"t","type":"string"}')
        told = [client.post(target, json={"schemaType": "JSON", "schema": text}) for text in texts]
    assert [each.headers.get("x-registry-equal-to") for each in told] == [None, "1"]
