"""The plan of a census: what is read, and what is taken over from an earlier one. It reads nothing itself.

A census holds a row for each *use*: a source, a partition, a side and a reference to a schema, with what was
counted. A run continues an earlier census, its *base*: of each partition, only messages after those that the
base has counted are read. What retention has removed is known without reading, because the partition begins
later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from registry.domain.model import DEFAULT_CONTEXT, Subject

if TYPE_CHECKING:
    from registry.log.kafka.cluster_topics import DescribedPartition, DescribedTopic

# Framings: how a message names its schema.
ID, GUID, HEADER_ID, HEADER_GUID = "id", "guid", "header-id", "header-guid"
# Bytes that name none, and no bytes at all.
NONE, NULL = "none", "null"
KEY, VALUE = "key", "value"
READ, UNREAD = "read", "unread"
SAMPLES_MAX = 5
# In front of patterns of topics that are left out.
OUT = "!"
# The partition of a row that is about a whole source.
WHOLE = -1

# A source and the number of one of its partitions.
Place = tuple[str, int]


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
    reason: str = ""

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


def parse_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of ``NAME,PREFIX*,!NAME,…``, sorted; raise :class:`ValueError` for others.

    Those with an exclamation mark leave topics out; without any other, they do so from all.
    """
    patterns = {each.strip() for each in text.split(",")} - {""}
    for each in sorted(patterns):
        if "*" in each[:-1] or "!" in each[1:] or each == OUT:
            raise ValueError(f"{each!r}: ! may only begin a pattern of topics, and * only end it")
    if not patterns:
        raise ValueError("no topics are named: give names, prefixes such as orders.*, or * for all")
    if all(each.startswith(OUT) for each in patterns):
        patterns.add("*")
    return tuple(sorted(patterns))


def matches(patterns: Iterable[str], topic: str) -> bool:
    """Return whether a topic is one of those that the patterns name and none that they leave out."""
    fitting = [each for each in patterns if _fits(each.removeprefix(OUT), topic)]
    return bool(fitting) and not any(each.startswith(OUT) for each in fitting)


def _fits(pattern: str, topic: str) -> bool:
    return topic.startswith(pattern[:-1]) if pattern.endswith("*") else topic == pattern


def is_in_scope(patterns: Iterable[str], topic: DescribedTopic) -> bool:
    """Return whether a census with these patterns counts a topic; never one that is internal to Kafka.

    By convention, names that begin with two underscores are those of tools, mostly with bytes of their own:
    only a pattern that begins so too names them, such as ``__debezium-heartbeat.*``.
    """
    if topic.name.startswith("__"):
        patterns = [each for each in patterns if each.startswith(("__", OUT))]
    return not topic.internal and matches(patterns, topic.name)


def stale_sources(
    stored: Iterable[str], found: Collection[str], patterns: Collection[str], former: Collection[str]
) -> Iterator[str]:
    """Yield the stored sources that a census withdraws, with its patterns and those of the one before it.

    These are topics that it covers and has not found, so they were deleted; and files that are not counted
    any more: the one before named them, and both cover all topics, so that it takes the other's place.
    """
    replaces = _covers_all_topics(patterns) and _covers_all_topics(former)
    files = {each.partition(":")[2] for each in former} if replaces else set()
    for each in stored:
        # Names of topics have no number sign, which those of files have.
        if each not in found and (each in files if "#" in each else matches(patterns, each)):
            yield each


# Stands for all topics that are not named.
OTHERS = "*"


def infer_contexts(subjects: Iterable[str]) -> dict[str, str]:
    """Return the contexts of topics by the qualified names of all subjects, soft-deleted ones included.

    A topic belongs to the only context that has a subject ``<topic>-key`` or ``<topic>-value``. Others are
    left out, because another context may own their ids; if there is only one context, :data:`OTHERS` is it.
    """
    contexts, every = defaultdict[str, set[str]](set), set[str]()
    for each in map(Subject.parse, subjects):
        every.add(each.context)
        topic, dash, side = each.name.rpartition("-")
        if dash and side in (KEY, VALUE):
            contexts[topic].add(each.context)
    if len(every) < 2:
        return {OTHERS: next(iter(every), DEFAULT_CONTEXT)}
    return {topic: next(iter(found)) for topic, found in contexts.items() if len(found) == 1}


def plan_topics(topics: Iterable[DescribedTopic], base: Mapping[Place, PartitionRow]) -> Plan:
    """Return what to read of topics, given the partitions of the base."""
    partitions, ranges, kept = list[PartitionRow](), list[Range](), set[Place]()
    for topic in topics:
        if topic.problem and not topic.partitions:
            row = PartitionRow(topic.name, WHOLE, 0, 0, None, False, topic.id, UNREAD, topic.problem)
            partitions.append(row)
        for found in topic.partitions:
            before = base.get((topic.name, found.number))
            row, start = _plan_partition(topic, found, before)
            if start is None:
                start = row.begin
            else:
                kept.add(row.place)
            if start < row.end:
                ranges.append(Range(*row.place, start, row.end))
            partitions.append(row)
    return Plan(tuple(partitions), tuple(ranges), frozenset(kept))


def _plan_partition(
    topic: DescribedTopic, found: DescribedPartition, base: PartitionRow | None
) -> tuple[PartitionRow, int | None]:
    """Return the partition's row, and the offset up to which the rows of the base count.

    ``None``: none of them counts, so the whole partition is read.
    """
    if base is not None and base.topic_id != topic.id:
        base = None
    row = PartitionRow(
        topic.name, found.number, found.begin, found.end, found.size, topic.compacted, topic.id, READ
    )
    if why := topic.problem or found.problem:
        # What was counted before is all that is known.
        begin = max(base.begin if base else 0, found.begin)
        end = max(base.end if base else 0, begin)
        return row._replace(begin=begin, end=end).unread(why), end if base else None
    if found.high > found.end:
        row = row.unread(f"a transaction has been open since offset {found.end}")
    if base is None or base.compacted != row.compacted or base.end > row.end:
        return row, None
    if not row.compacted:
        return row, max(base.end, row.begin)
    unchanged = (base.begin, base.end, base.size) == (row.begin, row.end, row.size)
    return row, row.end if unchanged and row.size is not None else None


def after_reading(
    rows: Iterable[PartitionRow], topics: Mapping[str, DescribedTopic]
) -> Iterator[PartitionRow]:
    """Yield the partitions as they are after they were read; ``topics`` are described once more.

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


def is_complete(patterns: Collection[str], rows: Iterable[PartitionRow], *, knows_all_topics: bool) -> bool:
    """Return whether a census covers every message, so that what it does not hold is unused."""
    read = all(row.state == READ for row in rows)
    return read and knows_all_topics and _covers_all_topics(patterns)


def _covers_all_topics(patterns: Collection[str]) -> bool:
    return "*" in patterns and not any(each.startswith(OUT) for each in patterns)
