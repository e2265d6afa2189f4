"""The log's partition: its leader, its identity, and requests to it.

Requests reach only a leader whose log is the one that was read before: the partition compares the topic's id
with every metadata refresh, and the records with every new leader epoch and every new connection.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.log.contract import LogError

from . import requests
from .connection import TRY_S, Connections, NoAnswer, Purpose, addresses, retry_until
from .log_identity import HISTORY, TOPIC, LineageCheck, LogMismatchEvidence
from .release import ApiVersions
from .requests import Broker, Cluster, Code, PartitionMetadata, code_name

_RESOURCES = {
    Code.TOPIC_AUTHORIZATION_FAILED: "topic",
    Code.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}

T = TypeVar("T")


class _Leader(NamedTuple):
    """A partition leader as reached over one connection."""

    broker: Broker
    epoch: int
    # How often the connection was opened: another number is another connection.
    open_count: int


class Partition:
    """The only partition of ``topic``. Except for :attr:`end`, it is used on one event loop.

    Unless documented otherwise, methods raise :class:`.contract.ForeignLog`, :class:`.contract.LogError` that
    names a missing permission, and :class:`.connection.NoAnswer` when a single attempt fails.
    """

    def __init__(
        self,
        connections: Connections,
        servers: str,
        topic: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.topic = topic
        self.cluster_id = ""
        self.topic_id = b""
        # The topic's min.insync.replicas. While it is unknown, 1: the leader check is then strictest.
        self.min_in_sync = 1
        # The log's end as last known.
        self.end = 0
        self._advancing = threading.Lock()
        self.cluster: Cluster | None = None
        # When the brokers last described it, by the monotonic clock.
        self.refreshed_at = -1.0
        self.mismatches = LogMismatchEvidence(clock)
        # Returns the lineage of what was read. Requests go only to a log that still has those records.
        self.lineage: Callable[[], Lineage] = lambda: NOTHING
        self.servers = servers
        self._connections = connections
        self._servers = addresses(servers)
        self._failed_at: dict[tuple[str, int], float] = {}
        self._refreshing = asyncio.Lock()
        self._last_answered: tuple[str, int] | None = None
        self._comparing = asyncio.Lock()
        self._compared: dict[Purpose, _Leader] = {}

    @property
    def identity(self) -> str:
        """The names of the cluster and the topic, with their ids."""
        return f"{self.cluster_id}/{self.topic}/{requests.topic_id_text(self.topic_id)}"

    @property
    def metadata(self) -> PartitionMetadata | None:
        """The partition as the brokers last described it."""
        return self.cluster.partition if self.cluster else None

    @property
    def epoch(self) -> int:
        """The leader epoch as last known; -1: unknown."""
        return self.metadata.epoch if self.metadata else -1

    def advance_end(self, end: int) -> None:
        """Remember an end of the log; it never goes back. Callable from any thread."""
        with self._advancing:
            self.end = max(self.end, end)

    def suspect(self, kind: str, text: str) -> NoReturn:
        """Record one more sign that the log is another one, and raise what it means."""
        if kind == TOPIC and self._last_answered:
            # Ask another broker first next time.
            self._failed_at[self._last_answered] = self.clock()
        self.mismatches.add(kind, text)
        self.mismatches.check()
        raise AssertionError("check() raises while something is suspected")

    # Metadata.

    async def refresh(self, timeout_s: float = TRY_S) -> Cluster:
        """Request new metadata of the cluster and the topic; concurrent calls share one request."""
        started = self.clock()
        try:
            async with asyncio.timeout(timeout_s), self._refreshing:
                if self.cluster is None or self.refreshed_at < started:
                    cluster = await self._send_to_any(requests.Metadata(self.topic), requests.cluster)
                    self._check_newer(cluster)
                    self.update(cluster)
        except TimeoutError as error:
            raise NoAnswer(f"no broker answered in {timeout_s:.3g} s", sent=False) from error
        assert self.cluster is not None
        if self.topic_id:
            self._check_same_topic(self.cluster)
        return self.cluster

    def update(self, cluster: Cluster) -> None:
        """Use this metadata from now on."""
        self.cluster, self.refreshed_at = cluster, self.clock()

    def adopt(self, cluster: Cluster) -> None:
        """Follow this topic from now on."""
        assert cluster.partition is not None
        self.cluster_id, self.topic_id = cluster.id, cluster.partition.topic_id

    async def retry_until(self, deadline: float, attempt: Callable[[], Awaitable[T]]) -> T:
        """Do what :func:`.connection.retry_until` does, with this partition's clock."""
        return await retry_until(deadline, attempt, self.clock)

    async def recover(self) -> None:
        """Refresh the metadata after a failed attempt; raise only confirmed findings."""
        try:
            await self.refresh()
        except NoAnswer:
            self.mismatches.check_foreign()

    def _check_newer(self, cluster: Cluster) -> None:
        """Reject metadata of a broker that knows only an older leader epoch than others have named."""
        known, found = self.metadata, cluster.partition
        if known and found and known.topic_id == found.topic_id and found.epoch < known.epoch:
            if self._last_answered:
                self._failed_at[self._last_answered] = self.clock()
            raise NoAnswer("the broker does not know the partition leader yet", sent=False)

    def _check_same_topic(self, cluster: Cluster) -> None:
        if cluster.code == Code.TOPIC_AUTHORIZATION_FAILED:
            self.raise_denied(cluster.code, "Describe")
        if cluster.id != self.cluster_id:
            self.suspect(
                TOPIC,
                f"the brokers are of the Kafka cluster {cluster.id}, but the log was in {self.cluster_id}",
            )
        if cluster.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self.suspect(TOPIC, f"the topic {self.topic} was deleted; records up to {self.end - 1} were read")
        if cluster.partition is None:
            raise NoAnswer(f"topic {self.topic}: {code_name(cluster.code)}", sent=False)
        if cluster.partition.topic_id != self.topic_id:
            was, now = map(requests.topic_id_text, (self.topic_id, cluster.partition.topic_id))
            self.suspect(
                TOPIC,
                f"the topic {self.topic} was deleted and created again: its id was {was} and is {now}; "
                f"records up to {self.end - 1} were read",
            )
        self.mismatches.clear(TOPIC)
        self.mismatches.check()

    def raise_denied(self, code: int, operation: str, name: str = "") -> NoReturn:
        """Raise the error that names a missing permission."""
        kind = _RESOURCES.get(Code(code), "cluster")
        raise LogError(
            f"Kafka refused: this client needs {operation} on {kind} {name or self.topic} ({code_name(code)})"
        )

    # Requests to any broker, or to a given one.

    async def send_to_any(self, request: Any, read: Callable[[Any], T], timeout_s: float = TRY_S) -> T:
        """Return the answer of the first broker that answers."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._send_to_any(request, read)
        except TimeoutError as error:
            raise NoAnswer(f"no broker answered in {timeout_s:.3g} s", sent=False) from error

    async def _send_to_any(self, request: Any, read: Callable[[Any], T]) -> T:
        known = [(broker.host, broker.port) for broker in self.cluster.brokers] if self.cluster else []
        known = list(dict.fromkeys([*self._connections.open_addresses(), *known, *self._servers]))
        errors = []
        # Brokers that failed are tried last, the one that failed longest ago first.
        for host, port in sorted(known, key=lambda address: self._failed_at.get(address, 0.0)):
            try:
                answer = await self._connections.send(host, port, Purpose.QUERY, request, TRY_S / 2)
            except NoAnswer as error:
                self._failed_at[host, port] = self.clock()
                errors.append(str(error))
            else:
                self._failed_at.pop((host, port), None)
                self._last_answered = host, port
                return read(answer)
        raise NoAnswer("; ".join(errors), sent=False)

    async def send_to(self, host: str, port: int, request: Any, timeout_s: float = TRY_S) -> Any:
        """Return the answer of this broker."""
        return await self._connections.send(host, port, Purpose.QUERY, request, timeout_s)

    @contextmanager
    def watching(self, broker: Broker) -> Iterator[None]:
        """Remember if the block could not reach ``broker``, so that others are asked first."""
        address = broker.host, broker.port
        try:
            yield
        except NoAnswer:
            self._failed_at[address] = self.clock()
            raise
        self._failed_at.pop(address, None)

    def failed_at(self, broker: Broker) -> float:
        """Return when the broker last failed to answer; 0 if it answered since."""
        return self._failed_at.get((broker.host, broker.port), 0.0)

    def versions_of(self, broker: Broker) -> ApiVersions:
        """Return the request versions that the broker supports; empty while it is not connected."""
        return self._connections.api_versions(broker.host, broker.port)

    def api_versions(self) -> list[ApiVersions]:
        """Return the request versions of each broker with a replica that is connected."""
        metadata = self.metadata
        brokers = [metadata.broker, *metadata.others] if metadata else []
        found = [self.versions_of(each) for each in brokers if each]
        return [each for each in found if each]

    # Requests to the leader.

    async def send(
        self, request: Any, purpose: Purpose, timeout_s: float = TRY_S, *, reading_bounds: bool = False
    ) -> Any:
        """Return the leader's answer, over a connection to a log that was compared with what was read.

        ``reading_bounds``: see :meth:`.log_identity.LogMismatchEvidence.check`.
        """
        self.mismatches.check(reading_bounds=reading_bounds)
        leader = self._leader(purpose)
        if leader != self._compared.get(purpose):
            began = self.clock()
            leader = await self._compare(purpose, timeout_s)
            timeout_s = max(0.001, timeout_s - (self.clock() - began))
        host, port = leader.broker.host, leader.broker.port
        return await self._connections.send(
            host, port, purpose, request, timeout_s, open_count=leader.open_count
        )

    async def _compare(self, purpose: Purpose, timeout_s: float) -> _Leader:
        """Return the leader after its log was compared with what was read.

        A log is truncated while its broker is down or when the leader changes. So it is compared in each
        leader epoch, and after each connect.
        """
        try:
            async with asyncio.timeout(timeout_s), self._comparing:
                broker = self._leader(purpose).broker
                await self._connections.open(broker.host, broker.port, purpose)
                leader = self._leader(purpose)
                if leader != self._compared.get(purpose):
                    lineage = self.lineage()
                    divergence = None if lineage == NOTHING else await self._divergence(leader, lineage)
                    if divergence is not None:
                        self.suspect(
                            HISTORY,
                            f"the topic {self.topic} has lost records: from offset {divergence} or earlier "
                            f"on it does not have those that were read up to {lineage.end}",
                        )
                    self.mismatches.clear(HISTORY)
                    self._compared[purpose] = leader
                return leader
        except TimeoutError as error:
            raise NoAnswer(f"no broker answered in {timeout_s:.3g} s", sent=False) from error

    async def divergence(self, lineage: Lineage) -> int | None:
        """Return the divergence from ``lineage``, see :meth:`.contract.Log.divergence`; a single attempt."""
        await self.refresh()
        return await self._divergence(self._leader(Purpose.QUERY), lineage)

    def compared_epoch(self, purpose: Purpose) -> int:
        """Return the leader epoch in which the log was found to hold what was read from it.

        -1 if it has yet to be compared, as after a change of the leader or a lost connection, or if anything
        speaks against this log. For any thread.
        """
        compared = self._compared.get(purpose)
        if compared is None or self.mismatches.any:
            return -1
        try:
            return compared.epoch if compared == self._leader(purpose) else -1
        except NoAnswer:
            return -1

    def compare_again(self) -> None:
        """Compare every leader again before its next request."""
        self._compared.clear()

    async def _divergence(self, leader: _Leader, lineage: Lineage) -> int | None:
        async def send(request: Any) -> Any:
            return await self.send_to(leader.broker.host, leader.broker.port, request)

        return await LineageCheck(send, self.topic, self.topic_id, leader.epoch).divergence(lineage)

    def _leader(self, purpose: Purpose) -> _Leader:
        """Return the leader as last known. Raises :class:`.connection.NoAnswer` if there is none."""
        metadata = self.metadata
        if metadata is None or metadata.broker is None:
            raise NoAnswer(f"topic {self.topic} has no partition leader now", sent=False)
        broker = metadata.broker
        open_count = self._connections.open_count(broker.host, broker.port, purpose)
        return _Leader(broker, metadata.epoch, open_count)

    def give_up_fetches(self) -> None:
        """Close connections with long polls, so that the next fetch does not queue behind them."""
        self._connections.give_up(Purpose.FETCH)
