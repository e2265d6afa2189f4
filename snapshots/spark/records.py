"""Records in Spark: with their owners, and of each key only what counts.

Columns: ``owner``, ``key``, ``offset``, ``ts`` (ms since the epoch), ``value``.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType

from .tasks.grouping import EVERY, group_of

PLAIN = (
    r'^\{"keytype":"SCHEMA","subject":"((?!:\.)[ !#-\[\]-~]{1,120})","version":[1-9][0-9]{0,8},"magic":1\}\z'
)
"""The keys of nearly all records, whose owner the JVM tells by itself: ``registry.domain.fold.fast_path``'s,
in Java's words. What it does not match, Python is asked about."""
_EACH, _LAST = "each", -1
_ROW = -2


def with_owner(records: DataFrame) -> DataFrame:
    """Records with columns ``owner``, as :func:`registry.domain.fold.fold.owner` says, and ``each``.

    Of those that are equal in owner, key and ``each``, only the last one counts.
    """
    name = sql.regexp_extract(sql.col("key").cast("string"), PLAIN, 1)
    told = records.withColumn("name", sql.coalesce(name, sql.lit("")))
    plain = sql.col("name") != ""
    # Python's side is asked about every record, but a null costs next to nothing.
    asked = sql.udf(group_of, BinaryType())(sql.when(~plain, sql.col("key")))
    told = told.withColumn("group", asked)
    every = ~plain & (sql.substring("group", 1, 1) == _binary(EVERY))
    owner = sql.when(
        plain, sql.concat(_binary(b".\0"), sql.encode("name", "UTF-8"), _binary(b"\0"))
    ).otherwise(sql.coalesce(sql.expr("substring(`group`, 2)"), _binary(b"")))
    each = sql.when(every, sql.col("offset")).otherwise(sql.lit(_LAST))
    return told.select(owner.alias("owner"), "key", "offset", "ts", "value", each.alias(_EACH))


def with_rows(records: DataFrame, rows: DataFrame) -> DataFrame:
    """The same with rows of a base among them."""
    return records.unionByName(rows.withColumn(_EACH, sql.lit(_ROW).cast("bigint")))


def latest(records: DataFrame, partitions: int) -> DataFrame:
    """What counts of the records, all of an owner behind one another, in so many partitions."""
    # One exchange; what sorts for the aggregate leaves owners together. Numbers are sorted where they stand,
    # while names, most of which begin alike, would have to be looked up row by row.
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
