"""Kafka's requests as this log needs them, and their answers as plain tuples.

aiokafka's own requests name topics; those here that aiokafka lacks name them by id (Metadata 10, Fetch 13,
Produce 13: KIP-516), so that a topic that was deleted and made anew is refused by the broker itself. Brokers
that do not know those versions are asked by name; whoever does so has to look at the id from time to time.
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

PARTITION = 0
"""The log is the first and only partition of its topic."""
LATEST, EARLIEST = -1, -2
NO_TOPIC_ID = bytes(16)
_REPLICA = -1
_ALL_REPLICAS = -1


class Code(IntEnum):
    """Kafka's error codes that are told apart here."""

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
    """Kafka's name of an error code, as far as it is known here."""
    return _NAMES.get(code, f"error {code}")


class Broker(NamedTuple):
    """Where a broker listens."""

    id: int
    host: str
    port: int


class Place(NamedTuple):
    """The log's partition as the brokers describe it."""

    topic_id: bytes
    partitions: int
    broker: Broker | None
    """The one that leads the partition; ``None`` while there is none."""
    replicas: int
    epoch: int = -1
    """The leader epoch: it grows whenever another broker comes to lead the partition."""
    others: tuple[Broker, ...] = ()
    """Those brokers with a replica that do not lead, as far as they are in the cluster now."""
    in_sync: frozenset[int] = frozenset()
    """The ids of the brokers in sync, of whom alone the next to lead is chosen."""


class Cluster(NamedTuple):
    """What a broker says about its cluster and the log's topic."""

    id: str
    controller: Broker | None
    brokers: list[Broker]
    code: int
    """Why there is no ``place``."""
    place: Place | None


class FetchAnswer(NamedTuple):
    """One partition's part of a fetch."""

    code: int
    end: int
    """The offset after the last record that readers may see."""
    data: bytes


class ProduceAnswer(NamedTuple):
    """One partition's part of a produce."""

    code: int
    offset: int
    """Of the batch's first record; -1 when it is not known."""
    time_ms: int
    """What the broker has put for the records' own times; -1 when it left them."""
    message: str


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


class Metadata(Request[MetadataRequestV10]):  # type: ignore[misc]
    """Asks for the cluster and one topic, and never makes the topic, as a stock broker otherwise would."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, struct: Any) -> Any:
        """The request in the version that was agreed on."""
        return struct([(NO_TOPIC_ID, self._topic, {})], False, False, False, {})


def cluster(response: Any) -> Cluster:
    """The answer to :class:`Metadata`."""
    brokers = {node: Broker(node, host, port) for node, host, port, *_ in response.brokers}
    code, _, topic_id, _, partitions, *_ = response.topics[0]
    place = None
    if code == Code.NONE and partitions:
        first = min(partitions, key=lambda partition: int(partition[1]))
        _, _, node, epoch, replicas, in_sync, *_ = first
        others = tuple(brokers[each] for each in replicas if each in brokers and each != node)
        place = Place(
            topic_id, len(partitions), brokers.get(node), len(replicas), epoch, others, frozenset(in_sync)
        )
    controller = brokers.get(response.controller_id)
    return Cluster(response.cluster_id or "", controller, list(brokers.values()), code, place)


class Fetch(Request[FetchRequest_v11 | FetchRequestV13]):  # type: ignore[misc]
    """Asks for records from ``offset`` on; a batch larger than ``bytes_max`` still comes whole.

    Answered only by a broker that leads the partition in ``epoch``; -1: in whichever.
    """

    API_KEY = 1

    def __init__(
        self, topic: str, topic_id: bytes, offset: int, *, epoch: int, wait_ms: int, bytes_max: int
    ) -> None:
        self._topic, self._topic_id, self._offset, self._epoch = topic, topic_id, offset, epoch
        self._wait_ms, self._bytes_max = wait_ms, bytes_max

    def build(self, struct: Any) -> Any:
        """The request in the version that was agreed on. All of it is uncommitted, as Confluent reads."""
        head = (_REPLICA, self._wait_ms, 1, self._bytes_max, 0, 0, -1)
        if struct is FetchRequestV13:
            by_id: Any = (PARTITION, self._epoch, self._offset, -1, -1, self._bytes_max, {})
            return struct(*head, [(self._topic_id, [by_id], {})], [], "", {})
        by_name = (PARTITION, self._epoch, self._offset, -1, self._bytes_max)
        return struct(*head, [(self._topic, [by_name])], [], "")


def fetched(response: Any) -> FetchAnswer:
    """The answer to :class:`Fetch`."""
    if response.error_code or not response.topics:
        return FetchAnswer(response.error_code, -1, b"")
    _, code, end, _, _, _, _, data, *_ = response.topics[0][1][0]
    return FetchAnswer(code, end, data or b"")


class Produce(Request[ProduceRequest_v7 | ProduceRequestV13]):  # type: ignore[misc]
    """Appends one batch; answered when all replicas in sync have it. Not part of a transaction."""

    API_KEY = 0

    def __init__(self, topic: str, topic_id: bytes, batch: bytes, *, timeout_ms: int) -> None:
        self._topic, self._topic_id, self._batch, self._timeout_ms = topic, topic_id, batch, timeout_ms

    def build(self, struct: Any) -> Any:
        """The request in the version that was agreed on."""
        head = (None, _ALL_REPLICAS, self._timeout_ms)
        if struct is ProduceRequestV13:
            return struct(*head, [(self._topic_id, [(PARTITION, self._batch, {})], {})], {})
        return struct(*head, [(self._topic, [(PARTITION, self._batch)])])


def produced(response: Any) -> ProduceAnswer:
    """The answer to :class:`Produce`."""
    _, code, offset, time_ms, _, *rest = response.topics[0][1][0]
    return ProduceAnswer(code, offset, time_ms, (rest[1] if len(rest) > 1 else None) or "")


class ListOffsets(Request[ListOffsetsRequestV5]):  # type: ignore[misc]
    """Asks for the log's end (:data:`LATEST`: what readers may see) or start (:data:`EARLIEST`).

    Answered only by a broker that leads the partition in ``epoch``; -1: in whichever.
    """

    API_KEY = 2

    def __init__(self, topic: str, at: int, epoch: int) -> None:
        self._topic, self._at, self._epoch = topic, at, epoch

    def build(self, struct: Any) -> Any:
        """The request in the version that was agreed on."""
        return struct(_REPLICA, 0, [(self._topic, [(PARTITION, self._epoch, self._at)])])


def listed_offset(response: Any) -> tuple[int, int]:
    """The answer to :class:`ListOffsets`: code and offset."""
    _, code, _, offset, *_ = response.topics[0][1][0]
    return code, offset


class EpochEnds(Request[EpochEndsRequestV3]):  # type: ignore[misc]
    """Asks where the records of the leader epoch ``asked`` end.

    Answered only by a broker that leads the partition in ``epoch``; -1: in whichever.
    """

    API_KEY = 23

    def __init__(self, topic: str, epoch: int, asked: int) -> None:
        self._topic, self._epoch, self._asked = topic, epoch, asked

    def build(self, struct: Any) -> Any:
        """The request in the version that was agreed on."""
        return struct(_REPLICA, [(self._topic, [(PARTITION, self._epoch, self._asked)])])


def epoch_end(response: Any) -> tuple[int, EpochEnd]:
    """The answer to :class:`EpochEnds`: code, and where the records of which epoch end."""
    code, _, epoch, end = response.topics[0][1][0]
    return code, EpochEnd(epoch, end)
