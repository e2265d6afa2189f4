"""The schemas of requests and responses of Kafka's protocol that aiokafka lacks."""

from __future__ import annotations

import struct
from typing import Any

from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.admin import DescribeGroupsResponse_v3
from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.offset import OffsetResponse_v5
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    TaggedFields,
    UnsignedVarInt32,
)

# Fixed layouts of the schemas below for one topic with one partition. Compact arrays store their length plus
# one, and null as 0.
_PRODUCE = struct.Struct(">BhiB16sBi")
_PRODUCED = struct.Struct(">B16sBihqqqBBBBiB")
_FETCH = struct.Struct(">iiiibiiB16sBiiqiqiBBBBB")
# Up to the records, whose length has a varying size.
_FETCHED = struct.Struct(">ihiB16sBihqqqBi")


class Uuid(AbstractType):  # type: ignore[misc]
    """A field of sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        """Return the bytes unchanged."""
        return value

    @classmethod
    def decode(cls, data: Any) -> bytes:
        """Read sixteen bytes."""
        raw: bytes = data.read(16)
        return raw


class MetadataResponseV10(Response):  # type: ignore[misc]
    """The cluster and its topics, with topic ids."""

    API_KEY, API_VERSION = 3, 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString()),
                ("port", Int32),
                ("rack", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString()),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString()),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class MetadataRequestV10(RequestStruct):  # type: ignore[misc]
    """Asks for the metadata of topics (Kafka 2.8 and newer)."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 3, 10, True
    RESPONSE_TYPE = MetadataResponseV10
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", Uuid), ("name", CompactString()), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class ListOffsetsRequestV5(RequestStruct):  # type: ignore[misc]
    """Asks for offsets by time (Kafka 2.2 and newer); aiokafka's schema has a wrong type for the epoch."""

    API_KEY, API_VERSION = 2, 5
    RESPONSE_TYPE = OffsetResponse_v5
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64)),
                ),
            ),
        ),
    )


class DescribeGroupsRequestV3(RequestStruct):  # type: ignore[misc]
    """Describes groups (Kafka 2.3 and newer); aiokafka's reads the answer without the operations."""

    API_KEY, API_VERSION = 15, 3
    RESPONSE_TYPE = DescribeGroupsResponse_v3
    SCHEMA = Schema(("groups", Array(String("utf-8"))), ("include_authorized_operations", Boolean))


class FetchResponseV13(Response):  # type: ignore[misc]
    """Records of topics, identified by id."""

    API_KEY, API_VERSION = 1, 13
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("session_id", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("high_watermark", Int64),
                        ("last_stable_offset", Int64),
                        ("log_start_offset", Int64),
                        (
                            "aborted_transactions",
                            CompactArray(
                                ("producer_id", Int64), ("first_offset", Int64), ("tags", TaggedFields)
                            ),
                        ),
                        ("preferred_read_replica", Int32),
                        ("records", CompactBytes),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )

    @classmethod
    def decode(cls, data: Any) -> FetchResponseV13:
        """Read the answer about a single partition without errors in one step, any other field by field."""
        begin = data.tell()
        head = data.read(_FETCHED.size)
        if len(head) == _FETCHED.size:
            (
                throttle_ms, code, session, topics, topic, partitions,
                partition, fault, end, stable, start, aborted, replica,
            ) = _FETCHED.unpack(head)  # fmt: skip
            if (code, topics, partitions, fault) == (0, 2, 2, 0) and aborted < 2:
                records = CompactBytes.decode(data)
                if data.read() == b"\0\0\0":  # no tags
                    none: Any = [] if aborted else None
                    found: Any = (partition, fault, end, stable, start, none, replica, records, {})
                    return cls(throttle_ms, code, session, [(topic, [found], {})], {})
        data.seek(begin)
        by_fields: FetchResponseV13 = super().decode(data)
        return by_fields


class FetchRequestV13(RequestStruct):  # type: ignore[misc]
    """Reads records of topics, identified by id (Kafka 3.1 and newer)."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 1, 13, True
    RESPONSE_TYPE = FetchResponseV13
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("max_wait_ms", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("session_id", Int32),
        ("session_epoch", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("current_leader_epoch", Int32),
                        ("fetch_offset", Int64),
                        ("last_fetched_epoch", Int32),
                        ("log_start_offset", Int64),
                        ("partition_max_bytes", Int32),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        (
            "forgotten",
            CompactArray(("topic_id", Uuid), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)),
        ),
        ("rack_id", CompactString()),
        ("tags", TaggedFields),
    )

    def encode(self) -> bytes:
        """Return the bytes of the only request that is made here: one partition, no session, no rack."""
        [(topic, [(partition, epoch, offset, last_epoch, start, partition_bytes_max, _)], _)] = self.topics
        return _FETCH.pack(
            self.replica_id, self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level,
            self.session_id, self.session_epoch, 2, topic, 2,
            partition, epoch, offset, last_epoch, start, partition_bytes_max, 0, 0, 1, 1, 0,
        )  # fmt: skip


class ProduceResponseV13(Response):  # type: ignore[misc]
    """The results of appends to topics, identified by id."""

    API_KEY, API_VERSION = 0, 13
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("offset", Int64),
                        ("timestamp", Int64),
                        ("log_start_offset", Int64),
                        (
                            "record_errors",
                            CompactArray(
                                ("batch_index", Int32), ("message", CompactString()), ("tags", TaggedFields)
                            ),
                        ),
                        ("error_message", CompactString()),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("throttle_time_ms", Int32),
        ("tags", TaggedFields),
    )

    @classmethod
    def decode(cls, data: Any) -> ProduceResponseV13:
        """Read the answer for a single batch without errors in one step, any other field by field."""
        rest = data.getvalue()[data.tell() :]
        if len(rest) == _PRODUCED.size:
            topics, topic, partitions, partition, code, offset, time_ms, start, *none, throttle_ms, tags = (
                _PRODUCED.unpack(rest)
            )
            if (topics, partitions, none, tags) == (2, 2, [1, 0, 0, 0], 0):
                batch: Any = (partition, code, offset, time_ms, start, [], None, {})
                return cls([(topic, [batch], {})], throttle_ms, {})
        found: ProduceResponseV13 = super().decode(data)
        return found


class ProduceRequestV13(RequestStruct):  # type: ignore[misc]
    """Appends batches to topics, identified by id (Kafka 4.1 and newer)."""

    API_KEY, API_VERSION, FLEXIBLE_VERSION = 0, 13, True
    RESPONSE_TYPE = ProduceResponseV13
    SCHEMA = Schema(
        ("transactional_id", CompactString()),
        ("required_acks", Int16),
        ("timeout", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(("partition", Int32), ("records", CompactBytes), ("tags", TaggedFields)),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )

    def encode(self) -> bytes:
        """Return the bytes of the only request that is made here: one batch, no transaction."""
        [(topic, [(partition, records, _)], _)] = self.topics
        head = _PRODUCE.pack(0, self.required_acks, self.timeout, 2, topic, 2, partition)
        return b"".join((head, UnsignedVarInt32.encode(len(records) + 1), records, b"\0\0\0"))


class EpochEndsResponseV3(Response):  # type: ignore[misc]
    """The end offsets of leader epochs."""

    API_KEY, API_VERSION = 23, 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_epoch", Int32),
                        ("end_offset", Int64),
                    ),
                ),
            ),
        ),
    )


class EpochEndsRequestV3(RequestStruct):  # type: ignore[misc]
    """Asks for the end offsets of leader epochs (OffsetForLeaderEpoch; Kafka 2.3 and newer)."""

    API_KEY, API_VERSION = 23, 3
    RESPONSE_TYPE = EpochEndsResponseV3
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
                ),
            ),
        ),
    )
