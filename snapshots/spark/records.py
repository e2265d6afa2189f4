"""Records in Spark with the columns of :mod:`.tasks.owned_records`, ordered as tasks fold them.

Expressions find owner and version of all keys that this registry and Confluent write, but for names with
escapes and names that row keys cut. Python finds those of the others, in batches that hold nothing else.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BinaryType

from registry.domain.fold.fold import owner as owner_of
from registry.domain.log_format import records
from registry.domain.rows.layout import PART_MAX
from snapshots.building.sources import ReadableLog, records_between

from .tasks.owned_records import OTHER, VERSION_BYTES, places_of

# Text that stands for itself in a key, in Java's syntax. Java reads U+FFFD in place of broken UTF-8.
_TEXT = r'[^"\\\x00-\x1f\x7f\ufffd]++'
_CONTEXT = r'\.[^":\\\x00-\x1f\x7f\ufffd]*+'
_BEFORE, _BETWEEN, _AFTER = '{"keytype":"SCHEMA","subject":"', '","version":', ',"magic":1}'
_SCHEMA = rf'^\{{"keytype":"SCHEMA","subject":"({_TEXT})","version":[1-9][0-9]{{0,8}},"magic":1\}}\z'
# Other keys of a subject, and of a context; one of two groups is its name.
_RESOURCE = rf'(?:"(?:resourceName|resourceNamespace|resourceType|associationType)":"{_TEXT}",){{0,4}}'
_OF_SUBJECT = (
    rf'^\{{"keytype":"(?:(?:CONFIG|MODE|DELETE_SUBJECT|CLEAR_SUBJECT)","subject":"({_TEXT})"'
    rf'|ASSOC","tenant":"default",{_RESOURCE}"subject":"({_TEXT})"),"magic":0\}}\z'
)
_OF_CONTEXT = (
    rf'^\{{"keytype":"(?:NOOP","magic":0,"registrar":"ids","context":"({_CONTEXT})"'
    rf'|CONTEXT","tenant":"default","context":"({_CONTEXT})","magic":0)\}}\z'
)
_OF_TOP = [
    f'{{"keytype":"{kind}","magic":0}}' for kind in ("CONFIG", "MODE", "DELETE_SUBJECT", "CLEAR_SUBJECT")
]
_OF_CLUSTER = [
    key.decode() for key in (records.NOOP_KEY, records.BARRIER_KEY, records.SNAPSHOT_KEY, records.RESEED_KEY)
]
_WEBHOOK = rf'^\{{"keytype":"NOOP","magic":0,"registrar":"webhook(?:-position)?","name":"{_TEXT}"\}}\z'
# Its declared types do not know functions like ours.
_by_batches: Any = pandas_udf
# More characters than a key has.
_KEY_MAX = 1 << 30


def with_owner(log: DataFrame) -> DataFrame:
    """Return the log's records with owner and version, as by :func:`.tasks.owned_records.place_of`."""
    told, named = with_found(log), _is_version()
    # Python gets a batch for each batch of records, in which nearly all keys are missing.
    odd = sql.col("key").isNotNull() & sql.col("found").isNull()
    told = told.withColumn("place", _by_batches(places_of, BinaryType())(sql.when(odd, sql.col("key"))))
    owner = sql.coalesce("found", sql.expr(f"substring(place, {VERSION_BYTES + 1})"), _binary(b""))
    digits = sql.expr(
        f"substring(text, {len(_BEFORE) + len(_BETWEEN) + 1} + length(name),"
        f" length(text) - length(name) - {len(_BEFORE) + len(_BETWEEN) + len(_AFTER)})"
    )
    by_python = sql.conv(sql.hex(sql.substring("place", 1, VERSION_BYTES)), 16, 10)
    version = sql.when(named & ~odd, digits).otherwise(sql.coalesce(by_python, sql.lit(str(OTHER))))
    ascii_only = sql.octet_length("name") == sql.length("name")
    plain = named & ~odd & ascii_only & ~sql.col("name").startswith(":.")
    key = sql.when(~plain, sql.col("key"))
    return told.select(
        owner.alias("owner"), version.cast("int").alias("version"), "offset", "ts", key.alias("key"), "value"
    )


def with_found(log: DataFrame) -> DataFrame:
    """Return the log's records with the packed owner that expressions find: null for odd keys.

    Further columns: the key as ``text``, and the qualified ``name`` of a version's subject.
    """
    # Each step is a column: within one expression, what is used twice would be computed twice.
    told = log.withColumn("text", sql.col("key").cast("string"))
    told = told.withColumn("name", sql.regexp_extract("text", _SCHEMA, 1))
    told = told.withColumn("subject", sql.when(_is_version(), sql.col("name")).otherwise(_group(_OF_SUBJECT)))
    return told.withColumn(
        "found", sql.when(sql.col("subject") != "", _owner()).otherwise(_owner_without_subject())
    )


def _is_version() -> Column:
    return sql.coalesce(sql.col("name") != "", sql.lit(False))


def _group(pattern: str) -> Column:
    """Return what one of two groups of a pattern matches in the key; an empty text if it does not match."""
    return sql.concat(*(sql.regexp_extract("text", pattern, group) for group in (1, 2)))


def _owner() -> Column:
    """Return the packed owner that the column ``subject`` names; null if a row key would cut a part of it."""
    subject = sql.col("subject")
    qualified, rest = subject.startswith(":."), sql.substring(subject, 2, _KEY_MAX)
    colon = sql.instr(rest, ":")
    context = sql.when(qualified, sql.substring_index(rest, ":", 1)).otherwise(".")
    within = sql.when(colon == 0, "").otherwise(sql.substring(rest, colon + 1, _KEY_MAX))
    return _packed(context, sql.when(qualified, within).otherwise(subject))


def _owner_without_subject() -> Column:
    """Return the packed owner of a key that names no subject; null if Python has to find it."""
    text, context = sql.col("text"), _group(_OF_CONTEXT)
    found = sql.when(text.isin(_OF_TOP), _binary(b".\0\0"))
    found = found.when(text.isin(_OF_CLUSTER) | text.rlike(_WEBHOOK), _binary(b""))
    return found.when(context != "", _packed(context, sql.lit("")))


def _packed(context: Column, name: Column) -> Column:
    fits = (sql.octet_length(context) <= PART_MAX) & (sql.octet_length(name) <= PART_MAX)
    zero = _binary(b"\0")
    return sql.when(fits, sql.concat(sql.encode(context, "UTF-8"), zero, sql.encode(name, "UTF-8"), zero))


def _binary(raw: bytes) -> Column:
    return sql.unhex(sql.lit(raw.hex()))


def ordered(records: DataFrame, partitions: int) -> DataFrame:
    """Return the records in so many partitions, by owner, version and offset; see :mod:`.tasks.folding`."""
    # Sorting by hashes is quick; owners' names, most of which begin alike, would be compared byte by byte.
    placed = records.withColumn("place", sql.xxhash64("owner")).repartition(partitions, "place")
    return placed.sortWithinPartitions("place", "owner", "version", "offset").drop("place")


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
