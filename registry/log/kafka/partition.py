"""The log's partition: which broker has it, whether it is still the one that was opened, and where it ends.

That it is another one (its topic deleted, made anew or cut, or other brokers behind the same addresses) is
believed only after brokers have said so for a while and none has said otherwise: one that has just started
may know less than the others. Until then the partition counts as unreachable.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.log.contract import ForeignLog, LogError, Unreachable

from . import leader_check, release, requests
from .connection import Connections, NoAnswer, Purpose, addresses
from .requests import Broker, Cluster, Code, code_name
from .truncation import Looking

CONFIRM_S = 1.0
"""For how long brokers must say that the log is another one."""
TRY_S = 3.0
"""Time for one request; what a broker needs that is alive."""
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.02, 1.0

_DENIED = {
    Code.TOPIC_AUTHORIZATION_FAILED: "topic",
    Code.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
}

TOPIC, HEAD, END, HISTORY = "topic", "head", "end", "history"
"""In what a log can turn out to be another one."""

T = TypeVar("T")


class Pause:
    """Waits longer from time to time, a little by chance, so that many do not come at once."""

    def __init__(self) -> None:
        self._next_s = _PAUSE_MIN_S

    async def __call__(self) -> None:
        """Wait once."""
        await asyncio.sleep(self._next_s * random.uniform(0.7, 1.3))  # noqa: S311 (no secret)
        self._next_s = min(self._next_s * 2, _PAUSE_MAX_S)

    def reset(self) -> None:
        """Begin with short waits again."""
        self._next_s = _PAUSE_MIN_S


class _Leader(NamedTuple):
    """Who leads the partition, and over which connection it is asked."""

    broker: Broker
    epoch: int
    opened: int
    """How often the connection was opened."""


class Partition:
    """The only partition of ``topic``. All calls but :attr:`end` are made on one event loop.

    Raises, where nothing else is said: :class:`.contract.ForeignLog`; :class:`.contract.LogError` that names
    a missing permission; :class:`.connection.NoAnswer` for one try that failed.
    """

    def __init__(self, connections: Connections, servers: str, topic: str) -> None:
        self.topic = topic
        self.cluster_id = ""
        self.topic_id = b""
        # The topic's min.insync.replicas; 1 while it is not known, which asks the most of witnesses.
        self.min_in_sync = 1
        self.end = 0
        """The log's end as last heard."""
        self.cluster: Cluster | None = None
        self.heard = -1.0
        """When the brokers last described it, by the monotonic clock."""
        self._connections = connections
        self.servers = servers
        self._servers = addresses(servers)
        self._failed: dict[tuple[str, int], float] = {}
        self._asking = asyncio.Lock()
        self._suspected: dict[str, tuple[float, str]] = {}
        self._foreign: dict[str, str] = {}
        self._asked: tuple[str, int] | None = None
        self.read: Callable[[], Lineage] = lambda: NOTHING
        """What is remembered of the log by who reads it. Only a log that still has that is asked anything."""
        self._comparing = asyncio.Lock()
        self._compared: dict[Purpose, _Leader] = {}

    @property
    def identity(self) -> str:
        """The names of the cluster and the topic, with their ids."""
        return f"{self.cluster_id}/{self.topic}/{requests.topic_id_text(self.topic_id)}"

    @property
    def epoch(self) -> int:
        """The leader epoch as last heard; -1: not known."""
        return self.cluster.place.epoch if self.cluster and self.cluster.place else -1

    def note_end(self, end: int) -> None:
        """Remember where the log ended."""
        self.end = max(self.end, end)

    def check(self, *, looking: bool = False) -> None:
        """Raise what stands against using the partition; ``looking`` where it begins or ends needs less."""
        self.check_foreign()
        for what, (_, text) in self._suspected.items():
            if what == TOPIC or not looking:
                raise NoAnswer(text, sent=False)

    @property
    def foreign(self) -> bool:
        """Whether it is settled that the log is another one."""
        return bool(self._foreign)

    def check_foreign(self) -> None:
        """Raise :class:`.contract.ForeignLog` if that is settled; from any thread."""
        for text in tuple(self._foreign.values()):
            raise ForeignLog(text)

    def suspect(self, what: str, text: str) -> NoReturn:
        """Count one more sign, in ``what``, that the log is another one."""
        now = time.monotonic()
        since, _ = self._suspected.setdefault(what, (now, text))
        self._suspected[what] = since, text
        if what == TOPIC and self._asked:
            # Another broker has its say next.
            self._failed[self._asked] = now
        if now - since >= CONFIRM_S:
            self._foreign[what] = text
        self.check()
        raise AssertionError("check() raises while something is suspected")

    def clear(self, what: str) -> None:
        """Forget such signs: one answer was as it should be.

        A topic that is there again under its id is the same, whatever was settled; lost records stay lost.
        """
        self._suspected.pop(what, None)
        if what == TOPIC:
            self._foreign.pop(what, None)

    async def refresh(self, timeout_s: float = TRY_S) -> Cluster:
        """Ask for the cluster and the topic anew; shared by all that ask at the same time."""
        asked = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s), self._asking:
                if self.cluster is None or self.heard < asked:
                    cluster = await self._ask_anybody(requests.Metadata(self.topic), requests.cluster)
                    self._check_newer(cluster)
                    self.cluster, self.heard = cluster, time.monotonic()
        except TimeoutError as error:
            raise NoAnswer(f"no broker answered in {timeout_s:.3g} s", sent=False) from error
        if self.topic_id:
            self._compare(self.cluster)
        return self.cluster

    def _check_newer(self, cluster: Cluster) -> None:
        """Take nothing from a broker that knows less than others have said: who leads the partition."""
        known, found = self.cluster and self.cluster.place, cluster.place
        if known and found and known.topic_id == found.topic_id and found.epoch < known.epoch:
            if self._asked:
                self._failed[self._asked] = time.monotonic()
            raise NoAnswer("the broker does not know yet which one has the partition", sent=False)

    def adopt(self, cluster: Cluster) -> None:
        """Take this topic as the one to follow."""
        assert cluster.place is not None
        self.cluster_id, self.topic_id = cluster.id, cluster.place.topic_id

    def _compare(self, cluster: Cluster) -> None:
        if cluster.code == Code.TOPIC_AUTHORIZATION_FAILED:
            self.denied(cluster.code, "Describe")
        if cluster.id != self.cluster_id:
            self.suspect(
                TOPIC,
                f"the brokers are of the Kafka cluster {cluster.id}, but the log was in {self.cluster_id}",
            )
        if cluster.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self.suspect(TOPIC, f"the topic {self.topic} was deleted; records up to {self.end - 1} were seen")
        if cluster.place is None:
            raise NoAnswer(f"topic {self.topic}: {code_name(cluster.code)}", sent=False)
        if cluster.place.topic_id != self.topic_id:
            was, now = map(requests.topic_id_text, (self.topic_id, cluster.place.topic_id))
            self.suspect(
                TOPIC,
                f"the topic {self.topic} was deleted and made anew: its id was {was} and is {now}; "
                f"records up to {self.end - 1} were seen",
            )
        self.clear(TOPIC)
        self.check()

    def denied(self, code: int, operation: str, name: str = "") -> NoReturn:
        """Raise what says which permission is missing."""
        kind = _DENIED.get(Code(code), "cluster")
        raise LogError(
            f"Kafka refused: this client needs {operation} on {kind} {name or self.topic} ({code_name(code)})"
        )

    def offered(self) -> list[release.Offered]:
        """Return what each broker with a replica offers, as far as it was asked anything."""
        place = self.cluster.place if self.cluster else None
        brokers = [place.broker, *place.others] if place else []
        found = [self._connections.offered(each.host, each.port) for each in brokers if each]
        return [each for each in found if each]

    async def ask_anybody(self, request: Any, read: Callable[[Any], T], timeout_s: float = TRY_S) -> T:
        """The answer of any broker that answers."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask_anybody(request, read)
        except TimeoutError as error:
            raise NoAnswer(f"no broker answered in {timeout_s:.3g} s", sent=False) from error

    async def _ask_anybody(self, request: Any, read: Callable[[Any], T]) -> T:
        known = [(broker.host, broker.port) for broker in self.cluster.brokers] if self.cluster else []
        known = list(dict.fromkeys([*self._connections.known(), *known, *self._servers]))
        troubles = []
        for host, port in sorted(known, key=lambda address: self._failed.get(address, 0.0)):
            try:
                answer = await self._connections.ask(host, port, Purpose.ASK, request, TRY_S / 2)
            except NoAnswer as error:
                self._failed[host, port] = time.monotonic()
                troubles.append(str(error))
            else:
                self._failed.pop((host, port), None)
                self._asked = host, port
                return read(answer)
        raise NoAnswer("; ".join(troubles), sent=False)

    async def ask_at(self, host: str, port: int, request: Any, timeout_s: float = TRY_S) -> Any:
        """The answer of this very broker."""
        return await self._connections.ask(host, port, Purpose.ASK, request, timeout_s)

    async def ask(
        self, request: Any, purpose: Purpose, timeout_s: float = TRY_S, *, looking: bool = False
    ) -> Any:
        """The answer of the broker that has the partition, over a connection to where the log is the same."""
        self.check(looking=looking)
        leader = self._leader(purpose)
        if leader != self._compared.get(purpose):
            began = time.monotonic()
            leader = await self._same_log(purpose, timeout_s)
            timeout_s = max(0.001, timeout_s - (time.monotonic() - began))
        host, port = leader.broker.host, leader.broker.port
        return await self._connections.ask(host, port, purpose, request, timeout_s, opened=leader.opened)

    async def _same_log(self, purpose: Purpose, timeout_s: float) -> _Leader:
        """Return who leads the partition, once its log was compared with what was read.

        A log is cut while its broker is down, or when another one comes to lead. So it is compared in each
        leader epoch, and whenever a connection was opened.
        """
        try:
            async with asyncio.timeout(timeout_s), self._comparing:
                broker = self._leader(purpose).broker
                await self._connections.open(broker.host, broker.port, purpose)
                leader = self._leader(purpose)
                if leader != self._compared.get(purpose):
                    lineage = self.read()
                    divergence = None if lineage == NOTHING else await self._divergence(leader, lineage)
                    if divergence is not None:
                        self.suspect(HISTORY, self._lost(divergence, lineage.end))
                    self.clear(HISTORY)
                    self._compared[purpose] = leader
                return leader
        except TimeoutError as error:
            raise NoAnswer(f"no broker answered in {timeout_s:.3g} s", sent=False) from error

    async def divergence(self, lineage: Lineage) -> int | None:
        """See :meth:`.contract.Log.divergence`; one try."""
        await self.refresh()
        return await self._divergence(self._leader(Purpose.ASK), lineage)

    def compare_again(self) -> None:
        """Believe nobody who was compared with what had been read before."""
        self._compared.clear()

    async def _divergence(self, leader: _Leader, lineage: Lineage) -> int | None:
        async def ask(request: Any) -> Any:
            broker = leader.broker
            return await self._connections.ask(broker.host, broker.port, Purpose.ASK, request, TRY_S)

        return await Looking(ask, self.topic, self.topic_id, leader.epoch).divergence(lineage)

    def _leader(self, purpose: Purpose) -> _Leader:
        """Who leads the partition as far as is known. Raises :class:`.connection.NoAnswer` for nobody."""
        place = self.cluster.place if self.cluster else None
        if place is None or place.broker is None:
            raise NoAnswer(f"no broker has the partition of topic {self.topic} at present", sent=False)
        broker = place.broker
        return _Leader(broker, place.epoch, self._connections.opened(broker.host, broker.port, purpose))

    def _lost(self, divergence: int, read: int) -> str:
        return (
            f"the topic {self.topic} has lost records: from offset {divergence} or earlier on it does not "
            f"have those that were read up to {read}"
        )

    def give_up_fetches(self) -> None:
        """Let no long poll stand in the way of the next one."""
        self._connections.give_up(Purpose.FETCH)

    async def recover(self) -> None:
        """After a failed try: look where the partition is now. Raises only what is settled."""
        try:
            await self.refresh()
        except NoAnswer:
            self.check_foreign()

    async def offset_at(self, at: int, timeout_s: float) -> int:
        """Return the log's end or start, and try until the time is up.

        ``at`` is :data:`.requests.LATEST` or :data:`.requests.EARLIEST`. Asks by name, as Kafka offers no
        other way. Raises :class:`registry.log.contract.Unreachable`.
        """
        deadline = time.monotonic() + timeout_s
        pause = Pause()
        while True:
            left = deadline - time.monotonic()
            try:
                code, offset = await self._offset_at(at, max(0.001, min(left, TRY_S)))
                if code == Code.NONE:
                    return offset
                trouble = code_name(code)
                if code == Code.TOPIC_AUTHORIZATION_FAILED:
                    self.denied(code, "Describe")
            except NoAnswer as error:
                trouble = str(error)
            if time.monotonic() + 2 * _PAUSE_MIN_S >= deadline:
                raise Unreachable(f"Kafka did not tell where topic {self.topic} ends: {trouble}")
            await pause()
            await self.recover()

    async def _offset_at(self, at: int, timeout_s: float) -> tuple[int, int]:
        """One try: the answer's code and the offset, believed by other brokers where it is the end."""
        place = self.cluster.place if self.cluster else None
        request = requests.ListOffsets(self.topic, at, place.epoch if place else -1)
        asking = self.ask(request, Purpose.ASK, timeout_s, looking=True)
        if at != requests.LATEST or place is None or place.replicas < 2:
            return requests.listed_offset(await asking)
        answer, _ = await asyncio.gather(asking, self._witnessed(place, timeout_s))
        return requests.listed_offset(answer)

    async def _witnessed(self, place: requests.Place, timeout_s: float) -> None:
        """Return when enough brokers say that nobody newer leads the partition (:mod:`.leader_check`)."""

        async def ask(broker: Broker) -> Cluster:
            try:
                answer = await self.ask_at(broker.host, broker.port, requests.Metadata(self.topic), timeout_s)
                if not release.with_kraft(self._connections.offered(broker.host, broker.port)):
                    await self._ask_replica(broker, place, timeout_s)
            except NoAnswer:
                self._failed[broker.host, broker.port] = time.monotonic()
                raise
            self._failed.pop((broker.host, broker.port), None)
            return requests.cluster(answer)

        def failed_at(broker: Broker) -> float:
            return self._failed.get((broker.host, broker.port), 0.0)

        try:
            async with asyncio.timeout(timeout_s):
                await leader_check.confirm(place, self.min_in_sync, ask, failed_at)
        except leader_check.NewerEpoch as newer:
            self.cluster, self.heard = newer.cluster, time.monotonic()
            raise NoAnswer(str(newer), sent=False) from None
        except TimeoutError as error:
            raise NoAnswer("too few brokers say which of them has the partition", sent=False) from error

    async def _ask_replica(self, broker: Broker, place: requests.Place, timeout_s: float) -> None:
        """Return if the broker itself leads or follows in the epoch of ``place``.

        With ZooKeeper it may do so in a newer one before it names that to others (:mod:`.leader_check`). It
        looks at the epoch before it looks at whether it leads. Raises :class:`.connection.NoAnswer`.
        """
        request = requests.ListOffsets(self.topic, requests.LATEST, place.epoch)
        code, _ = requests.listed_offset(await self.ask_at(broker.host, broker.port, request, timeout_s))
        if code not in {Code.NONE, Code.NOT_LEADING}:
            raise NoAnswer(
                f"{broker.host}:{broker.port} follows nobody in this epoch: {code_name(code)}", sent=False
            )

    async def query_end(self, timeout_s: float) -> int:
        """The log's end as of now. Raises :class:`.contract.Unreachable`, also while a cut is suspected."""
        deadline = time.monotonic() + timeout_s
        while True:
            known = self.end
            end = await self.offset_at(requests.LATEST, max(0.001, deadline - time.monotonic()))
            if end >= known:
                self.clear(END)
                self.note_end(end)
                return end
            try:
                self.suspect(
                    END, f"the topic {self.topic} was cut: it ended at {known} and now ends at {end}"
                )
            except NoAnswer as error:
                if time.monotonic() >= deadline:
                    raise Unreachable(str(error)) from error
            await asyncio.sleep(CONFIRM_S / 5)
