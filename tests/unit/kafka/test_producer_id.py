"""Time for which brokers remember an idle producer, asked of a topic that has no leader yet."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from registry.log.kafka import requests
from registry.log.kafka.connection import TRY_S, Connections
from registry.log.kafka.partition import Partition
from registry.log.kafka.producer_id import Expiration, read

BROKER = requests.Broker(1, "host", 9092)


class NewTopic(Partition):
    """A topic whose leader is elected after the metadata was first read."""

    def __init__(self) -> None:
        super().__init__(cast("Connections", None), "host:9092", "_schemas")
        self.update(self._described(None))

    @staticmethod
    def _described(leader: requests.Broker | None) -> requests.Cluster:
        return requests.Cluster("c", None, [BROKER], 0, requests.PartitionMetadata(b"", 1, leader, 1))

    async def refresh(self, timeout_s: float = TRY_S) -> requests.Cluster:
        self.update(self._described(BROKER))
        assert self.cluster is not None
        return self.cluster

    async def send_to(self, host: str, port: int, request: Any, timeout_s: float = TRY_S) -> Any:
        entry = ("producer.id.expiration.ms", "3600000")
        return SimpleNamespace(resources=[(0, None, 4, "1", [entry])])


def test_a_topic_without_a_leader_is_described_again_before_its_brokers_are_asked() -> None:
    found = asyncio.run(read(NewTopic()))
    assert found == Expiration(3600.0, "producer.id.expiration.ms=3600000")
