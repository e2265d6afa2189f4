"""A reader's own query to Kafka for the end of the log: the fastest way to know that its rows are new.

The node would send the same query, but most of the time would be lost on the way to it and between its
threads. The node checks that the topic is still the log of the store, and reports the log's identity as long
as it is; this module only compares the brokers' answers with that identity.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.log.contract import LogError
from registry.log.kafka import requests
from registry.log.kafka.connection import Connections, NoAnswer
from registry.log.kafka.log_end import query_offset
from registry.log.kafka.partition import Partition
from registry.log.kafka.topic import read_min_in_sync
from registry.store.layout import StoreError

TIMEOUT_S = 0.2  # Seconds after which the node is asked instead.
CHECK_EVERY_S = 5.0  # Seconds between checks that the topic's name still means the same topic.
PAUSE_S = 1.0  # Seconds after a failed query; the node is asked meanwhile.


class LogEndClient:
    """Queries the partition leader for the log's end, over connections of its own; used on one event loop.

    ``applied`` returns the lineage of the store: what it remembers of the last records that it has applied.
    If the log has lost some of them, queries fail, wherever the log ends.
    """

    def __init__(
        self,
        connections: Connections,
        servers: str,
        topic: str,
        *,
        applied: Callable[[], Lineage] = lambda: NOTHING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._applied = applied
        self._servers = servers
        self._topic = topic
        self._partition = self._new_partition()
        self._identity = ""
        self._paused_until = 0.0
        self._checked_at = -CHECK_EVERY_S
        self._checking = asyncio.Lock()

    def set_identity(self, identity: str) -> None:
        """Set the identity of the store's log, as reported by the node; if empty, do not query."""
        if identity != self._identity:
            self._identity = identity
            self._partition = self._new_partition()
            self._checked_at = -CHECK_EVERY_S
            self.resume()

    def _new_partition(self) -> Partition:
        partition = Partition(self._connections, self._servers, self._topic, clock=self._clock)
        partition.lineage = self._applied
        return partition

    async def ask(self) -> int | None:
        """Return the offset of the next record at some moment after the call; ``None``: ask the node."""
        if not self._identity or self._clock() < self._paused_until:
            return None
        partition = self._partition
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if self._clock() - self._checked_at >= CHECK_EVERY_S:
                    await self._check(partition)
                return await query_offset(partition, requests.LATEST, TIMEOUT_S)
        except (LogError, NoAnswer, StoreError, TimeoutError):
            self._paused_until = self._clock() + PAUSE_S
            return None

    def resume(self) -> None:
        """End the pause after a failed query."""
        self._paused_until = 0.0

    async def _check(self, partition: Partition) -> None:
        async with self._checking:
            if self._clock() - self._checked_at < CHECK_EVERY_S:
                return
            cluster = await partition.refresh(TIMEOUT_S)
            if not partition.topic_id and cluster.partition is not None:
                partition.adopt(cluster)
            if partition.identity != self._identity:
                raise NoAnswer(f"the log is {self._identity}, not {partition.identity}", sent=True)
            await read_min_in_sync(partition)
            self._checked_at = self._clock()

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()
