"""Messages read with another schema than the one that they were written with; and samples of them."""

from __future__ import annotations

import pytest

from registry.cli.decoding.frame import CannotDecode
from registry.cli.decoding.message import WriterSchema
from registry.cli.decoding.rereading import Reader
from registry.cli.output import FAILED, OK, REFUSED
from registry.cli.verbs.check_topic import exit_status
from registry.log.kafka.cluster_topics import DescribedPartition, DescribedTopic
from snapshots.census import rereading
from snapshots.census.files import BadCensus
from snapshots.census.plan import Range
from snapshots.census.rereading import Failed, Verdict, sample_of
from snapshots.spark.tasks.rereading import OTHER_REASONS, PLACES_MAX, REASONS_MAX, Failures

JSON = WriterSchema("JSON", '{"properties": {"a": {"maximum": 5}}, "required": ["a"]}')
OLD = WriterSchema(
    "PROTOBUF", 'syntax = "proto3"; message Other { int32 a = 1; } message Order { int32 a = 1; }'
)
NEW = WriterSchema(
    "PROTOBUF", 'syntax = "proto2"; message Order { optional int32 a = 1; required string b = 2; }'
)
NODE = '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}'
AVRO = WriterSchema("AVRO", NODE)


@pytest.mark.parametrize(
    ("reader", "writer", "data", "reason"),
    [
        (JSON, WriterSchema("JSON", "{}"), b'{"a": 5}', ""),
        (JSON, WriterSchema("JSON", "{}"), b'{"a": 6}', "$.a: 6 is greater than the maximum of 5"),
        (JSON, WriterSchema("JSON", "{}"), b"{", "the message is not JSON"),
        (NEW, OLD, b"\2\2\x12\1x", ""),
        (NEW, OLD, b"\2\2\x08\1", "lacks fields that Order requires: b"),
        (NEW, OLD, b"\2\2\x12\5x", "the message is not of the type Order"),
        (NEW, OLD, b"\0\x08\1", "the new schema has no message Other"),
        (NEW, OLD, b"\2\4", "has no message at the position 2"),
        # A writer with the reader's own schema may have sent damaged messages.
        (AVRO, AVRO, b"\2\0", ""),
        (AVRO, AVRO, b"\2", "the message ends before its schema does"),
        (AVRO, AVRO, b"\2" * 100_000, "nested too deeply"),
        (AVRO, JSON, b"\0", "the message has a schema of the type JSON, the new one is AVRO"),
    ],
)  # fmt: skip
def test_a_message_is_read_or_the_reason_is_said(
    reader: WriterSchema, writer: WriterSchema, data: bytes, reason: str
) -> None:
    try:
        Reader(reader).reads(writer)(data)
        said = ""
    except CannotDecode as error:
        said = str(error)
    assert (reason in said, bool(said)) == (True, bool(reason))


def test_a_sample_has_both_ends_of_each_partition_and_about_so_many_messages() -> None:
    ranges = [Range("t", 0, 100, 1_100), Range("t", 1, 0, 10)]
    assert sample_of(ranges, 5_000) == [ranges]
    found = [each for stretch in sample_of(ranges, 101) for each in stretch]
    assert sum(each.end - each.start for each in found) == 101
    first = [each for each in found if each.partition == 0]
    assert [(each.start, each.end) for each in first] == [(100, 125), (425, 450), (750, 775), (1_075, 1_100)]
    assert all(0 <= each.start < each.end <= 10 for each in found if each.partition == 1)


def test_failures_keep_the_first_places_and_few_reasons_of_each_writer() -> None:
    failures = Failures()
    failures.add(b"a", "r", 30, [(1, number) for number in range(PLACES_MAX)])
    failures.add(b"a", "r", 1, [(0, 7)])
    failures.add(b"a", "r", 1, [(9, 9)])
    count, places = failures.found[b"a", "r"]
    assert (count, places[0], len(places)) == (32, (0, 7), PLACES_MAX)
    for number in range(REASONS_MAX + 5):
        failures.add(b"a", f"r{number}", 1, [(0, number)])
    assert failures.found[b"a", OTHER_REASONS][0] == 6
    assert len(failures.found) == REASONS_MAX + 1


def topic(*partitions: DescribedPartition) -> DescribedTopic:
    return DescribedTopic("t", "i" * 22, False, False, partitions)


LEADERLESS = DescribedPartition(1, problem="it has no partition leader")


def test_a_partition_without_a_leader_is_unread_and_an_open_transaction_is_not() -> None:
    planned = rereading._plan(topic(DescribedPartition(0, 0, 5, 9), LEADERLESS))
    assert planned.ranges == (Range("t", 0, 0, 5),)
    assert rereading._unread(planned.partitions) == {1: "it has no partition leader"}


def test_a_topic_of_which_nothing_can_be_read_says_why() -> None:
    with pytest.raises(BadCensus, match="the topic t cannot be read: it has no partition leader"):
        rereading._plan(topic(DescribedPartition(0), LEADERLESS))


@pytest.mark.parametrize(
    ("failed", "unread", "status"),
    [
        ([], {}, OK),
        ([], {1: "it has no partition leader"}, FAILED),
        ([Failed(None, "it names no schema", 1, [(0, 7)])], {1: "it has no partition leader"}, REFUSED),
    ],
)
def test_a_check_that_could_not_read_everything_does_not_pass(
    failed: list[Failed], unread: dict[int, str], status: int
) -> None:
    assert exit_status(Verdict(9, 0, failed, unread, uncommitted={0: 5})) == status
