"""The plan of a census: what is read, and what is taken over from an earlier one. It reads nothing itself.

A census holds a row for each *use*: a source, a partition, a side and a reference to a schema, with what was
counted. A run continues an earlier census, its *base*: of each partition, only messages after those that the
base has counted are read. What retention has removed is known without reading, because the partition begins
later.

Rows of the base count only while the partition still holds what they counted. Topic ids show that a topic was
created again. That a partition lost messages and grew past them shows in its leader epochs: within one, a
leader appends only, and in a later one it says where the records of an earlier one end (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from registry.log.kafka.cluster_topics import DescribedPartition, DescribedTopic

# Framings: how a message names its schema.
ID, GUID, HEADER_ID, HEADER_GUID = "id", "guid", "header-id", "header-guid"
# Bytes that name none, and no bytes at all.
NONE, NULL = "none", "null"
KEY, VALUE = "key", "value"
READ, UNREAD = "read", "unread"
SAMPLES_MAX = 5
# The partition of a row that is about a whole source.
WHOLE = -1

# A source and the number of one of its partitions.
Place = tuple[str, int]
# Where the records of a leader epoch end in partitions now; -1 where their leaders do not know it.
EpochEnds = Mapping[Place, int]
NO_ENDS: EpochEnds = {}


class Use(NamedTuple):
    """A row of a census. Offsets and times (ms since the epoch) are ``None`` for files."""

    source: str
    partition: int
    side: str
    framing: str
    id: int | None
    guid: str | None
    messages: int
    bytes: int
    first_offset: int | None
    last_offset: int | None
    first_ms: int | None
    last_ms: int | None
    # False: retention or compaction has removed some of what was counted, so there are at most so many.
    exact: bool = True
    # Offsets of some messages that name no schema.
    samples: tuple[int, ...] = ()

    @property
    def place(self) -> Place:
        """The source and the partition."""
        return self.source, self.partition


class PartitionRow(NamedTuple):
    """A partition of a census."""

    source: str
    partition: int
    begin: int
    # The offset up to which its messages are counted.
    end: int
    # Bytes; None if unknown.
    size: int | None
    compacted: bool
    # Kafka's id of the topic: a topic that was created again has another one.
    topic_id: str
    state: str
    # Why it is unread, or was read as a whole although the base had counted it.
    reason: str = ""
    # The epoch of the partition leader that named its end; None if unknown.
    epoch: int | None = None

    @property
    def place(self) -> Place:
        """The source and the partition."""
        return self.source, self.partition

    def unread(self, reason: str) -> PartitionRow:
        """Return the row of the partition if it cannot be read."""
        return self._replace(state=UNREAD, reason=reason)


class Range(NamedTuple):
    """Offsets of a partition that are to be read, ``end`` exclusive."""

    source: str
    partition: int
    start: int
    end: int


class Plan(NamedTuple):
    """The work of a run, and what is known without reading."""

    # As they are once the ranges have been read.
    partitions: tuple[PartitionRow, ...]
    ranges: tuple[Range, ...]
    # Partitions whose rows of the base are taken over.
    kept: frozenset[Place]


def plan_topics(
    topics: Iterable[DescribedTopic], base: Mapping[Place, PartitionRow], epoch_ends: EpochEnds = NO_ENDS
) -> Plan:
    """Return what to read of topics, given the partitions of the base.

    ``epoch_ends``: of those that :func:`epochs_before` names.
    """
    partitions, ranges, kept = list[PartitionRow](), list[Range](), set[Place]()
    for topic in topics:
        if topic.problem and not topic.partitions:
            row = PartitionRow(topic.name, WHOLE, 0, 0, None, False, topic.id, UNREAD, topic.problem)
            partitions.append(row)
        for found in topic.partitions:
            place = topic.name, found.number
            row, start = _plan_partition(topic, found, base.get(place), epoch_ends.get(place))
            if start is None:
                start = row.begin
            else:
                kept.add(row.place)
            if start < row.end:
                ranges.append(Range(*row.place, start, row.end))
            partitions.append(row)
    return Plan(tuple(partitions), tuple(ranges), frozenset(kept))


def epochs_before(rows: Iterable[PartitionRow], topics: Mapping[str, DescribedTopic]) -> dict[Place, int]:
    """Return the leader epochs of rows whose partitions have had another leader since, and hold any of them.

    Where those epochs end now decides if the rows still count.
    """
    found = {(topic.name, each.number): each for topic in topics.values() for each in topic.partitions}
    return {
        row.place: row.epoch
        for row in rows
        if row.epoch is not None
        and (now := found.get(row.place)) is not None
        and not now.problem
        and now.begin < row.end
        and now.epoch != row.epoch
    }


def _plan_partition(
    topic: DescribedTopic, found: DescribedPartition, base: PartitionRow | None, epoch_end: int | None
) -> tuple[PartitionRow, int | None]:
    """Return the partition's row, and the offset up to which the rows of the base count.

    ``None``: none of them counts, so the whole partition is read.
    """
    row = PartitionRow(
        topic.name, found.number, found.begin, found.end, found.size, topic.compacted, topic.id, READ,
        epoch=found.epoch,
    )  # fmt: skip
    if base is not None and (lost := _reason_not_continued(base, row, found.problem, epoch_end)):
        base, row = None, row._replace(reason=lost)
    if why := topic.problem or found.problem:
        # What was counted before is all that is known.
        begin = max(base.begin if base else 0, found.begin)
        end, epoch = (base.end, base.epoch) if base else (0, None)
        row = row._replace(begin=begin, end=max(end, begin), epoch=epoch)
        return row.unread(why), row.end if base else None
    if found.high > found.end:
        row = row.unread(f"a transaction has been open since offset {found.end}")
    if base is None:
        return row, None
    if not row.compacted:
        return row, max(base.end, row.begin)
    unchanged = (base.begin, base.end, base.size) == (row.begin, row.end, row.size)
    return row, row.end if unchanged and row.size is not None else None


def _reason_not_continued(base: PartitionRow, row: PartitionRow, problem: str, epoch_end: int | None) -> str:
    """Return why rows of the base do not count in a partition that is now like ``row``; empty if they do.

    ``problem``: why nothing is known of its offsets.
    """
    if not base.topic_id and base.reason:
        return f"in the last census, {base.reason}"
    if not row.topic_id:
        return "its brokers give topics no ids, so it may have been created again"
    if base.topic_id != row.topic_id:
        return "it was deleted and created again"
    if problem:
        return ""
    if base.compacted != row.compacted:
        return "its cleanup.policy was changed"
    if base.end > row.end:
        return f"it was truncated from offset {base.end} to {row.end}"
    return _reason_lost(base, row.begin, row.epoch, epoch_end)


def _reason_lost(row: PartitionRow, begin: int, epoch: int | None, epoch_end: int | None) -> str:
    """Return why a partition may not hold what a row describes, although it is not shorter; empty if it does.

    ``begin``, ``epoch``: its beginning and its leader's epoch now; ``epoch_end``: the end of that of the row.
    """
    if row.end <= begin or (row.epoch is not None and row.epoch == epoch):
        return ""
    if row.epoch is None or epoch is None:
        return "its leader epoch is unknown, so it may have lost messages and grown again"
    if epoch_end is None:
        return f"its leader does not say where its epoch {row.epoch} ended"
    if epoch_end < 0:
        return f"it lost messages before offset {row.end}: its leader does not know its epoch {row.epoch}"
    return (
        ""
        if epoch_end >= row.end
        else f"it was truncated from offset {row.end} to {epoch_end}, and grew again"
    )


def after_reading(
    rows: Iterable[PartitionRow], topics: Mapping[str, DescribedTopic], epoch_ends: EpochEnds = NO_ENDS
) -> Iterator[PartitionRow]:
    """Yield the partitions as they are after they were read; ``topics`` are described once more.

    ``epoch_ends``: of those that :func:`epochs_before` names.
    Those that were deleted, created again or truncated meanwhile are unread, and those whose beginning was
    removed begin later. A row of one that was deleted or truncated loses the topic's id: its offsets may name
    other messages later, so no run continues it.
    """
    for row in rows:
        topic = topics.get(row.source)
        numbered = {each.number: each for each in topic.partitions} if topic else {}
        found = numbered.get(row.partition)
        if row.partition == WHOLE:
            yield row
        elif topic is None or found is None:
            yield row.unread("it was deleted while it was read")._replace(topic_id="")
        elif topic.id != row.topic_id:
            yield row.unread("it was deleted and created again while it was read")
        elif topic.problem or found.problem:
            yield row if row.state == UNREAD else row.unread(topic.problem or found.problem)
        elif found.high < row.end:
            why = f"it was truncated from offset {row.end} to {found.high} while it was read"
            yield row.unread(why)._replace(topic_id="")
        elif (row.epoch, found.epoch) != (None, None) and (
            why := _reason_lost(row, found.begin, found.epoch, epoch_ends.get(row.place))
        ):
            yield row.unread(f"while it was read, {why}")._replace(topic_id="")
        else:
            begin = max(row.begin, min(found.begin, row.end))
            yield row._replace(begin=begin)


def merge(counted: Iterable[Use], taken_over: Iterable[Use], rows: Iterable[PartitionRow]) -> list[Use]:
    """Return the rows of a census, sorted: counted ones with those of the base, without what is gone."""
    begins = {row.place: row.begin for row in rows}
    merged: dict[tuple[str, int, str, str, int, str], Use] = {}
    for use in (*taken_over, *counted):
        begin = begins.get(use.place)
        kept = _without_removed(use, begin) if begin is not None else None
        if kept is not None:
            key = *use.place, use.side, use.framing, -1 if use.id is None else use.id, use.guid or ""
            merged[key] = _sum(merged[key], kept) if key in merged else kept
    return [merged[key] for key in sorted(merged)]


def _without_removed(use: Use, begin: int) -> Use | None:
    """Return what is left of a use in a partition that begins at ``begin``; ``None`` if nothing is."""
    if use.first_offset is None or use.last_offset is None or use.first_offset >= begin:
        return use
    if use.last_offset < begin:
        return None
    samples = tuple(each for each in use.samples if each >= begin)
    return use._replace(first_offset=begin, exact=False, samples=samples)


def _sum(one: Use, other: Use) -> Use:
    return one._replace(
        messages=one.messages + other.messages,
        bytes=one.bytes + other.bytes,
        first_offset=_least(one.first_offset, other.first_offset),
        last_offset=_most(one.last_offset, other.last_offset),
        first_ms=_least(one.first_ms, other.first_ms),
        last_ms=_most(one.last_ms, other.last_ms),
        exact=one.exact and other.exact,
        # Retention removes the oldest first.
        samples=tuple(sorted({*one.samples, *other.samples})[-SAMPLES_MAX:]),
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _most(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)
