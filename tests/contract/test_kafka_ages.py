"""The log, its fence and a change of primary on brokers of other ages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from deploy.local.broker import Broker
from deploy.local.node import Node
from deploy.local.zookeeper import ZooKeeper
from registry.domain.records import Entry
from registry.log.contract import Fenced, Fencing
from registry.log.kafka.connection import Purpose
from registry.log.kafka.expiration import DEFAULT_S, RENEWALS
from tests.contract.conftest import Opened
from tests.contract.kafka_topics import delete_topic, make_topic
from tests.running import until

pytestmark = pytest.mark.long
WEEK_S = 7 * 86_400.0


@pytest.fixture(scope="module", params=["2.8.2", "3.3.2", "3.9.1"])
def aged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of each age; those before 3.9 with ZooKeeper."""
    folder = tmp_path_factory.mktemp("aged")
    with ExitStack() as stack:
        zookeeper = ""
        if request.param < "3.9":
            zookeeper = stack.enter_context(ZooKeeper(folder / "zookeeper")).address
        yield stack.enter_context(Broker(folder / "broker", version=request.param, zookeeper=zookeeper))


def test_a_log_is_claimed_written_read_and_fenced(aged: Broker, opened: Opened) -> None:
    topic = make_topic(aged.address)
    former, later = opened(aged.address, topic), opened(aged.address, topic)
    former.claim()
    assert former.append([Entry(b"k", b"1")]) == 0
    later.claim()
    assert later.append([Entry(b"k", b"2")]) == 1
    with pytest.raises(Fenced):
        former.append([Entry(b"k", b"3")])
    assert former.ask_end(30) == 2
    values: list[bytes | None] = []
    while len(values) < 2:
        assert former.wait(len(values), 30)
        values += [record.value for record in former.read(len(values), 10, 1 << 20).records]
    assert values == [b"1", b"2"]


def test_how_long_the_fence_lasts_is_read(aged: Broker, opened: Opened) -> None:
    """Before Kafka 3.4 producers expire with transactional ids."""
    log = opened(aged.address, make_topic(aged.address))
    assert log.fencing == Fencing((WEEK_S if aged.zookeeper else DEFAULT_S) / RENEWALS)


def test_brokers_with_zookeeper_are_told_apart(aged: Broker, opened: Opened) -> None:
    log = opened(aged.address, make_topic(aged.address))
    offers = log._partition._connections.offers("127.0.0.1", aged.port, Purpose.ASK, 55)
    assert offers is not bool(aged.zookeeper)


def test_a_killed_primary_is_replaced_and_nothing_is_lost(aged: Broker, tmp_path: Path) -> None:
    flags = ("--kafka", aged.address, "--request-timeout-s", "30")
    with ExitStack() as stack:
        nodes = [stack.enter_context(Node(tmp_path / name, flags)) for name in "ab"]
        stack.callback(delete_topic, aged.address, "_schemas")

        def primary() -> Node | None:
            return next((node for node in nodes if node.running and node.role == "primary"), None)

        def register(node: Node, number: int) -> int:
            body = {"schema": f'{{"type":"fixed","name":"f","size":{number}}}'}
            answer = httpx.post(f"{node.url}/subjects/s{number}/versions", json=body, timeout=60)
            answer.raise_for_status()
            return int(answer.json()["id"])

        killed = until(primary, 60, "a primary")
        other = next(node for node in nodes if node is not killed)
        ids = {number: register(other, number) for number in range(1, 11)}
        killed.kill()
        ids |= {number: register(other, number) for number in range(11, 21)}
        killed.start().wait()
        for node in nodes:
            found = {
                number: httpx.get(f"{node.url}/subjects/s{number}/versions/1", timeout=60).json()["id"]
                for number in ids
            }
            assert found == ids
        assert len(set(ids.values())) == len(ids)
