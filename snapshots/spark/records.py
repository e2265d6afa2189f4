"""Records in Spark, with their owners, and reduced to those that count for each key.

Columns: ``owner``, ``key``, ``offset``, ``ts`` (ms since the epoch), ``value``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType

from registry.domain.fold.fold import owner as owner_of
from snapshots.building.sources import ReadableLog, records_between

from .tasks.folding import EVERY, group_of

# The keys of nearly all records, whose owners the JVM finds by itself: the pattern of
# registry.domain.fold.fast_path in Java's syntax. Python finds the owners of all other keys.
PLAIN = (
    r'^\{"keytype":"SCHEMA","subject":"((?!:\.)[ !#-\[\]-~]{1,120})","version":[1-9][0-9]{0,8},"magic":1\}\z'
)
_EACH, _LAST = "each", -1
_ROW = -2


def with_owner(records: DataFrame) -> DataFrame:
    """Return records with columns ``owner``, as by :func:`registry.domain.fold.fold.owner`, and ``each``.

    Of records that are equal in owner, key and ``each``, only the last one counts.
    """
    name = sql.regexp_extract(sql.col("key").cast("string"), PLAIN, 1)
    told = records.withColumn("name", sql.coalesce(name, sql.lit("")))
    plain = sql.col("name") != ""
    # The Python function gets every record, but a null costs next to nothing.
    asked = sql.udf(group_of, BinaryType())(sql.when(~plain, sql.col("key")))
    told = told.withColumn("group", asked)
    every = ~plain & (sql.substring("group", 1, 1) == _binary(EVERY))
    owner = sql.when(
        plain, sql.concat(_binary(b".\0"), sql.encode("name", "UTF-8"), _binary(b"\0"))
    ).otherwise(sql.coalesce(sql.expr("substring(`group`, 2)"), _binary(b"")))
    each = sql.when(every, sql.col("offset")).otherwise(sql.lit(_LAST))
    return told.select(owner.alias("owner"), "key", "offset", "ts", "value", each.alias(_EACH))


def with_rows(records: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the records with rows of a base among them."""
    return records.unionByName(rows.withColumn(_EACH, sql.lit(_ROW).cast("bigint")))


def latest(records: DataFrame, partitions: int) -> DataFrame:
    """Return the records that count, with those of an owner next to each other, in so many partitions."""
    # One exchange; the aggregate's sort leaves owners together. Sorting by hashes is quick, while owners'
    # names, most of which begin alike, would have to be compared byte by byte.
    numbered = records.withColumn("place", sql.xxhash64("owner"))
    last = sql.max(sql.struct("offset", "ts", "value")).alias("last")
    grouped = numbered.repartition(partitions, "place").groupBy("place", "owner", "key", _EACH).agg(last)
    return (
        grouped.select("place", "owner", "key", "last.offset", "last.ts", "last.value")
        .sortWithinPartitions("place", "owner")
        .select("owner", "offset", "ts", "key", "value")
    )


def _binary(raw: bytes) -> Column:
    return sql.unhex(sql.lit(raw.hex()))


def find_owners_here(log: ReadableLog, start: int, end: int) -> list[bytes]:
    """Return the owners of the records from ``start`` up to ``end``, sorted.

    For few records, this takes less time than starting Spark. Raises
    :class:`registry.log.contract.LogError`.
    """
    return sorted({owner_of(record.key) for record in records_between(log, start, end)})


def find_owners_by_spark(records: DataFrame, partitions: int, most: int) -> list[bytes]:
    """Return the owners of the records, sorted; if there are more than ``most``, any ``most + 1`` of them."""
    owners = records.select("owner").repartition(partitions, "owner").distinct().limit(most + 1)
    return sorted(owners.toArrow().column("owner").to_pylist())
