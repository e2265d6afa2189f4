"""Whose records a log has: found by Spark, or here where they are few: that takes less than its start."""

from __future__ import annotations

from pyspark.sql import DataFrame

from registry.domain.fold.fold import owner
from snapshots.building.sources import ReadableLog, records_between


def found_here(log: ReadableLog, start: int, end: int) -> list[bytes]:
    """Owners of the records from ``start`` up to ``end``, sorted.

    Raises :class:`registry.log.contract.LogError`.
    """
    return sorted({owner(record.key) for record in records_between(log, start, end)})


def found_by_spark(records: DataFrame, partitions: int, most: int) -> list[bytes]:
    """Owners of the records, sorted; where there are more than ``most``, any ``most + 1`` of them."""
    owners = records.select("owner").repartition(partitions, "owner").distinct().limit(most + 1)
    return sorted(owners.toArrow().column("owner").to_pylist())
