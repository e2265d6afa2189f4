"""Nodes whose topic lost its last records and grew again: one that ran throughout, and one that was down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import httpx
import pytest

from deploy.local.broker import Broker
from registry.domain.log_format.lineage import TRACES_MAX
from tests.cluster.test_log_trouble import (
    STALE,
    WAIT_S,
    _offset,
    get,
    reasons,
    refused_by,
    register,
    schema_of,
    start,
    status,
)
from tests.faults.cutting import cut
from tests.support.kafka_topics import make_topic
from tests.support.running import Registry, until

SUBJECTS = 25
GREW, PROVEN = "has lost records and grown again", "registered from offset"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as broker:
        yield broker


def says_why(registry: Registry) -> bool:
    """It says that the log grew again, and which schemas it still answers, which a node has to find out."""
    try:
        said = reasons(registry)
    except httpx.TransportError:
        return False
    return GREW in said and PROVEN in said


def refuses(registry: Registry, kept: dict[str, int], lost: dict[str, int]) -> None:
    """It serves what the log has kept, confirms no reads, writes nothing and never becomes primary.

    ``kept`` and ``lost`` are the ids of subjects.
    """
    assert get(registry, "/health/ready").status_code == 503
    assert status(registry)["role"] != "primary"
    for subject, schema_id in kept.items():
        for path in (f"/schemas/ids/{schema_id}", f"/subjects/{subject}/versions/1"):
            held = get(registry, path)
            assert (held.status_code, held.headers.get("warning")) == (200, STALE), held.text
            assert held.json()["schema"] == schema_of(subject)
    paths = [f"/schemas/ids/{schema_id}" for schema_id in lost.values()]
    paths += [f"/subjects/{subject}/versions/1" for subject in lost]
    assert refused_by(registry, paths) == [503] * len(paths), "the ids may mean other schemas in the log"
    assert get(registry, "/subjects/later0/versions").status_code == 503, "never a 404 that nobody checked"
    refused = register(registry, "refused")
    assert refused.status_code == 503, refused.text


@pytest.mark.long
def test_nodes_with_records_that_the_log_has_lost_take_no_part(own: Broker, tmp_path: Path) -> None:
    topic = make_topic(own.address)
    running = start(own, tmp_path / "running", topic).wait()
    away = start(own, tmp_path / "away", topic).wait()
    nodes = [running, away]
    try:
        subjects = [f"s{number}" for number in range(SUBJECTS)]
        ids, offsets = dict[str, int](), dict[str, int]()
        for subject in subjects:
            answer = register(running, subject)
            ids[subject], offsets[subject] = answer.json()["id"], _offset(answer)
        applied = status(running)["applied"]
        until(lambda: status(away)["applied"] >= applied, WAIT_S, "both to have all")
        assert away.stop() == 0, away.output
        applied = status(running)["applied"]
        own.kill()
        # More keys than the lineage remembers, so only the versions say what is left.
        end = cut(own.folder, topic, 2 * TRACES_MAX)
        kept = {each: ids[each] for each in subjects if offsets[each] < end}
        lost = {each: ids[each] for each in subjects if offsets[each] >= end}
        assert len(kept) > 1
        assert len(lost) > TRACES_MAX
        own.start().wait()
        until(lambda: PROVEN in reasons(running), WAIT_S, "what is left to be told")
        refuses(running, kept, lost)

        fresh = start(own, tmp_path / "fresh", topic).wait()
        nodes.append(fresh)
        number = 0
        while status(fresh)["applied"] <= status(running)["applied"] + 1:
            assert register(fresh, f"later{number}").status_code == 200
            number += 1
        for subject in lost:
            assert get(fresh, f"/subjects/{subject}/versions").status_code == 404, "the log has lost it"
        means = {each: get(fresh, f"/schemas/ids/{schema_id}").json() for each, schema_id in lost.items()}
        given = {each: found["schema"] for each, found in means.items() if "schema" in found}
        assert given, "ids that the log has lost with their reservation are given out again"
        assert all(schema != schema_of(each) for each, schema in given.items())
        away = start(own, away.data, topic, port=away.port)
        nodes[1] = away
        for node in (running, away):
            until(lambda node=node: says_why(node), WAIT_S, "the other history to be told")
            refuses(node, kept, lost)
            until(
                lambda node=node: f"up to {status(fresh)['applied']}" in reasons(node),
                WAIT_S,
                "the end of the log to be told",
            )
            assert f"holds up to {status(node)['applied']}" in reasons(node)
            assert "reseed" in reasons(node)
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
