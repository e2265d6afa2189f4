"""All topics of a cluster as its brokers describe them: partitions, offsets, clean-up policies, sizes.

The number of requests grows with the brokers, not with the topics: offsets and sizes are asked of each broker
once, for all of its partitions.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Int64, Schema, String

from registry.log.contract import Unreachable

from .broker_connection import login_with
from .connection import Backoff, Connections, NoAnswer
from .partition import Partition
from .permissions import Operation, operations_of
from .requests import EARLIEST, LATEST, Broker, Code, code_name, topic_id_text
from .security import Security
from .structs import ListOffsetsRequestV5, MetadataRequestV10

# For an answer about thousands of partitions.
_ANSWER_S = 30.0
_TOPIC_RESOURCE = 2
_POLICY = "cleanup.policy"
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_REPLICA = -1

# A topic and the number of one of its partitions.
Place = tuple[str, int]


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
    # Why nothing is known of its offsets; empty if they are.
    problem: str = ""


class DescribedTopic(NamedTuple):
    """A topic that this client may describe, or that is known to exist."""

    name: str
    # As Kafka's tools print it.
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


class _AllTopics(Request[MetadataRequestV10]):  # type: ignore[misc]
    """Describes the cluster and all topics, with what this client may do."""

    API_KEY = 3

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(None, False, True, True, {})


class _OffsetsOf(Request[ListOffsetsRequestV5]):  # type: ignore[misc]
    """Asks for the beginning or the end of many partitions of one broker."""

    API_KEY = 2

    def __init__(self, at: int, isolation: int, places: Iterable[Place]) -> None:
        self._at, self._isolation = at, isolation
        self._topics = defaultdict[str, list[int]](list)
        for topic, number in places:
            self._topics[topic].append(number)

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        asked = [
            (topic, [(number, -1, self._at) for number in numbers]) for topic, numbers in self._topics.items()
        ]
        return struct(_REPLICA, self._isolation, asked)


class DescribeLogDirsResponseV1(Response):  # type: ignore[misc]
    """The replicas of a broker; none at all without the permission Describe on the cluster."""

    API_KEY, API_VERSION = 35, 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            Array(
                ("error_code", Int16),
                ("log_dir", String("utf-8")),
                (
                    "topics",
                    Array(
                        ("name", String("utf-8")),
                        (
                            "partitions",
                            Array(
                                ("partition", Int32),
                                ("size", Int64),
                                ("offset_lag", Int64),
                                ("is_future", Boolean),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    )


class DescribeLogDirsRequestV1(RequestStruct):  # type: ignore[misc]
    """Asks for the replicas of a broker (Kafka 2.0 and newer)."""

    API_KEY, API_VERSION = 35, 1
    RESPONSE_TYPE = DescribeLogDirsResponseV1
    SCHEMA = Schema(("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))))


class _AllReplicas(Request[DescribeLogDirsRequestV1]):  # type: ignore[misc]
    """Describes all replicas of the broker that answers."""

    API_KEY = 35

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(None)


@dataclass(slots=True)
class _Found:
    """Answers of the brokers so far."""

    begins: dict[Place, int] = field(default_factory=dict)
    ends: dict[Place, int] = field(default_factory=dict)
    highs: dict[Place, int] = field(default_factory=dict)
    problems: dict[Place, str] = field(default_factory=dict)
    sizes: dict[tuple[int, Place], int] = field(default_factory=dict)


def describe_topics(
    security: Security, servers: str, *, timeout_s: float, transactions_s: float = 0.0
) -> DescribedCluster:
    """Return the cluster's topics. Partitions that have no leader until ``timeout_s`` is over say so.

    ``transactions_s``: how long to wait for the ends of transactions that are open, at most.
    Raises :class:`registry.log.contract.LogError`.
    """

    async def describe() -> DescribedCluster:
        connections = Connections(login_with(security))
        try:
            description = _Description(Partition(connections, servers, ""), timeout_s)
            return await description.read(transactions_s)
        finally:
            await connections.close()

    return asyncio.run(describe())


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
                answer = await self._brokers.send_to_any(_AllTopics(), lambda answer: answer, _ANSWER_S)
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
        brokers = _brokers(answer)
        by_leader = defaultdict[int, list[Place]](list)
        self._found.problems.clear()
        for place, leader in _leaders(answer):
            if place in self._found.highs:
                continue
            if leader in brokers:
                by_leader[leader].append(place)
            else:
                self._found.problems[place] = "it has no partition leader"
        await asyncio.gather(*(self._ask_leader(brokers[each], asked) for each, asked in by_leader.items()))

    async def _ask_leader(self, broker: Broker, places: list[Place]) -> None:
        found = self._found
        # The beginning first and the high watermark last: what is removed or written meanwhile can only make
        # the range wider than it was at any moment.
        for offsets, at, isolation in (
            (found.begins, EARLIEST, _READ_UNCOMMITTED),
            (found.ends, LATEST, _READ_COMMITTED),
            (found.highs, LATEST, _READ_UNCOMMITTED),
        ):
            asked = _OffsetsOf(at, isolation, (place for place in places if place not in found.problems))
            try:
                answer = await self._brokers.send_to(broker.host, broker.port, asked, _ANSWER_S)
            except NoAnswer as error:
                found.problems |= dict.fromkeys(places, f"its partition leader does not answer: {error}")
                return
            for topic, partitions in answer.topics:
                for number, code, _, offset, *_ in partitions:
                    if code == Code.NONE:
                        offsets[topic, number] = offset
                    else:
                        found.problems[topic, number] = f"ListOffsets: {code_name(code)}"

    async def _await_transactions(self, answer: Any, limit_s: float) -> None:
        """Wait until the transactions are over in which messages up to the high watermarks were written."""
        found, brokers = self._found, _brokers(answer)
        deadline, backoff = time.monotonic() + limit_s, Backoff()
        while time.monotonic() < deadline:
            open_ones = [
                (place, leader)
                for place, leader in _leaders(answer)
                if found.ends.get(place, 0) < found.highs.get(place, 0) and leader in brokers
            ]
            if not open_ones:
                return
            await backoff()
            for leader in {each for _, each in open_ones}:
                asked = _OffsetsOf(
                    LATEST, _READ_COMMITTED, (place for place, other in open_ones if other == leader)
                )
                with suppress(NoAnswer):
                    broker = brokers[leader]
                    ends = await self._brokers.send_to(broker.host, broker.port, asked, _ANSWER_S)
                    for place, offset in _offsets(ends):
                        found.ends[place] = min(offset, found.highs[place])

    async def _describe(self, answer: Any) -> DescribedCluster:
        brokers, named = _brokers(answer), [name for _, name, *_ in answer.topics]
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
            answer = await self._brokers.send_to(broker.host, broker.port, _AllReplicas(), _ANSWER_S)
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
            yield DescribedTopic(name, topic_id_text(topic_id), bool(internal), compacted, described, problem)

    def _partition(self, topic: str, number: int, leader: int) -> DescribedPartition:
        found, place = self._found, (topic, number)
        if why := found.problems.get(place):
            return DescribedPartition(number, problem=why)
        size = found.sizes.get((leader, place))
        return DescribedPartition(number, found.begins[place], found.ends[place], found.highs[place], size)


def _brokers(answer: Any) -> dict[int, Broker]:
    return {node: Broker(node, host, port) for node, host, port, *_ in answer.brokers}


def _offsets(answer: Any) -> Iterator[tuple[Place, int]]:
    """Yield the offsets of the partitions that the broker leads."""
    for topic, partitions in answer.topics:
        yield from (
            ((topic, number), offset) for number, code, _, offset, *_ in partitions if code == Code.NONE
        )


def _leaders(answer: Any) -> Iterator[tuple[Place, int]]:
    for topic in answer.topics:
        _, name, _, _, partitions, *_ = topic
        yield from (((name, number), leader) for _, number, leader, *_ in partitions)
