"""Asking Kafka itself where the log ends: a reader's shortest way to know that its rows are new.

The node would ask the same question, but on the way to it and through its threads most of the time is lost.
Whether the topic is still the store's own log is the node's matter, which tells its identity as long as it
is; here only the brokers' answers are compared with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.log.contract import LogError
from registry.log.kafka import requests
from registry.log.kafka.connection import Connections, NoAnswer, Security
from registry.log.kafka.partition import Partition
from registry.log.kafka.topic import learn_min_in_sync
from registry.store.layout import StoreError

ASK_S = 0.2
"""How long an answer may take before the node is asked instead."""
LOOK_EVERY_S = 5.0
"""Between looks at which topic answers to the name."""
REST_S = 1.0
"""After a question without an answer: until then the node is asked."""


class LogEnd:
    """Used on one event loop. ``applied``: what is remembered of the log that the store has applied.

    A log that lost some of it gives no answer, whatever its end.
    """

    def __init__(
        self,
        security: Security,
        servers: str,
        topic: str,
        *,
        applied: Callable[[], Lineage] = lambda: NOTHING,
    ) -> None:
        self._connections = Connections(security)
        self._applied = applied
        self._servers = servers
        self._topic = topic
        self._partition = self._new_partition()
        self._identity = ""
        self._resting_until = 0.0
        self._looked_at = -LOOK_EVERY_S
        self._looking = asyncio.Lock()

    def belongs(self, identity: str) -> None:
        """The node has told the identity of the store's log; empty: it is not to be asked now."""
        if identity != self._identity:
            self._identity = identity
            self._partition = self._new_partition()
            self._looked_at = -LOOK_EVERY_S
            self.rest_is_over()

    def _new_partition(self) -> Partition:
        partition = Partition(self._connections, self._servers, self._topic)
        partition.read = self._applied
        return partition

    async def ask(self) -> int | None:
        """The offset of the next record as of some moment after the call; ``None``: ask the node."""
        if not self._identity or time.monotonic() < self._resting_until:
            return None
        partition = self._partition
        try:
            async with asyncio.timeout(ASK_S):
                if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
                    await self._look(partition)
                return await partition.offset_at(requests.LATEST, ASK_S)
        except (LogError, NoAnswer, StoreError, TimeoutError):
            self._resting_until = time.monotonic() + REST_S
            return None

    def rest_is_over(self) -> None:
        """Ask again from now on."""
        self._resting_until = 0.0

    async def _look(self, partition: Partition) -> None:
        async with self._looking:
            if time.monotonic() - self._looked_at < LOOK_EVERY_S:
                return
            cluster = await partition.refresh(ASK_S)
            if not partition.topic_id and cluster.place is not None:
                partition.adopt(cluster)
            if partition.identity != self._identity:
                raise NoAnswer(f"the log is {self._identity}, not {partition.identity}", sent=True)
            await learn_min_in_sync(partition)
            self._looked_at = time.monotonic()

    async def close(self) -> None:
        """Hang up."""
        await self._connections.close()
