"""The registry that the tests of the console use: alone, or with ``--console-nodes`` a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import confluent_kafka

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.front import Front
from deploy.local.node import Node
from registry.domain.log_format.records import Entry
from tests.support.kafka_topics import make_topic
from tests.support.running import Registry

from . import filled


class Place(NamedTuple):
    """A running registry, at one URL."""

    url: str


# Runs a registry with a log that holds certain records, and with further flags.
Serving = Callable[..., AbstractContextManager[Place]]


@contextmanager
def alone(folder: Path, *flags: str, entries: Iterable[Entry] = ()) -> Iterator[Place]:
    """Run a registry on the embedded log; ``flags`` override those given here."""
    filled.write_log(folder / "data", entries)
    usual = ("--readers", "1", "--snapshots-builder", "none")
    running = Registry(folder / "data", *usual, *flags).wait()
    yield Place(running.url)
    assert running.stop() == 0, running.output


@contextmanager
def clustered(
    folder: Path, kafka: Broker, nodes: int, *flags: str, entries: Iterable[Entry] = ()
) -> Iterator[Place]:
    """Run a cluster behind a load balancer."""
    topic = make_topic(kafka.address, {"max.message.bytes": str(16 << 20)})
    produce(kafka.address, topic, entries)
    settings = (
        *("--topic", topic, "--group", topic, "--snapshots", str(folder / "snapshots")),
        *("--confirm-timeout-s", "10", "--snapshots-builder", "none"),
    )
    each = [list(_of_node(flags, number)) for number in range(nodes)]
    with (
        Cluster(folder, nodes, settings=settings, each=each, kafka=kafka.address, front_by="") as cluster,
        open_front(folder / "front", cluster.nodes) as front,
    ):
        yield Place(front.url)


def _of_node(flags: Iterable[str], number: int) -> Iterator[str]:
    """Yield the flags of one node: each has an audit log of its own."""
    before = ""
    for flag in flags:
        yield f"{flag}-{number}" if before == "--audit-log" else flag
        before = flag


def produce(servers: str, topic: str, entries: Iterable[Entry]) -> None:
    """Append records to a topic."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
    for entry in entries:
        producer.produce(topic, entry.value, entry.key, timestamp=filled.TIME_MS)
        producer.poll(0)
    assert producer.flush(60) == 0


def open_front(folder: Path, nodes: Iterable[Node]) -> Front:
    """Return the shipped example of a load balancer, with the paths that it keeps inside open."""
    running = Front("nginx", folder, [node.address for node in nodes])
    conf = folder / "registrar.conf"
    opened, found = re.subn(
        r"(location ~ \^/\+)\(admin\|.*\)(?=\(/)", r"\1(metrics-of-nodes)", conf.read_text()
    )
    assert found == 1, "the example keeps its inner paths in another way"
    conf.write_text(opened)
    return running
