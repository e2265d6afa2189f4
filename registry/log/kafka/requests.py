"""Kafka's requests as this log needs them, with answers as plain tuples.

aiokafka's own requests identify topics by name. The versions that aiokafka lacks (Metadata 10, Fetch 13,
Produce 13: KIP-516) identify them by id, so the broker itself rejects requests for a topic that was deleted
and created again. Brokers without those versions get requests by name; callers must then check the topic's id
from time to time.
"""

from __future__ import annotations

import base64
from enum import IntEnum
from typing import Any, NamedTuple

from aiokafka.protocol.api import Request
from aiokafka.protocol.fetch import FetchRequest_v11
from aiokafka.protocol.produce import ProduceRequest_v7

from registry.domain.log_format.lineage import EpochEnd

from .structs import (
    EpochEndsRequestV3,
    FetchRequestV13,
    ListOffsetsRequestV5,
    MetadataRequestV10,
    ProduceRequestV13,
)

# The log is the first and only partition of its topic.
PARTITION = 0
LATEST, EARLIEST = -1, -2
NO_TOPIC_ID = bytes(16)
_REPLICA = -1
_ALL_REPLICAS = -1


class Code(IntEnum):
    """The error codes that this client distinguishes."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADING = 6
    MESSAGE_TOO_LARGE = 10
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    TOPIC_ALREADY_EXISTS = 36
    INVALID_REPLICATION_FACTOR = 38
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INVALID_RECORD = 87
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103


_NAMES = {code.value: code.name for code in Code}


def code_name(code: int) -> str:
    """Return Kafka's name of an error code, or its number."""
    return _NAMES.get(code, f"error {code}")


class Broker(NamedTuple):
    """A broker's id and address."""

    id: int
    host: str
    port: int


class PartitionMetadata(NamedTuple):
    """The log's partition as the brokers describe it."""

    topic_id: bytes
    partitions: int
    # The partition leader; None while there is none.
    broker: Broker | None
    replicas: int
    # The leader epoch: it grows with every election of a partition leader.
    epoch: int = -1
    # The live followers: brokers with a replica that are registered in the cluster now.
    others: tuple[Broker, ...] = ()
    # The ids of the brokers in sync. Only one of them can be elected next.
    in_sync: frozenset[int] = frozenset()


class Cluster(NamedTuple):
    """The answer to :class:`Metadata`."""

    id: str
    controller: Broker | None
    brokers: list[Broker]
    # Why there is no partition.
    code: int
    partition: PartitionMetadata | None


class FetchAnswer(NamedTuple):
    """The partition's part of the answer to :class:`Fetch`."""

    code: int
    # The high watermark: the offset after the last record that readers may see.
    end: int
    data: bytes


class ProduceAnswer(NamedTuple):
    """The partition's part of the answer to :class:`Produce`."""

    code: int
    # The offset of the batch's first record; -1 if unknown.
    offset: int
    # The timestamp that the broker has assigned to the records; -1 if it kept theirs.
    time_ms: int
    message: str


def topic_id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


class Metadata(Request[MetadataRequestV10]):  # type: ignore[misc]
    """Describes the cluster and one topic, without auto-creating the topic as a stock broker would.

    ``operations``: include what this client may do; see :mod:`.permissions`.
    """

    API_KEY = 3

    def __init__(self, topic: str, *, operations: bool = False) -> None:
        self._topic, self._operations = topic, operations

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        asked = self._operations
        return struct([(NO_TOPIC_ID, self._topic, {})], False, asked, asked, {})


def cluster(response: Any) -> Cluster:
    """Read the answer to :class:`Metadata`."""
    brokers = {node: Broker(node, host, port) for node, host, port, *_ in response.brokers}
    code, _, topic_id, _, partitions, *_ = response.topics[0]
    partition = None
    if code == Code.NONE and partitions:
        first = min(partitions, key=lambda partition: int(partition[1]))
        _, _, node, epoch, replicas, in_sync, *_ = first
        others = tuple(brokers[each] for each in replicas if each in brokers and each != node)
        partition = PartitionMetadata(
            topic_id, len(partitions), brokers.get(node), len(replicas), epoch, others, frozenset(in_sync)
        )
    controller = brokers.get(response.controller_id)
    return Cluster(response.cluster_id or "", controller, list(brokers.values()), code, partition)


class Fetch(Request[FetchRequest_v11 | FetchRequestV13]):  # type: ignore[misc]
    """Reads records from ``offset`` on; a batch larger than ``bytes_max`` still comes whole.

    Only the leader in ``epoch`` answers; -1: the leader in any epoch.
    """

    API_KEY = 1

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        offset: int,
        *,
        epoch: int,
        wait_ms: int,
        bytes_max: int,
        partition: int = PARTITION,
    ) -> None:
        self._topic, self._topic_id, self._offset, self._epoch = topic, topic_id, offset, epoch
        self._wait_ms, self._bytes_max, self._partition = wait_ms, bytes_max, partition

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version. Isolation level: read uncommitted, as Confluent's."""
        head = (_REPLICA, self._wait_ms, 1, self._bytes_max, 0, 0, -1)
        if struct is FetchRequestV13:
            by_id: Any = (self._partition, self._epoch, self._offset, -1, -1, self._bytes_max, {})
            return struct(*head, [(self._topic_id, [by_id], {})], [], "", {})
        by_name = (self._partition, self._epoch, self._offset, -1, self._bytes_max)
        return struct(*head, [(self._topic, [by_name])], [], "")


def read_fetch(response: Any) -> FetchAnswer:
    """Read the answer to :class:`Fetch`."""
    if response.error_code or not response.topics:
        return FetchAnswer(response.error_code, -1, b"")
    _, code, end, _, _, _, _, data, *_ = response.topics[0][1][0]
    return FetchAnswer(code, end, data or b"")


class Produce(Request[ProduceRequest_v7 | ProduceRequestV13]):  # type: ignore[misc]
    """Appends one batch, outside of transactions; answered when all in-sync replicas have it."""

    API_KEY = 0

    def __init__(self, topic: str, topic_id: bytes, batch: bytes, *, timeout_ms: int) -> None:
        self._topic, self._topic_id, self._batch, self._timeout_ms = topic, topic_id, batch, timeout_ms

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        head = (None, _ALL_REPLICAS, self._timeout_ms)
        if struct is ProduceRequestV13:
            return struct(*head, [(self._topic_id, [(PARTITION, self._batch, {})], {})], {})
        return struct(*head, [(self._topic, [(PARTITION, self._batch)])])


def read_produce(response: Any) -> ProduceAnswer:
    """Read the answer to :class:`Produce`."""
    _, code, offset, time_ms, _, *rest = response.topics[0][1][0]
    return ProduceAnswer(code, offset, time_ms, (rest[1] if len(rest) > 1 else None) or "")


class ListOffsets(Request[ListOffsetsRequestV5]):  # type: ignore[misc]
    """Asks for the log's end (:data:`LATEST`: the high watermark), start (:data:`EARLIEST`) or a time.

    Only the leader in ``epoch`` answers; -1: the leader in any epoch.
    """

    API_KEY = 2

    def __init__(self, topic: str, at: int, epoch: int, *, partition: int = PARTITION) -> None:
        self._topic, self._at, self._epoch, self._partition = topic, at, epoch, partition

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(_REPLICA, 0, [(self._topic, [(self._partition, self._epoch, self._at)])])


def listed_offset(response: Any) -> tuple[int, int]:
    """Read the answer to :class:`ListOffsets`: error code and offset."""
    _, code, _, offset, *_ = response.topics[0][1][0]
    return code, offset


class EpochEnds(Request[EpochEndsRequestV3]):  # type: ignore[misc]
    """Asks where the records of the leader epoch ``asked`` end (OffsetForLeaderEpoch).

    Only the leader in ``epoch`` answers; -1: the leader in any epoch.
    """

    API_KEY = 23

    def __init__(self, topic: str, epoch: int, asked: int) -> None:
        self._topic, self._epoch, self._last_answered = topic, epoch, asked

    def build(self, struct: Any) -> Any:
        """Return the request in the negotiated version."""
        return struct(_REPLICA, [(self._topic, [(PARTITION, self._epoch, self._last_answered)])])


def epoch_end(response: Any) -> tuple[int, EpochEnd]:
    """Read the answer to :class:`EpochEnds`: error code, and the end of the newest epoch up to ``asked``."""
    code, _, epoch, end = response.topics[0][1][0]
    return code, EpochEnd(epoch, end)
