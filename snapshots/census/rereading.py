"""Reading of a topic's messages, or a sample, with another schema: how many fail, and why."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from registry.base.config.settings import Settings
from registry.cli.decoding.frame import CannotDecode, SchemaName
from registry.cli.decoding.message import WriterSchema
from registry.cli.decoding.rereading import Reader
from registry.log.kafka.cluster_topics import DescribedCluster, DescribedTopic, describe_topics
from registry.log.kafka.security import Security
from snapshots.building.task import EngineUnavailable, Progress

from . import plan
from .files import BadCensus
from .plan import Range
from .run import PLANNING, STARTING, epoch_ends

# A sample is taken from so many places of each partition: both ends, and between.
_STRETCHES: Final = 4
_DESCRIBE_S: Final = 30.0
_ID: Final = 0
_NAMELESS: Final = "it names no schema"

# Returns the schema that messages name; raises CannotDecode.
FindWriter = Callable[[SchemaName], WriterSchema]


class Failed(NamedTuple):
    """Messages of one writer that cannot be read, for one reason."""

    # None: they name no schema.
    writer: SchemaName | None
    reason: str
    messages: int
    # Partition and offset of the first ones.
    places: list[tuple[int, int]]


class Verdict(NamedTuple):
    """The result for the messages of one side of a topic; deletions are no messages."""

    messages: int
    nulls: int
    # The most frequent first.
    failed: list[Failed]
    # Partitions with committed messages that may not have been read, each with the reason.
    unread: dict[int, str]
    # Partitions with a transaction that has been open since this offset: it was read up to there.
    uncommitted: dict[int, int]

    @property
    def failures(self) -> int:
        """The number of messages that cannot be read."""
        return sum(each.messages for each in self.failed)


def reread(
    settings: Settings,
    topic: str,
    side: str,
    reader: Reader,
    writer: FindWriter,
    progress: Progress,
    *,
    sample: int = 0,
) -> Verdict:
    """Read the committed messages of a topic with ``reader``; ``sample``: about so many of them.

    Raises one of :data:`.run.FAILURES`, and what ``writer`` raises.
    """
    described = _describe(settings, topic, progress).topics[topic]
    uncommitted = {each.number: each.end for each in described.partitions if each.high > each.end}
    planned = _plan(described)
    if not planned.ranges:
        return Verdict(0, 0, [], _unread(planned.partitions), uncommitted)
    ranges = sample_of(planned.ranges, sample) if sample else [planned.ranges]
    try:
        # Imported by name, because PySpark is optional.
        engine = import_module("snapshots.spark.rereading")
    except ModuleNotFoundError as error:
        raise EngineUnavailable(
            f"{error}: reading a topic needs the extra kafka-registrar[spark] (docs/install.md)"
        ) from error
    progress(STARTING, 0, 1)
    with engine.open_rereader(settings, progress) as rereader:
        progress(STARTING, 1, 1)
        counts: Mapping[bytes, int] = rereader.count_writers(ranges, side)
        writers = {ref: _find(writer, ref) for ref in counts if ref != engine.NO_MESSAGE}
        found = rereader.failures(ranges, side, reader, writers).found if writers else {}
    nulls = counts.get(engine.NO_MESSAGE, 0)
    failed = [Failed(_name(ref), reason, *each) for (ref, reason), each in found.items()]
    failed.sort(key=lambda each: (-each.messages, str(each.writer), each.reason))
    after = _describe(settings, topic, progress)
    # Spark passes over what was truncated or deleted meanwhile.
    rows = plan.after_reading(
        planned.partitions, after.topics, epoch_ends(settings, planned.partitions, after)
    )
    return Verdict(sum(counts.values()) - nulls, nulls, failed, _unread(rows), uncommitted)


def _describe(settings: Settings, topic: str, progress: Progress) -> DescribedCluster:
    progress(PLANNING, 0, 1)
    cluster = describe_topics(Security(**settings.security), settings.kafka, timeout_s=_DESCRIBE_S)
    progress(PLANNING, 1, 1)
    if topic not in cluster.topics:
        raise BadCensus(f"there is no topic {topic}, or this client may not describe it")
    return cluster


def _plan(topic: DescribedTopic) -> plan.Plan:
    """Return what to read. Messages of open transactions are not committed, so none is left unread."""
    committed = tuple(each._replace(high=each.end) for each in topic.partitions)
    planned = plan.plan_topics([topic._replace(partitions=committed)], {})
    if not planned.ranges and (unread := _unread(planned.partitions)):
        raise BadCensus(f"the topic {topic.name} cannot be read: {next(iter(unread.values()))}")
    return planned


def _unread(rows: Iterable[plan.PartitionRow]) -> dict[int, str]:
    return {row.partition: row.reason for row in rows if row.state == plan.UNREAD}


def sample_of(ranges: Sequence[Range], messages: int) -> list[list[Range]]:
    """Return stretches of ranges that hold about so many offsets, spread evenly; at least one of each."""
    total = sum(each.end - each.start for each in ranges)
    if total <= messages:
        return [[*ranges]]
    return [list(_stretches(ranges, messages / total, number)) for number in range(_STRETCHES)]


def _stretches(ranges: Sequence[Range], share: float, number: int) -> Iterator[Range]:
    """Yield the stretch with a number of each range: the first begins it, the last ends it."""
    for each in ranges:
        size = each.end - each.start
        wanted = min(size, max(1, round(size * share)))
        length = wanted * (number + 1) // _STRETCHES - wanted * number // _STRETCHES
        if length:
            before = wanted * number // _STRETCHES
            start = each.start + before + (size - wanted) * number // (_STRETCHES - 1)
            yield each._replace(start=start, end=start + length)


def _name(ref: bytes) -> SchemaName | None:
    if len(ref) == 1:
        return None
    if ref[0] == _ID:
        return SchemaName(int.from_bytes(ref[1:]))
    return SchemaName(None, str(uuid.UUID(bytes=ref[1:])))


def _find(writer: FindWriter, ref: bytes) -> WriterSchema | str:
    name = _name(ref)
    if name is None:
        return _NAMELESS
    try:
        return writer(name)
    except CannotDecode as error:
        return str(error)
