"""Requests about all partitions of a broker at once, and what their answers say.

Metadata names all topics; offsets, ends of leader epochs and sizes are asked of each broker once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Int64, Schema, String

from .requests import Broker, Code, code_name
from .structs import EpochEndsRequestV3, ListOffsetsRequestV5, MetadataRequestV10

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_REPLICA = -1
# The leader of any epoch may answer.
_ANY_EPOCH = -1

# A topic and the number of one of its partitions.
Place = tuple[str, int]


class Listed(NamedTuple):
    """The answer for one partition: an offset and a leader epoch, or a problem."""

    offset: int
    # -1 if the broker does not say it.
    epoch: int
    problem: str = ""


class AllTopics(Request[MetadataRequestV10]):  # type: ignore[misc]
    """Describes the cluster and all topics, with what this client may do."""

    API_KEY = 3

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(None, False, True, True, {})


def brokers_in(answer: Any) -> dict[int, Broker]:
    """Return the brokers in an answer to :class:`AllTopics`, by their ids."""
    return {node: Broker(node, host, port) for node, host, port, *_ in answer.brokers}


def leaders_in(answer: Any) -> Iterator[tuple[Place, int]]:
    """Yield the partitions in an answer to :class:`AllTopics`, each with the id of its leader."""
    for topic in answer.topics:
        _, name, _, _, partitions, *_ = topic
        yield from (((name, number), leader) for _, number, leader, *_ in partitions)


class OffsetsOf(Request[ListOffsetsRequestV5]):  # type: ignore[misc]
    """Asks for the beginning or the end of many partitions of one broker."""

    API_KEY = 2

    def __init__(self, at: int, isolation: int, places: Iterable[Place]) -> None:
        self._at, self._isolation = at, isolation
        self._topics = _by_topic((place, at) for place in places)

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(_REPLICA, self._isolation, self._topics)


def offsets_in(answer: Any) -> Iterator[tuple[Place, Listed]]:
    """Yield each partition in an answer to :class:`OffsetsOf`: its offset and its leader's epoch."""
    for topic, partitions in answer.topics:
        for number, code, _, offset, epoch in partitions:
            yield (topic, number), _answer("ListOffsets", code, offset, epoch)


class EpochEndsOf(Request[EpochEndsRequestV3]):  # type: ignore[misc]
    """Asks a broker where the records of a leader epoch end, for each of many partitions."""

    API_KEY = 23

    def __init__(self, epochs: Mapping[Place, int]) -> None:
        self._topics = _by_topic(epochs.items())

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(_REPLICA, self._topics)


def epoch_ends_in(answer: Any) -> Iterator[tuple[Place, Listed]]:
    """Yield each partition in an answer to :class:`EpochEndsOf`, with the end of the newest epoch up to it.

    The end is -1 if the leader knows no such epoch.
    """
    for topic, partitions in answer.topics:
        for code, number, epoch, end in partitions:
            yield (topic, number), _answer("OffsetForLeaderEpoch", code, end, epoch)


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


class AllReplicas(Request[DescribeLogDirsRequestV1]):  # type: ignore[misc]
    """Describes all replicas of the broker that answers."""

    API_KEY = 35

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(None)


def _by_topic(asked: Iterable[tuple[Place, int]]) -> list[tuple[str, list[tuple[int, int, int]]]]:
    topics = defaultdict[str, list[tuple[int, int, int]]](list)
    for (topic, number), value in asked:
        topics[topic].append((number, _ANY_EPOCH, value))
    return list(topics.items())


def _answer(request: str, code: int, offset: int, epoch: int) -> Listed:
    return Listed(offset, epoch, "" if code == Code.NONE else f"{request}: {code_name(code)}")
