"""One run of the census: plan, count, look once more, merge, write."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from registry.base.config.settings import Settings
from registry.log.contract import LogError
from registry.log.embedded.log import now_ms
from registry.log.kafka.cluster_topics import (
    DescribedCluster,
    DescribedTopic,
    describe_topics,
    find_epoch_ends,
)
from registry.log.kafka.security import Security
from snapshots.building.task import BuildFailed, EngineFailed, EngineUnavailable, Progress
from snapshots.catalogue.open import catalogue_topic, manifest_keys
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location

from . import files, plan, topics
from .files import BadCensus, Census, Rows
from .plan import PartitionRow, Range, Use

# Errors of a run; their texts are for the user.
FAILURES = (BuildFailed, LogError, BadLocation, LocationUnreachable, BadCensus)
PLANNING, STARTING = "describing topics", "starting Spark"
_DESCRIBE_S = 30.0
# Kafka ends a transaction that its producer has left after a minute, by default.
TRANSACTIONS_S = 75.0
_FILES = re.compile(r"([A-Za-z][\w.-]*):(.+)#([^#]+)")
_log = logging.getLogger(__name__)


class FileSource(NamedTuple):
    """Files that hold values in the wire format in a column; ``format``: a data source of Spark."""

    format: str
    path: str
    column: str

    @classmethod
    def parse(cls, text: str) -> FileSource:
        """Return the source in ``FORMAT:PATH#COLUMN``; raise :class:`ValueError` for other texts."""
        found = _FILES.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not FORMAT:PATH#COLUMN, such as parquet:/data/orders#value")
        return cls(*found.groups())

    def __str__(self) -> str:
        return f"{self.format}:{self.path}#{self.column}"

    @property
    def name(self) -> str:
        """The name of the source."""
        return f"{self.path}#{self.column}"


class Scope(NamedTuple):
    """The topics and files of a run."""

    # Patterns of topics, none for no topics.
    topics: tuple[str, ...]
    files: tuple[FileSource, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns and the files, as the manifest names them."""
        return (*self.topics, *map(str, self.files))


def configured_scope(settings: Settings) -> Scope:
    """Return what the settings say. Raises :class:`ValueError`."""
    files = tuple(map(FileSource.parse, settings.census_files.split()))
    patterns = topics.parse_patterns(settings.census_topics) if settings.census_topics else ()
    return Scope(patterns, files)


class Counted(NamedTuple):
    """Rows that Spark has counted, and why some sources were not."""

    uses: list[Use]
    problems: dict[str, str]

    def add(self, uses: list[Use], problems: Mapping[str, str]) -> None:
        """Add what another job has counted."""
        self.uses.extend(uses)
        self.problems.update(problems)


class Counter(Protocol):
    """Counts by Spark. Methods raise ``EngineFailed`` if a source cannot be read."""

    def count_topics(self, ranges: Sequence[Range]) -> tuple[list[Use], Mapping[str, str]]:
        """Return what the messages of some ranges name, and why some sources are not counted."""
        ...

    def count_files(self, format: str, path: str, column: str) -> tuple[list[Use], Mapping[str, str]]:
        """Return what the values in a column of files name, and why they are not counted."""
        ...


class Result(NamedTuple):
    """A finished census and its rows."""

    census: Census
    rows: Rows


def run(
    settings: Settings,
    scope: Scope,
    location: Location,
    progress: Progress,
    *,
    transactions_s: float = TRANSACTIONS_S,
) -> Result:
    """Take a census and write it to the location. Raises one of :data:`FAILURES`.

    ``transactions_s``: how long to wait for the ends of open transactions, before partitions are unread.
    Until the manifest is written, which is last, the former census is the newest one.
    """
    started = now_ms()
    cluster = _describe(settings, scope, progress, transactions_s)
    base, before = _base(location, cluster.id, scope.patterns)
    planned = plan.plan_topics(
        _matching(settings, scope, cluster),
        {row.place: row for row in before.partitions},
        epoch_ends(settings, before.partitions, cluster),
    )
    counted = _count(settings, scope, planned.ranges, progress)
    rows = list(_without_failed(planned, counted.problems))
    if planned.ranges:
        after = _describe(settings, scope, progress)
        rows = list(plan.after_reading(rows, after.topics, epoch_ends(settings, rows, after)))
    rows += _file_rows(scope, counted.problems)
    uses = plan.merge(counted.uses, (use for use in before.uses if use.place in planned.kept), rows)
    census = Census(
        id=files.new_id(location, len(rows), started),
        base=base,
        started_ms=started,
        ended_ms=now_ms(),
        cluster=cluster.id,
        patterns=scope.patterns,
        complete=topics.is_complete(scope.topics, rows, knows_all_topics=cluster.knows_all_topics),
        messages=sum(use.messages for use in uses if use.side == plan.VALUE),
    )
    result = Result(files.write(location, census, Rows(uses, rows)), Rows(uses, rows))
    files.delete_unfinished(location, census.id)
    files.delete_older(location, census, settings.census_keep)
    return result


def open_location(settings: Settings, uri: str = "") -> Location:
    """Return the location of censuses; by default that of snapshots.

    Raises :class:`snapshots.format.files.BadLocation`.
    """
    return Location.parse(uri or settings.snapshots_location, manifest_keys(settings))


def _describe(
    settings: Settings, scope: Scope, progress: Progress, transactions_s: float = 0.0
) -> DescribedCluster:
    if not scope.topics:
        return DescribedCluster("", {}, knows_all_topics=False)
    if not settings.kafka:
        raise BadCensus("a census of topics needs the setting kafka, the brokers that hold them")
    progress(PLANNING, 0, 1)
    found = describe_topics(
        Security(**settings.security),
        settings.kafka,
        timeout_s=_DESCRIBE_S,
        transactions_s=transactions_s,
    )
    progress(PLANNING, 1, 1)
    return found


def epoch_ends(settings: Settings, rows: Sequence[PartitionRow], cluster: DescribedCluster) -> plan.EpochEnds:
    """Ask where the leader epochs of rows end whose partitions have other leaders now; mostly none."""
    epochs = plan.epochs_before(rows, cluster.topics)
    if not epochs:
        return plan.NO_ENDS
    return find_epoch_ends(Security(**settings.security), settings.kafka, epochs, timeout_s=_DESCRIBE_S)


def _matching(settings: Settings, scope: Scope, cluster: DescribedCluster) -> list[DescribedTopic]:
    """Return the topics of the scope, without Kafka's internal ones and those of the registry itself."""
    own = {
        settings.topic,
        catalogue_topic(settings),
        settings.metadata_encoder_topic,
        settings.audit_log.removeprefix("kafka:"),
    }
    return [
        topic
        for name, topic in sorted(cluster.topics.items())
        if name not in own and topics.is_in_scope(scope.topics, topic)
    ]


def _base(location: Location, cluster: str, patterns: tuple[str, ...]) -> tuple[str, Rows]:
    """Return the id and the rows of the newest census that a run may continue; nothing if there is none."""
    for census in files.newest_first(location):
        if (census.cluster, census.patterns) == (cluster, patterns):
            try:
                return census.id, files.read_rows(location, census)
            except BadCensus as error:
                _log.warning("the census %s is not continued: %s", census.id, error)
    return "", Rows([], [])


def _count(settings: Settings, scope: Scope, ranges: Sequence[Range], progress: Progress) -> Counted:
    if not ranges and not scope.files:
        return Counted([], {})
    try:
        # Imported by name, because PySpark is optional.
        engine = import_module("snapshots.spark.census")
    except ModuleNotFoundError as error:
        raise EngineUnavailable(
            f"{error}: a census needs the extra kafka-registrar[spark] (docs/install.md)"
        ) from error
    progress(STARTING, 0, 1)
    counted = Counted([], {})
    with engine.open_counter(settings, progress, {each.format for each in scope.files}) as counter:
        progress(STARTING, 1, 1)
        by_source = {
            source: list(found) for source, found in itertools.groupby(ranges, lambda each: each.source)
        }
        _count_topics(counter, by_source, counted)
        for each in scope.files:
            try:
                counted.add(*counter.count_files(*each))
            except EngineFailed as error:
                counted.problems[each.name] = str(error)
    return counted


def _count_topics(counter: Counter, ranges: Mapping[str, list[Range]], counted: Counted) -> None:
    """Count topics in one job. If it fails, count each half of them, so that one topic harms no others."""
    if not ranges:
        return
    try:
        counted.add(*counter.count_topics([each for found in ranges.values() for each in found]))
    except EngineFailed as error:
        sources = list(ranges)
        if len(sources) == 1:
            counted.problems[sources[0]] = str(error)
            return
        _log.info("counting %d topics failed; counting them in two halves: %s", len(sources), error)
        for half in (sources[: len(sources) // 2], sources[len(sources) // 2 :]):
            _count_topics(counter, {source: ranges[source] for source in half}, counted)


def _without_failed(planned: plan.Plan, problems: Mapping[str, str]) -> Iterator[PartitionRow]:
    """Yield the partitions; of those that could not be read, only what was known before is counted."""
    starts = {(each.source, each.partition): each.start for each in planned.ranges}
    for row in planned.partitions:
        failed = row.place in starts and row.source in problems
        yield row._replace(end=starts[row.place]).unread(problems[row.source]) if failed else row


def _file_rows(scope: Scope, problems: Mapping[str, str]) -> Iterator[PartitionRow]:
    for each in scope.files:
        row = PartitionRow(each.name, 0, 0, 0, None, compacted=False, topic_id="", state=plan.READ)
        yield row.unread(problems[each.name]) if each.name in problems else row
