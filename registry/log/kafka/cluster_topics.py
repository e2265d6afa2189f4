"""All topics of a cluster as its brokers describe them: partitions, offsets, clean-up policies, sizes.

The number of requests grows with the brokers, not with the topics: offsets and sizes are asked of each broker
once, for all of its partitions.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from aiokafka.protocol.admin import DescribeConfigsRequest

from registry.log.contract import Unreachable

from .broker_connection import login_with
from .cluster_requests import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AllReplicas,
    AllTopics,
    EpochEndsOf,
    Listed,
    OffsetsOf,
    Place,
    brokers_in,
    epoch_ends_in,
    leaders_in,
    offsets_in,
)
from .connection import Backoff, Connections, NoAnswer
from .partition import Partition
from .permissions import Operation, operations_of
from .requests import EARLIEST, LATEST, NO_TOPIC_ID, Broker, Code, code_name, topic_id_text
from .security import Security

# For an answer about thousands of partitions.
_ANSWER_S = 30.0
_TOPIC_RESOURCE = 2
_POLICY = "cleanup.policy"

T = TypeVar("T")


class DescribedPartition(NamedTuple):
    """A partition as its leader describes it."""

    number: int
    # The offset of its first message.
    begin: int = 0
    # The offset after the last message whose transaction is over (the last stable offset).
    end: int = 0
    # The offset after the last message (the high watermark).
    high: int = 0
    # Bytes of the leader's replica; ``None`` if it is hidden from this client.
    size: int | None = None
    # The epoch of the leader that named ``end``; ``None`` if it does not say.
    epoch: int | None = None
    # Why nothing is known of its offsets; empty if they are.
    problem: str = ""


class DescribedTopic(NamedTuple):
    """A topic that this client may describe, or that is known to exist."""

    name: str
    # As Kafka's tools print it; empty if the brokers give topics no ids.
    id: str
    internal: bool
    compacted: bool
    partitions: tuple[DescribedPartition, ...]
    # Why it cannot be read; empty if it can.
    problem: str = ""


class DescribedCluster(NamedTuple):
    """A cluster with its topics, by name."""

    id: str
    topics: Mapping[str, DescribedTopic]
    # False if there may be topics that this client does not get to see.
    knows_all_topics: bool


@dataclass(slots=True)
class _Found:
    """Answers of the brokers so far."""

    begins: dict[Place, Listed] = field(default_factory=dict)
    ends: dict[Place, Listed] = field(default_factory=dict)
    highs: dict[Place, Listed] = field(default_factory=dict)
    problems: dict[Place, str] = field(default_factory=dict)
    sizes: dict[tuple[int, Place], int] = field(default_factory=dict)


def describe_topics(
    security: Security, servers: str, *, timeout_s: float, transactions_s: float = 0.0
) -> DescribedCluster:
    """Return the cluster's topics. Partitions that have no leader until ``timeout_s`` is over say so.

    ``transactions_s``: how long to wait for the ends of transactions that are open, at most.
    Raises :class:`registry.log.contract.LogError`.
    """

    async def describe(brokers: Partition) -> DescribedCluster:
        return await _Description(brokers, timeout_s).read(transactions_s)

    return _ask(security, servers, describe)


def find_epoch_ends(
    security: Security, servers: str, epochs: Mapping[Place, int], *, timeout_s: float
) -> dict[Place, int]:
    """Return where a leader epoch ends in each of some partitions now; -1 where its leader does not know it.

    If that is less than an offset that a leader in that epoch has named, records were lost (KIP-320).
    Partitions whose leaders do not answer until ``timeout_s`` is over are left out.
    Raises :class:`registry.log.contract.LogError`.
    """

    async def find(brokers: Partition) -> dict[Place, int]:
        ends, backoff = dict[Place, int](), Backoff()
        deadline = time.monotonic() + timeout_s
        while True:
            late = time.monotonic() >= deadline
            with suppress(NoAnswer):
                answer = await brokers.send_to_any(AllTopics(), lambda answer: answer, _ANSWER_S)
                missing = {each for each, _ in leaders_in(answer) if each in epochs and each not in ends}
                by_leader, _ = _by_leader(answer, missing)
                await asyncio.gather(*(ask(brokers, ends, *each) for each in by_leader.items()))
                late = late or missing <= ends.keys()
            if late:
                return ends
            await backoff()

    async def ask(brokers: Partition, ends: dict[Place, int], leader: Broker, places: list[Place]) -> None:
        asked = EpochEndsOf({place: epochs[place] for place in places})
        with suppress(NoAnswer):
            answer = await brokers.send_to(leader.host, leader.port, asked, _ANSWER_S)
            ends.update((place, each.offset) for place, each in epoch_ends_in(answer) if not each.problem)

    return _ask(security, servers, find)


def _ask(security: Security, servers: str, ask: Callable[[Partition], Awaitable[T]]) -> T:
    """Return what ``ask`` finds out through connections of its own."""

    async def run() -> T:
        connections = Connections(login_with(security))
        try:
            return await ask(Partition(connections, servers, ""))
        finally:
            await connections.close()

    return asyncio.run(run())


def _by_leader(answer: Any, wanted: AbstractSet[Place]) -> tuple[dict[Broker, list[Place]], list[Place]]:
    """Return partitions by their leaders, and those that have none."""
    brokers, leaderless = brokers_in(answer), list[Place]()
    by_leader = defaultdict[Broker, list[Place]](list)
    for place, leader in leaders_in(answer):
        if place in wanted:
            (by_leader[brokers[leader]] if leader in brokers else leaderless).append(place)
    return by_leader, leaderless


class _Description:
    """One description of a cluster, with as many attempts as its time allows."""

    def __init__(self, brokers: Partition, timeout_s: float) -> None:
        self._brokers, self._found = brokers, _Found()
        self._deadline = time.monotonic() + timeout_s

    async def read(self, transactions_s: float) -> DescribedCluster:
        """Return the cluster. Raises :class:`registry.log.contract.LogError`."""
        backoff = Backoff()
        while True:
            late = time.monotonic() >= self._deadline
            try:
                answer = await self._brokers.send_to_any(AllTopics(), lambda answer: answer, _ANSWER_S)
                await self._ask_leaders(answer)
                if not self._found.problems or late:
                    await self._await_transactions(answer, transactions_s)
                    return await self._describe(answer)
            except NoAnswer as error:
                if late:
                    raise Unreachable(f"Kafka does not answer: {error}") from error
            await backoff()

    async def _ask_leaders(self, answer: Any) -> None:
        """Ask for the offsets that are not known yet."""
        wanted = {place for place, _ in leaders_in(answer) if place not in self._found.highs}
        by_leader, leaderless = _by_leader(answer, wanted)
        self._found.problems = dict.fromkeys(leaderless, "it has no partition leader")
        await asyncio.gather(*(self._ask_leader(*each) for each in by_leader.items()))

    async def _ask_leader(self, broker: Broker, places: list[Place]) -> None:
        found = self._found
        # The beginning first and the high watermark last: what is removed or written meanwhile can only make
        # the range wider than it was at any moment.
        for offsets, at, isolation in (
            (found.begins, EARLIEST, READ_UNCOMMITTED),
            (found.ends, LATEST, READ_COMMITTED),
            (found.highs, LATEST, READ_UNCOMMITTED),
        ):
            asked = OffsetsOf(at, isolation, (place for place in places if place not in found.problems))
            try:
                answer = await self._brokers.send_to(broker.host, broker.port, asked, _ANSWER_S)
            except NoAnswer as error:
                found.problems |= dict.fromkeys(places, f"its partition leader does not answer: {error}")
                return
            for place, listed in offsets_in(answer):
                if listed.problem:
                    found.problems[place] = listed.problem
                else:
                    offsets[place] = listed

    async def _await_transactions(self, answer: Any, limit_s: float) -> None:
        """Wait until the transactions are over in which messages up to the high watermarks were written."""
        found = self._found
        deadline, backoff = time.monotonic() + limit_s, Backoff()
        while time.monotonic() < deadline:
            open_ones = {
                place for place, high in found.highs.items() if found.ends[place].offset < high.offset
            }
            if not open_ones:
                return
            await backoff()
            for leader, places in _by_leader(answer, open_ones)[0].items():
                asked = OffsetsOf(LATEST, READ_COMMITTED, places)
                with suppress(NoAnswer):
                    ends = await self._brokers.send_to(leader.host, leader.port, asked, _ANSWER_S)
                    for place, end in offsets_in(ends):
                        if not end.problem:
                            high = found.highs[place].offset
                            found.ends[place] = end._replace(offset=min(end.offset, high))

    async def _describe(self, answer: Any) -> DescribedCluster:
        brokers, named = brokers_in(answer), [name for _, name, *_ in answer.topics]
        replicas = await asyncio.gather(*(self._sizes(each) for each in brokers.values()))
        policies = await self._policies(named)
        topics = {topic.name: topic for topic in self._topics(answer, policies)}
        hidden = {topic for _, (topic, _) in self._found.sizes} - topics.keys()
        for name in hidden:
            why = "this client needs Describe on the topic"
            topics[name] = DescribedTopic(name, "", name.startswith("__"), False, (), why)
        return DescribedCluster(answer.cluster_id or "", topics, bool(replicas) and all(replicas))

    async def _sizes(self, broker: Broker) -> bool:
        """Read the sizes of a broker's replicas; return whether it names all of them."""
        try:
            answer = await self._brokers.send_to(broker.host, broker.port, AllReplicas(), _ANSWER_S)
        except NoAnswer:
            return False
        for code, _, topics in answer.results:
            if code != Code.NONE:
                return False
            for name, partitions in topics:
                for number, size, _, is_future in partitions:
                    if not is_future:
                        self._found.sizes[broker.id, (name, number)] = size
        return bool(answer.results)

    async def _policies(self, topics: list[str]) -> dict[str, str]:
        """Return the clean-up policies of the topics that this client may ask for."""
        asked = DescribeConfigsRequest([(_TOPIC_RESOURCE, name, [_POLICY]) for name in topics])
        if not topics:
            return {}
        answer = await self._brokers.send_to_any(asked, lambda answer: answer, _ANSWER_S)
        return {
            name: value
            for code, _, _, name, entries in answer.resources
            if code == Code.NONE
            for key, value, *_ in entries
            if key == _POLICY
        }

    def _topics(self, answer: Any, policies: dict[str, str]) -> Iterator[DescribedTopic]:
        for code, name, topic_id, internal, partitions, operations, _ in answer.topics:
            allowed = operations_of(operations)
            problem = "" if code == Code.NONE else code_name(code)
            if allowed is not None and Operation.READ not in allowed:
                problem = "this client needs Read on the topic"
            # Of a topic whose policy is hidden, any part may be compacted.
            compacted = "compact" in policies.get(name, "compact")
            places = sorted((number, leader) for _, number, leader, *_ in partitions)
            described = tuple(self._partition(name, *place) for place in places)
            text = topic_id_text(topic_id) if topic_id != NO_TOPIC_ID else ""
            yield DescribedTopic(name, text, bool(internal), compacted, described, problem)

    def _partition(self, topic: str, number: int, leader: int) -> DescribedPartition:
        found, place = self._found, (topic, number)
        if why := found.problems.get(place):
            return DescribedPartition(number, problem=why)
        size = found.sizes.get((leader, place))
        begin, end, high = (each[place] for each in (found.begins, found.ends, found.highs))
        epoch = end.epoch if end.epoch >= 0 else None
        return DescribedPartition(number, begin.offset, end.offset, high.offset, size, epoch)
