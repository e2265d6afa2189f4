"""Nodes whose topic lost its last records and grew again: one that ran throughout, and one that was down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import httpx
import pytest

from deploy.local.broker import Broker
from tests.cluster.test_log_trouble import WAIT_S, get, reasons, register, start, status
from tests.faults.cutting import cut
from tests.kafka_topics import make_topic
from tests.running import Registry, until

SUBJECTS = 12
GREW = "has lost records and grown again"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as broker:
        yield broker


def says_why(registry: Registry) -> bool:
    try:
        return GREW in reasons(registry)
    except httpx.TransportError:
        return False


def refuses(registry: Registry, lost: str) -> None:
    """It serves its rows, confirms no reads, writes nothing and never becomes primary."""
    assert get(registry, "/health/ready").status_code == 503
    assert status(registry)["role"] != "primary"
    assert get(registry, "/schemas/ids/1").status_code == 200
    held = get(registry, f"/subjects/{lost}/versions")
    assert held.status_code == 200
    assert "Warning" in held.headers, "it holds it, and cannot say that it still is so"
    assert get(registry, "/subjects/later0/versions").status_code == 503, "never a 404 that nobody checked"
    refused = register(registry, "refused")
    assert refused.status_code == 503, refused.text
    assert "reseed" in refused.json()["message"]


@pytest.mark.long
def test_nodes_with_records_that_the_log_has_lost_take_no_part(own: Broker, tmp_path: Path) -> None:
    topic = make_topic(own.address)
    running = start(own, tmp_path / "running", topic).wait()
    away = start(own, tmp_path / "away", topic).wait()
    nodes = [running, away]
    try:
        for number in range(SUBJECTS):
            assert register(running, f"s{number}").status_code == 200
        applied = status(running)["applied"]
        until(lambda: status(away)["applied"] >= applied, WAIT_S, "both to have all")
        assert away.stop() == 0, away.output
        applied = status(running)["applied"]
        own.kill()
        end = cut(own.folder, topic, 9)
        assert end < applied
        own.start().wait()
        until(lambda: not running.ready() and reasons(running), WAIT_S, "the loss to be noticed")

        fresh = start(own, tmp_path / "fresh", topic).wait()
        nodes.append(fresh)
        number = 0
        while status(fresh)["applied"] <= status(running)["applied"] + 1:
            assert register(fresh, f"later{number}").status_code == 200
            number += 1
        lost = f"s{SUBJECTS - 1}"
        assert get(fresh, f"/subjects/{lost}/versions").status_code == 404, "the log has lost it"
        away = start(own, away.data, topic, port=away.port)
        nodes[1] = away
        for node in (running, away):
            until(lambda node=node: says_why(node), WAIT_S, "the other history to be told")
            refuses(node, lost)
            assert f"up to {status(fresh)['applied']}" in reasons(node)
            assert f"holds up to {status(node)['applied']}" in reasons(node)
        assert status(fresh)["role"] == "primary"
        assert register(fresh, "goes_on").status_code == 200

        # The steps that the message advises to keep the log's content.
        assert away.stop() == 0, away.output
        rmtree(away.data / "store")
        away = start(own, away.data, topic, port=away.port).wait()
        nodes[1] = away
        assert get(away, "/subjects").json() == get(fresh, "/subjects").json()
    finally:
        for node in nodes:
            node.stop()
