"""Explained results, and the header that names an equal version."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.running import Registry


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    running = Registry(tmp_path_factory.mktemp("explained") / "data", "--readers", "2").wait()
    yield running
    assert running.stop() == 0, running.output
    assert "Traceback" not in running.output


def test_a_verdict_for_people_comes_through_every_server(served: Registry) -> None:
    with httpx.Client(base_url=served.url, timeout=30) as client:
        first = {"schemaType": "JSON", "schema": '{"type":"object"}'}
        client.post("/subjects/explained/versions", json=first).raise_for_status()
        body = {"schemaType": "JSON", "schema": '{"type":"string"}'}
        target = "/compatibility/subjects/explained/versions"
        reply = client.post(target, json=body, headers={"accept": "text/plain"})
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
        assert reply.text.startswith("Incompatible: subject explained at BACKWARD\n\n1. TYPE_CHANGED at #/")
        both = {"old": {"schema": '"int"'}, "new": {"schema": '"long"'}}
        levels = client.post("/compatibility/explain", json=both).json()["levels"]
        assert levels["BACKWARD"] == {"compatible": True, "messages": []}


def test_a_registration_reports_what_it_repeats(served: Registry) -> None:
    with httpx.Client(base_url=served.url, timeout=30) as client:
        target = "/subjects/repeated/versions"
        texts = ('{"type":"string","title":"t"}', '{"title":"t","type":"string"}')
        told = [client.post(target, json={"schemaType": "JSON", "schema": text}) for text in texts]
    assert [each.headers.get("x-registry-equal-to") for each in told] == [None, "1"]
