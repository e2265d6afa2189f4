"""The engine ``spark``: folds owner by owner, in tasks, and has other tasks write ranges of keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from registry.domain.rows.digest import MODULUS
from snapshots.building.task import BuildFailed, Progress, Task, with_keyset
from snapshots.format.manifest import Manifest, Part
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.writer import WrittenRows, merge_runs, publish

from . import records
from .owners import found_by_spark, found_here
from .progress import telling
from .ranges import ChunkSeen, plan_ranges
from .reading import records_of, tasks_for
from .session import open_session
from .tasks import chunks, writing
from .tasks.base_rows import Wanted, may_be_asked, pick
from .tasks.folding import fold
from .tasks.tallying import loads

ENGINE = "spark"
FINDING, FOLDING, WRITING = "finding what has changed", "folding the log", "writing the parts"
OWNERS_MAX = 1_000_000
"""Of records since the base: with more, all of the log is folded instead."""
BRIEF = 300_000
"""Records; with fewer, what Java has compiled at its best comes too late."""
_PYTHON_SAID = re.compile(r"(?!org\.|java\.|scala\.)(\w+\.)*[A-Z]\w*: ")
_SHOWN = 500
_TRIED = 20
"""Numbers for each partition, so that hardly one gets none."""


def build(task: Task, progress: Progress) -> Manifest:
    """See :class:`..task.Engine`.

    Raises :class:`..task.BuildFailed` for what Spark says, and
    :class:`snapshots.format.stored.UnusableSnapshot` for a base that is damaged.
    """
    brief = task.end - task.start < BRIEF
    with ThreadPoolExecutor(1, "owners") as aside:
        few = brief and task.base
        owners = aside.submit(found_here, task.source.log, task.start, task.end) if few else None
        with open_session(task.settings, brief=brief) as session, _plain_errors(task):
            return _Job(session, task, progress, owners).run()


class _Job:
    """One build in one session."""

    def __init__(
        self, session: SparkSession, task: Task, progress: Progress, owners: Future[list[bytes]] | None = None
    ) -> None:
        self._session, self._task, self._progress, self._found = session, task, progress, owners
        self._context = session.sparkContext
        self._partitions = tasks_for(task.end - task.start, self._context.defaultParallelism)

    def run(self) -> Manifest:
        """Fold, write, publish."""
        task = self._task
        log = records.with_owner(records_of(self._session, task))
        if task.base:
            owners = self._owners(log)
            if len(owners) > OWNERS_MAX:
                return _Job(self._session, replace(task, base=None), self._progress).run()
            log = records.with_rows(log, self._base_rows(owners, task.base))
        folded = records.latest(log, self._partitions).mapInArrow(fold, chunks.FIELDS)
        folded.persist(StorageLevel.DISK_ONLY)
        try:
            with self._told(FOLDING):
                found = folded.select("first", "size", "begins", "gone", "tally").collect()
            seen = [
                ChunkSeen(bytes(each.first), each.size, _all_bytes(each.begins), _all_bytes(each.gone))
                for each in found
            ]
            put = [WrittenRows([], *loads(bytes(each.tally))) for each in found if each.tally]
            parts = task.base.parts if task.base else ()
            written = self._write(folded, self._plan(seen, parts), put)
        finally:
            folded.unpersist()
        # Asking for the end proves that the log is still the one that was opened.
        task.source.end()
        return publish(task.location, with_keyset(task, task.about(ENGINE), written), written)

    def _owners(self, log: DataFrame) -> list[bytes]:
        """Whose records there are, sorted; a few too many owners stand for far too many."""
        with self._told(FINDING):
            return self._found.result() if self._found else found_by_spark(log, self._partitions, OWNERS_MAX)

    def _base_rows(self, owners: list[bytes], base: Manifest) -> DataFrame:
        """The rows of the base that folding their records may ask for."""
        parts = [part for part in base.parts if may_be_asked(part)]
        tasks = min(len(parts), 4 * self._context.defaultParallelism)
        numbers = self._session.range(0, len(parts), 1, max(1, tasks))
        wanted = Wanted(self._task.location.uri, base.id, tuple(parts), tuple(owners))
        schema = "owner binary, key binary, offset bigint, ts bigint, value binary"
        return numbers.mapInArrow(partial(pick, wanted), schema)

    def _plan(self, seen: list[ChunkSeen], parts: tuple[Part, ...]) -> writing.Plan:
        task = self._task
        base = task.base.id if task.base else ""
        ranges = plan_ranges(seen, parts, 4 * self._context.defaultParallelism)
        return writing.Plan(task.location.uri, task.id, base, ranges)

    def _write(self, folded: DataFrame, plan: writing.Plan, put: list[WrittenRows]) -> WrittenRows:
        with self._told(WRITING):
            lines = self._lines(folded, plan)
            answers = [
                writing.decode(bytes(each.answer))
                for each in lines.mapInArrow(partial(writing.write, plan), writing.FIELDS).collect()
            ]
        written = [WrittenRows(each.parts, *loads(each.gone)) for each in answers] + put
        if base := self._task.base:
            written.append(WrittenRows([], dict(base.counts), base.digest))
        parts, counts, digest = merge_runs(written)
        return WrittenRows(
            parts, {table: count for table, count in counts.items() if count}, digest % MODULUS
        )

    def _lines(self, folded: DataFrame, plan: writing.Plan) -> DataFrame:
        """The chunks of each range, in order; one that lies in two ranges is in both."""
        count = len(plan.ranges)
        lows = [units[0].low for units in plan.ranges]
        columns = {
            "range": pa.array(range(count), pa.int32()),
            "place": pa.array(self._places(count), pa.int64()),
            "low": pa.array(lows, pa.binary()),
            "high": pa.array([*lows[1:], None], pa.binary()),
        }
        # Rows of Python's would be read by Python once more.
        ranges = self._session.createDataFrame(pa.table(columns))
        within = (sql.col("last") >= sql.col("low")) & (
            sql.col("high").isNull() | (sql.col("first") < sql.col("high"))
        )
        found = folded.join(sql.broadcast(ranges), within).select("place", "range", "first", "data")
        # A range without changes is written, too.
        none = sql.lit(None).cast("binary")
        every = ranges.select("place", "range", none.alias("first"), none.alias("data"))
        lines = found.unionByName(every).repartition(count, "place").sortWithinPartitions("range", "first")
        return lines.select("range", "first", "data")

    def _places(self, count: int) -> list[int]:
        """A number for each of ``count`` partitions that Spark puts there; else, a third would stay empty."""
        tried = self._session.range(_TRIED * count).repartition(count, "id")
        put = tried.select(sql.spark_partition_id().alias("place"), "id").collect()
        found = {each.place: each.id for each in put}
        return [found.get(place, place) for place in range(count)]

    @contextmanager
    def _told(self, step: str) -> Iterator[None]:
        name = f"{step} of snapshot {self._task.id}"
        with telling(self._context, step, name, self._progress):
            yield


def _all_bytes(raw: list[bytearray]) -> list[bytes]:
    return [bytes(each) for each in raw]


@contextmanager
def _plain_errors(task: Task) -> Iterator[None]:
    """What Spark raises, in the words of a build."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        reason = _reason(str(error))
        name, _, said = reason.partition(": ")
        if task.base and name.endswith(UnusableSnapshot.__name__):
            raise UnusableSnapshot(said) from error
        raise BuildFailed(f"Spark gave up: {reason}") from error
    except (ConnectionError, EOFError) as error:
        raise BuildFailed(f"Spark is gone: {error}") from error


def _reason(text: str) -> str:
    """The line that says most: what Python said, if it was there that something went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [line for line in lines if _PYTHON_SAID.match(line)]
    return (found or lines or ["it gave no reason"])[0][:_SHOWN]
