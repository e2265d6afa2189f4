"""A broker that is cut off from Kafka's controllers and keeps reporting the end of the log that it knew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.local import jars
from deploy.local.broker import Broker, Brokers
from deploy.local.process import free_port
from deploy.local.proxy import Proxy
from registry.domain.log_format.records import Entry
from registry.log.contract import Unreachable
from registry.log.kafka import requests
from registry.log.kafka.connection import NoAnswer
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions
from tests.support.running import until

TOPIC = "_schemas"
MOVE_S = 60.0


class Separable(Brokers):
    """Three brokers, of which the first two are the controllers; the third reaches those through proxies.

    Controllers tell where they listen, so the third knows them by a listener of its own, whose address is the
    proxy's.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        *controllers, third = self.nodes
        voters = [(each.node_id, each.controller_port) for each in controllers]
        self.lines: list[Proxy] = []
        for each in controllers:
            port = free_port()
            line = Proxy(f"127.0.0.1:{port}")
            self.lines.append(line)
            each.voters = voters
            near = f"PLAINTEXT://127.0.0.1:{each.port},CONTROLLER://127.0.0.1:{each.controller_port}"
            each.settings |= {
                "controller.listener.names": "CONTROLLER,FAR",
                "listeners": f"{near},FAR://127.0.0.1:{port}",
                "advertised.listeners": f"{near},FAR://{line.address}",
            }
        third.voters = [(number, line.port) for (number, _), line in zip(voters, self.lines, strict=True)]
        only = f"PLAINTEXT://127.0.0.1:{third.port}"
        third.settings |= {
            "process.roles": "broker",
            "controller.listener.names": "FAR",
            "listeners": only,
            "advertised.listeners": only,
        }
        for each in self.nodes:
            each.settings["listener.security.protocol.map"] = ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", "FAR")
            )

    def cut(self) -> Broker:
        """Cut the third broker off from the controllers."""
        for line in self.lines:
            line.cut()
        return self.nodes[2]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Separable]:
    with ExitStack() as stack:
        made = Separable(tmp_path / "brokers")
        for line in made.lines:
            stack.enter_context(line)
        yield stack.enter_context(made)


def log_at(servers: str) -> KafkaLog:
    return KafkaLog(
        Security(), servers, TOPIC, transactional_id="t", append_timeout_s=20.0, options=TopicOptions()
    )


def asked(log: KafkaLog, port: int, request: Any) -> Any:
    """Return the answer of the broker on ``port`` itself; it may be busy, as leaders move."""

    def answer() -> Any:
        asking = log._partition.send_to("127.0.0.1", port, request)
        try:
            return asyncio.run_coroutine_threadsafe(asking, log._loop).result(30)
        except NoAnswer:
            return None

    return until(answer, MOVE_S, "the broker to answer")


def leading(log: KafkaLog, broker: Broker) -> requests.PartitionMetadata | None:
    """Return the partition leader as known to this broker, if there is one."""
    found = requests.cluster(asked(log, broker.port, requests.Metadata(TOPIC))).partition
    return found if found and found.broker else None


@pytest.mark.skipif(
    jars.KAFKA in jars.WITH_ZOOKEEPER, reason="only controllers of KRaft can be separated here"
)
def test_a_leader_that_controllers_have_replaced_unheard_is_not_believed(brokers: Separable) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.nodes[0].address, "log_level": 0})
    made = NewTopic(
        TOPIC,
        num_partitions=1,
        replica_assignment=[[3, 1, 2]],
        config={"min.insync.replicas": "2", "cleanup.policy": "compact"},
    )
    admin.create_topics([made])[TOPIC].result(30)
    with ExitStack() as stack:
        log = log_at(brokers.address)
        stack.callback(log.close)
        log.claim()
        log.append([Entry(b"k", b"1")])
        assert log.query_end(10) == 1
        assert log._partition.min_in_sync == 2
        brokers.cut()

        cut, other = brokers.nodes[2], brokers.nodes[0]

        def moved() -> bool:
            found = leading(log, other)
            return bool(found and found.broker and found.broker.id != cut.node_id)

        until(moved, MOVE_S, "the partition to move")
        producer = Producer({"bootstrap.servers": other.address, "log_level": 0})
        producer.produce(TOPIC, b"2", b"k", partition=0)
        assert producer.flush(30) == 0
        known = leading(log, cut)
        assert known is not None
        assert known.broker is not None
        assert known.broker.id == cut.node_id, "it does not know better"
        old = requests.listed_offset(
            asked(log, cut.port, requests.ListOffsets(TOPIC, requests.LATEST, known.epoch))
        )
        assert old == (requests.Code.NONE, 1), "and names an end"
        # Like a log that has queried no other broker meanwhile.
        partition = log._partition
        assert partition.cluster is not None
        partition.cluster = partition.cluster._replace(partition=known)

        def end() -> int:
            try:
                return log.query_end(10)
            except Unreachable:
                return 0

        assert until(end, MOVE_S, "the end to be known") == 2
        assert log.wait(1, 30)
        assert [record.value for record in log.read(1, 10, 1 << 20).records] == [b"2"]
