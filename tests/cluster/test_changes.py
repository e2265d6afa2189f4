"""The change feed of a cluster: thousands of listeners through kills, and logs whose head is gone."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest
from confluent_kafka import TopicPartition

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.node import Node
from registry.domain.errors import EVENTS_DELETED, RegistryError
from registry.domain.events import decode_event
from registry.domain.log_format import records
from registry.domain.log_format.records import Entry
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from registry.log.kafka.topic import TopicOptions
from registry.node.feed import NodeFeed
from tests.process.test_changes import SOME, TIMEOUT_S, pages, register
from tests.support.kafka_topics import admin, make_topic
from tests.support.listening import Listener, Listeners
from tests.support.running import PATIENT, children_of, until

LISTENERS = 5_000
KILLS = 2
TRIED_S = 300.0


def test_a_log_whose_head_was_deleted_names_its_oldest_offset(kafka: Broker) -> None:
    topic = make_topic(kafka.address, {"cleanup.policy": "compact,delete"})
    options = TopicOptions(allow_delete_policy=True)
    log = KafkaLog(
        Security(), kafka.address, topic, transactional_id=topic, append_timeout_s=20.0, options=options
    )
    try:
        log.claim()
        log.append([Entry(records.context_key(f".c{number}"), b"{}") for number in range(10)])
        client = admin(kafka.address)
        client.delete_records([TopicPartition(topic, 0, 5)])[TopicPartition(topic, 0)].result(30)

        async def asked() -> None:
            feed = NodeFeed(log, 8, soon=asyncio.get_running_loop().call_soon_threadsafe)
            pages = [await feed.events(position, 0.0) for position in (0, 5, 7, 8)]
            assert [[decode_event(each).offset for each in page.events] for page in pages] == [
                [], [5, 6, 7], [7], []
            ]  # fmt: skip
            assert [page.next for page in pages] == [5, 8, 8, 8]
            assert {page.log for page in pages} == {log.identity}
            with pytest.raises(RegistryError) as refused:
                await feed.events(4, 0.0)
            assert refused.value.code == EVENTS_DELETED.code
            assert (
                "after offset 3 are no longer in the log; the oldest one left has offset 5, so resume after 4"
            ) in refused.value.message
            feed.close()

        asyncio.run(asked())
    finally:
        log.close()


def processes(node: Node, name: str) -> list[int]:
    """Return the ids of a node's processes that are called ``name``."""
    return [pid for pid, found in children_of(node.pid).items() if found == name]


class Writing:
    """A thread that registers one subject after another, at any node that runs."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        with httpx.Client(timeout=PATIENT) as client:
            while not self._stopping.is_set():
                url = random.choice(self._nodes).url
                try:
                    client.post(
                        f"{url}/subjects/{'ab'[self.count % 2]}-{self.count}/versions",
                        json={"schema": '"int"'},
                    )
                except httpx.TransportError:
                    continue
                self.count += 1
                self._stopping.wait(0.05)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, 3, settings=("--changes-per-principal-max", "5000"), front_by="") as running:
        yield running


def resident_kib(pids: list[int]) -> int:
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 for pid in pids)


@pytest.mark.long
@pytest.mark.logs_errors(r"ended \(SIGKILL\)")
def test_thousands_of_listeners_miss_and_repeat_nothing_through_kills(cluster: Cluster) -> None:
    """Readers, nodes and the primary are killed while writes go on."""
    nodes = cluster.nodes
    readers = [pid for node in nodes for pid in processes(node, "registry-reader")]
    empty = resident_kib(readers)
    ports = [node.port for node in nodes]
    everything = [Listener(ports) for _ in range(LISTENERS - 500)]
    some = [Listener(ports, SOME) for _ in range(500)]
    with Listeners(*everything, *some) as listeners, httpx.Client(timeout=PATIENT) as client:

        def all_listen() -> bool:
            return all(each.status == 200 for each in listeners.all)

        until(all_listen, TRIED_S, "all to listen")
        register(client, nodes[0].url, "a-first")
        until(lambda: all(each.offsets for each in listeners.all), TRIED_S, "the first event")
        print(f"{(resident_kib(readers) - empty) / LISTENERS:.1f} KiB a listener")
        for number in range(5):
            began = time.monotonic()
            register(client, nodes[0].url, f"a-calm-{number}")
            written = time.monotonic()
            last = pages(client, nodes[0].url)[-1]
            until(lambda last=last: all(each.offsets[-1] == last for each in listeners.all), TRIED_S, "all")
            latest = max(each.received_at[last] for each in listeners.all)
            print(
                f"registered in {written - began:.3f} s, last listener {latest - began:.3f} s after the start"
            )
        with Writing(nodes) as writing:
            for _ in range(KILLS):
                for name in ("registry-reader", "registry-node"):
                    count = writing.count
                    until(lambda count=count: writing.count > count + 20, TRIED_S, "writes")
                    os.kill(random.choice(processes(random.choice(nodes), name)), signal.SIGKILL)
                count = writing.count
                until(lambda count=count: writing.count > count + 20, TRIED_S, "writes")
                primary = cluster.primary()
                primary.kill()
                until(lambda count=count: writing.count > count + 40, TRIED_S, "writes after the primary")
                primary.start().wait()

        def all_ends() -> dict[Listener, list[int]] | None:
            """Return what each should have received, once it has received the last event of the pages."""
            # Asked again, because the node may not have applied the last write yet.
            ends = dict.fromkeys(everything, pages(client, nodes[0].url))
            ends |= dict.fromkeys(some, pages(client, nodes[0].url, SOME.replace("?", "&")))
            return ends if all(each.offsets[-1:] == ends[each][-1:] for each in ends) else None

        wanted = until(all_ends, TRIED_S, "all events", every_s=0.2)
    assert all(each.offsets == wanted[each] for each in wanted)
    # The primaries alone served a third of them each time.
    assert sum(each.breaks for each in listeners.all) > LISTENERS // 4
