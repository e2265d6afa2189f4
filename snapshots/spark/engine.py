"""The engine ``spark``: some tasks fold the records of their owners, others write ranges of keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkContext, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from registry.domain.rows.digest import MODULUS, text
from snapshots.building.task import KEEP, EngineFailed, Progress, Task, WrongRows, with_keyset
from snapshots.format.manifest import Manifest
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.writer import OverlappingRuns, WrittenRows, merge_runs, publish
from snapshots.spark.tasks.base_rows import BaseQuery, may_be_asked, pick
from snapshots.spark.tasks.bundles import BUNDLES
from snapshots.spark.tasks.chunks import BadChunk
from snapshots.spark.tasks.folding import fold_bundles
from snapshots.spark.tasks.summaries import SummaryMessage, WrongPart, decode, loads

from . import reading
from .failures import reason
from .ranges import places_for, plan_ranges
from .reading import tasks_for
from .session import open_session, runs_here
from .tasks import chunks, summaries, writing

ENGINE = "spark"
STARTING = "starting Spark"
FINDING, FOLDING, WRITING = "finding changed owners", "folding the log", "writing the parts"
VERIFYING = "verifying the parts"
# With more owners of records since the base, the whole log is folded instead.
OWNERS_MAX = 1_000_000
# The owners of fewer records since a base are found here, while Spark starts.
FEW = 300_000
# Errors of tasks, and of Spark, after which the log may be folded once more.
_FOLDED_AGAIN = (BadChunk.__name__, WrongPart.__name__)
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
_EVERY_S = 0.5

T = TypeVar("T")


def build(task: Task, progress: Progress) -> Manifest:
    """Build a snapshot; see :class:`..task.Engine`.

    Raises :class:`..task.BuildFailed` for Spark's errors, :class:`..task.WrongRows`, and
    :class:`snapshots.format.stored.UnusableSnapshot` for a damaged base.
    """
    task = replace(task, size=task.log_size())
    with ThreadPoolExecutor(1, "owners") as thread:
        few = task.base and task.log_size().records < FEW
        owners = (
            thread.submit(reading.find_owners_here, task.source.log, task.start, task.end) if few else None
        )
        progress(STARTING, 0, 1)
        with (
            open_session(task.settings, keep=KEEP in task.options) as session,
            _plain_errors(task),
        ):
            progress(STARTING, 1, 1)
            return _Job(session, task, progress, owners).run()


class _Job:
    """One build in one session."""

    def __init__(
        self, session: SparkSession, task: Task, progress: Progress, owners: Future[list[bytes]] | None = None
    ) -> None:
        self._session, self._task, self._progress, self._found = session, task, progress, owners
        self._context = session.sparkContext
        self._broadcasts: list[Broadcast[Any]] = []
        self._partitions = tasks_for(task.log_size(), self._context.defaultParallelism)

    def run(self) -> Manifest:
        """Fold the records, write the parts, verify them and publish the manifest."""
        try:
            return self._run()
        finally:
            with suppress(Py4JError, OSError):  # Spark has ended.
                for each in self._broadcasts:
                    each.destroy()

    def _run(self) -> Manifest:
        task = self._task
        places = places_for(self._partitions)
        bundles = reading.read_bundles(self._session, task, self._broadcast(places))
        if task.base:
            owners = self._owners()
            if len(owners) > OWNERS_MAX:
                return _Job(self._session, replace(task, base=None, size=None), self._progress).run()
            bundles = bundles.unionByName(self._base_rows(owners, task.base, places))
        with self._fold(reading.sort_bundles(bundles, self._partitions)) as (folded, found):
            written = self._write(folded, self._plan(found), found)
        self._verify(written)
        # Asking for the end proves that the log is still the one that was opened.
        task.source.end()
        return publish(task.location, with_keyset(task, task.about(ENGINE), written), written)

    def _broadcast(self, value: T) -> Broadcast[T]:
        """Return a value that executors get once, rather than with each task."""
        with _temporary_files():
            self._broadcasts.append(self._context.broadcast(value))
        return self._broadcasts[-1]

    def _frame(self, table: pa.Table) -> DataFrame:
        with _temporary_files():
            return self._session.createDataFrame(table)

    @contextmanager
    def _fold(self, bundles: DataFrame) -> Iterator[tuple[DataFrame, list[SummaryMessage]]]:
        """Fold the records, and keep the chunks for the block; yield them, and a summary of each task.

        A chunk that is lost is not folded again, because the log may have been compacted since: the job that
        needs it fails. On a cluster, two executors keep each chunk, so losing one of them does no harm.
        """
        here = runs_here(self._context.master or "")
        level = StorageLevel.DISK_ONLY if here else StorageLevel.DISK_ONLY_2
        before = set(_kept_by(self._context))
        try:
            with self._report_step(FOLDING):
                folded = bundles.mapInArrow(fold_bundles, chunks.FOLDED).localCheckpoint(storageLevel=level)
                found = folded.where("summary is not null").select("summary").collect()
            yield folded.where("summary is null"), [decode(bytes(each.summary)) for each in found]
        finally:
            with suppress(Py4JError, OSError):  # Spark has ended.
                for number, kept in _kept_by(self._context).items():
                    if number not in before:
                        kept.unpersist(False)

    def _owners(self) -> list[bytes]:
        """Return the owners of the records, sorted; more than :data:`OWNERS_MAX` if there are too many."""
        with self._report_step(FINDING):
            if self._found:
                return self._found.result()
            return reading.find_owners_by_spark(self._session, self._task, self._partitions, OWNERS_MAX)

    def _base_rows(self, owners: list[bytes], base: Manifest, places: list[int]) -> DataFrame:
        """Return bundles of the base's rows that folding the owners' records may read."""
        parts = [part for part in base.parts if may_be_asked(part)]
        tasks = min(len(parts), 4 * self._context.defaultParallelism)
        numbers = self._session.range(0, len(parts), 1, max(1, tasks))
        wanted = BaseQuery(self._task.location.uri, base.id, tuple(parts), tuple(owners), places)
        return numbers.mapInArrow(partial(pick, self._broadcast(wanted)), BUNDLES)

    def _plan(self, found: list[SummaryMessage]) -> writing.Plan:
        task = self._task
        base, parts = (task.base.id, task.base.parts) if task.base else ("", ())
        ranges = plan_ranges(found, parts, 4 * self._context.defaultParallelism)
        return writing.Plan(task.location.uri, task.id, base, ranges)

    def _write(self, folded: DataFrame, plan: writing.Plan, found: list[SummaryMessage]) -> WrittenRows:
        with self._report_step(WRITING):
            write = partial(writing.write, self._broadcast(plan))
            answers = [
                writing.decode(bytes(each.answer))
                for each in self._pieces(folded, plan).mapInArrow(write, writing.FIELDS).collect()
            ]
        written = [WrittenRows(each.parts, *loads(each.gone)) for each in answers]
        written += [WrittenRows([], *summary.tally.value) for summary in found]
        if base := self._task.base:
            written.append(WrittenRows([], dict(base.counts), base.digest))
        try:
            return _without_zeros(merge_runs(written))
        except OverlappingRuns as error:
            raise WrongRows(str(error)) from error

    def _verify(self, written: WrittenRows) -> None:
        """Read the parts again, and compare what they hold with what the folding tasks counted.

        Raises :class:`..task.WrongRows`.
        """
        task, held = self._task, list[WrittenRows]()
        with self._report_step(VERIFYING):
            if written.parts:
                files = self._frame(summaries.parts_table(written.parts))
                tally = partial(summaries.tally_files, task.location.uri, task.id)
                found = files.mapInArrow(tally, summaries.FIELDS).collect()
                held = [WrittenRows([], *loads(bytes(each.tally))) for each in found]
        _, counts, digest = _without_zeros(merge_runs(held))
        if (counts, digest) != (written.counts, written.digest):
            raise WrongRows(
                f"the files hold {sum(counts.values())} rows with the digest {text(digest)}, "
                f"but folding gave {sum(written.counts.values())} with {text(written.digest)}"
            )

    def _pieces(self, folded: DataFrame, plan: writing.Plan) -> DataFrame:
        """Return the chunks, cut where ranges begin, with those of a range in order and in one partition."""
        count = len(plan.ranges)
        lows, places = [units[0].low for units in plan.ranges], places_for(count)
        cut = partial(chunks.cut, self._broadcast(chunks.Cuts(lows, places)))
        found = folded.select("first", "last", "data").mapInArrow(cut, chunks.PIECES)
        # A range without changes is written too.
        # From Python rows, Spark would start Python workers once more.
        columns = {"place": pa.array(places, pa.int64()), "range": pa.array(range(count), pa.int32())}
        none = sql.lit(None).cast("binary")
        every = self._frame(pa.table(columns)).select(
            "place", "range", none.alias("first"), none.alias("data")
        )
        lines = found.unionByName(every).repartition(count, "place").sortWithinPartitions("range", "first")
        return lines.select("range", "first", "data")

    @contextmanager
    def _report_step(self, step: str) -> Iterator[None]:
        name = f"{step} of snapshot {self._task.id}"
        with report_progress(self._context, step, name, self._progress):
            yield


def _without_zeros(rows: WrittenRows) -> WrittenRows:
    counts = {table: count for table, count in rows.counts.items() if count}
    return WrittenRows(rows.parts, counts, rows.digest % MODULUS)


def _kept_by(context: SparkContext) -> dict[int, Any]:
    """Return the RDDs that Spark keeps, by their numbers."""
    kept: Any = context._jsc.getPersistentRDDs()  # noqa: SLF001 (there is no other way)
    return dict(kept)


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Raise :class:`EngineFailed` if Spark's temporary files of this process cannot be written."""
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        raise EngineFailed(f"Spark failed: {reason(str(error))}") from error


@contextmanager
def _plain_errors(task: Task) -> Iterator[None]:
    """Translate Spark's errors into those of a build."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        why = reason(str(error))
        name, _, said = why.partition(": ")
        if _LOST in str(error):
            raise WrongRows(
                "Spark has lost rows that it had folded: an executor or its disk is gone"
            ) from error
        if name.endswith(_FOLDED_AGAIN):
            raise WrongRows(said) from error
        if task.base and name.endswith(UnusableSnapshot.__name__):
            raise UnusableSnapshot(said) from error
        raise EngineFailed(f"Spark failed: {why}") from error
    except (ConnectionError, EOFError) as error:
        raise EngineFailed(f"Spark has ended: {error}") from error


@contextmanager
def report_progress(context: SparkContext, step: str, group: str, progress: Progress) -> Iterator[None]:
    """Name the block's jobs in Spark's UI, and report how many of their tasks are done.

    If the block ends with an error, its running jobs are cancelled.
    """
    context.setJobGroup(group, step, interruptOnCancel=True)
    over = threading.Event()

    def report() -> None:
        try:
            while not over.wait(_EVERY_S):
                done, total = _tasks(context, group)
                if total:
                    progress(step, done, total)
        except Py4JError:
            return  # Spark has ended; the thread that waits for the job raises the error
        finally:
            _disconnect(context)

    thread = threading.Thread(target=report, name="report_progress", daemon=True)
    thread.start()
    finished = False
    try:
        yield
        finished = True
    finally:
        over.set()
        thread.join()
        if not finished:
            # An interrupted call still waits for its answer on this connection.
            _disconnect(context)
            with suppress(Py4JError, OSError):
                context.cancelJobGroup(group)
    _, total = _tasks(context, group)
    progress(step, max(1, total), max(1, total))


def _disconnect(context: SparkContext) -> None:
    """Close this thread's connection to Java, which PySpark leaves open."""
    gateway: Any = context._gateway  # noqa: SLF001 (there is no other way)
    if gateway is not None and (connection := gateway._gateway_client.get_thread_connection()):  # noqa: SLF001
        connection.close()


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            if found := tracker.getStageInfo(stage):
                done += found.numCompletedTasks
                total += found.numTasks
    return done, total
