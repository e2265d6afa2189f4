"""The log's records in Spark: bundled for the tasks that fold them, and their owners."""

from __future__ import annotations

from functools import partial

from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from registry.domain.fold.fold import owner as owner_of
from snapshots.building.sources import ReadableLog, records_between
from snapshots.building.task import Task

from .reading import from_log
from .tasks.bundles import BUNDLES, read
from .tasks.owned_records import OWNERS, owners_of


def bundled(session: SparkSession, task: Task, places: Broadcast[list[int]]) -> DataFrame:
    """Return the log's records in bundles; ``places``: a number for each task that folds."""
    return from_log(session, task, partial(read, places), BUNDLES)


def ordered(bundles: DataFrame, partitions: int) -> DataFrame:
    """Return bundles in so many partitions, each in the order in which :mod:`.tasks.bundles` merges them."""
    return bundles.repartition(partitions, "place").sortWithinPartitions("first").select("first", "data")


def find_owners_here(log: ReadableLog, start: int, end: int) -> list[bytes]:
    """Return the owners of the records from ``start`` up to ``end``, sorted.

    For few records, this takes less time than starting Spark. Raises
    :class:`registry.log.contract.LogError`.
    """
    return sorted({owner_of(record.key) for record in records_between(log, start, end)})


def find_owners_by_spark(session: SparkSession, task: Task, partitions: int, most: int) -> list[bytes]:
    """Return the owners of the records, sorted; if there are more than ``most``, any ``most + 1`` of them."""
    owners = (
        from_log(session, task, owners_of, OWNERS).repartition(partitions, "owner").distinct().limit(most + 1)
    )
    return sorted(owners.toArrow().column("owner").to_pylist())
