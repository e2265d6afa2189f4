"""Counting of the messages of topics and files by the schemas that they name.

Java reads and counts by generated code; no message reaches Python. Messages are grouped by the bytes that
name a schema, which are read as numbers only afterwards, of a few groups.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from registry.base.config.settings import Settings
from snapshots.building.task import BuildFailed, EngineFailed, Progress
from snapshots.census.plan import (
    GUID,
    HEADER_GUID,
    HEADER_ID,
    ID,
    KEY,
    NONE,
    NULL,
    SAMPLES_MAX,
    VALUE,
    Range,
    Use,
)

from .engine import report_progress
from .failures import reason
from .reading import FETCH, POLL_MS, kafka_options
from .session import open_session

COUNTING = "counting messages"
# A source whose messages name more schemas on one side is not in the wire format. A registry keeps up to
# 20,000 uses of a source.
REFERENCES_MAX = 9_900
OFFSETS_IN_TASK = 2_000_000
_TASKS_MAX = 100_000
_ID_BYTES, _GUID_BYTES = 5, 17
# The first byte of a group's reference. 0 and 1 begin an id and a GUID, as in messages.
_IN_ID, _IN_GUID, _IN_HEADER, _IN_NOTHING, _IN_NULL = 0, 1, 2, 3, 4
# What :func:`name_of` returns for a message that names no schema, and for none at all.
NO_NAME, NO_MESSAGE = bytes([_IN_NOTHING]), bytes([_IN_NULL])
_HEADERS = {KEY: "__key_schema_id", VALUE: "__value_schema_id"}
_COUNTS: dict[str, Callable[[str], Column]] = {
    **dict.fromkeys(("messages", "bytes"), sql.sum),
    **dict.fromkeys(("first_offset", "first_ms"), sql.min),
    **dict.fromkeys(("last_offset", "last_ms"), sql.max),
}
_PLACES = ("first_offset", "last_offset", "first_ms", "last_ms")


# What was counted, and why some sources were not.
Counted = tuple[list[Use], dict[str, str]]


@contextmanager
def open_counter(
    settings: Settings, progress: Progress, formats: Collection[str] = ()
) -> Iterator[SparkCounter]:
    """Start Spark for a ``with`` block, unless it runs already. ``formats``: those of files to count.

    Raises :class:`snapshots.building.task.BuildFailed`.
    """
    with open_session(settings, records_in_java=True, formats=formats) as session:
        yield SparkCounter(session, settings, progress)


class SparkCounter:
    """Counts in one session; see :class:`snapshots.census.run.Counter`.

    Methods raise :class:`snapshots.building.task.EngineFailed` if a source cannot be read, and
    :class:`snapshots.building.task.BuildFailed` if Spark has ended.
    """

    def __init__(self, session: SparkSession, settings: Settings, progress: Progress) -> None:
        self._session, self._settings, self._progress = session, settings, progress

    def count_topics(self, ranges: Sequence[Range]) -> Counted:
        """Return what the messages of some ranges name."""
        with translate_errors():
            uses = _uses_of_messages(read_ranges(self._session, self._settings, ranges))
            return self._collect(uses)

    def count_files(self, format: str, path: str, column: str) -> Counted:
        """Return what the values in a column of files name; ``format``: a data source of Spark."""
        with translate_errors():
            values = self._session.read.format(format).load(path).select(sql.col(column).alias("value"))
            if values.dtypes != [("value", "binary")]:
                raise EngineFailed(f"the column {column} has the type {values.dtypes[0][1]}, not binary")
            return self._collect(_uses_of_values(values, f"{path}#{column}"))

    def _collect(self, uses: DataFrame) -> Counted:
        """Return the rows of a frame, summed over the sides, but of sources with too many of them none."""
        summed = uses.groupBy("source", "partition", "side", "ref", "bucket").agg(
            *(function(name).alias(name) for name, function in _COUNTS.items())
        )
        # A bound for what the driver gets: random bytes can look like any number of ids.
        place = sql.dense_rank().over(Window.partitionBy("source", "side").orderBy("ref"))
        few = summed.withColumn("place", place).where(sql.col("place") <= REFERENCES_MAX + 1)
        with report_progress(self._session.sparkContext, COUNTING, "census", self._progress):
            rows = few.toArrow().to_pylist()
        problems = {
            row["source"]: f"its {row['side']}s name more than {REFERENCES_MAX} schemas, so they are "
            "probably not in the wire format"
            for row in rows
            if row["place"] > REFERENCES_MAX
        }
        return [_use(row) for row in rows if row["source"] not in problems], problems


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise Spark's errors as those of :class:`SparkCounter`."""
    try:
        yield
    except Py4JNetworkError as error:
        raise BuildFailed(f"Spark has ended: {error}") from error
    except (PySparkException, Py4JError) as error:
        raise EngineFailed(reason(str(error))) from error
    except (ConnectionError, EOFError) as error:
        raise BuildFailed(f"Spark has ended: {error}") from error


def _uses_of_messages(messages: DataFrame) -> DataFrame:
    """Return both sides of messages, with the bytes that name their schemas, summed over most of them."""
    messages = messages.select(
        *("topic", "partition", "offset", "timestamp"),
        *(
            column
            for side in (KEY, VALUE)
            for column in (
                reference_of(sql.col(side), header_of(side)).alias(f"{side}_ref"),
                sql.length(side).cast("long").alias(f"{side}_bytes"),
            )
        ),
    )
    # Of messages without a schema, samples are wanted: the newest of each of some groups.
    unnamed = (sql.col("key_ref") == _literal(_IN_NOTHING)) | (sql.col("value_ref") == _literal(_IN_NOTHING))
    bucket = sql.when(unnamed, sql.col("offset") % SAMPLES_MAX).otherwise(sql.lit(0)).alias("bucket")
    both = messages.groupBy("topic", "partition", "key_ref", "value_ref", bucket).agg(
        sql.count("*").alias("messages"),
        *(sql.sum(f"{side}_bytes").alias(f"{side}_bytes") for side in (KEY, VALUE)),
        sql.min("offset").alias("first_offset"),
        sql.max("offset").alias("last_offset"),
        sql.min("timestamp").alias("first"),
        sql.max("timestamp").alias("last"),
    )
    sides = [
        sql.struct(
            sql.lit(side).alias("side"),
            sql.col(f"{side}_ref").alias("ref"),
            sql.col(f"{side}_bytes").alias("bytes"),
        )
        for side in (KEY, VALUE)
    ]
    return both.select(
        sql.col("topic").alias("source"),
        "partition",
        "bucket",
        "messages",
        *_PLACES[:2],
        *(sql.unix_millis(moment).alias(f"{moment}_ms") for moment in ("first", "last")),
        sql.inline(sql.array(*sides)),
    )


def _uses_of_values(values: DataFrame, source: str) -> DataFrame:
    """Return the values of files like a side of messages that have no offsets and times."""
    return values.select(
        sql.lit(source).alias("source"),
        sql.lit(0).alias("partition"),
        sql.lit(VALUE).alias("side"),
        reference_of(sql.col("value"), None).alias("ref"),
        sql.lit(0).alias("bucket"),
        sql.lit(1).alias("messages"),
        sql.length("value").cast("long").alias("bytes"),
        *(sql.lit(None).cast("long").alias(name) for name in _PLACES),
    )


def read_ranges(session: SparkSession, settings: Settings, ranges: Sequence[Range]) -> DataFrame:
    """Return the committed messages of some ranges."""
    assigned, starts, ends = dict[str, list[int]](), dict[str, dict[str, int]](), dict[str, dict[str, int]]()
    for each in ranges:
        assigned.setdefault(each.source, []).append(each.partition)
        starts.setdefault(each.source, {})[str(each.partition)] = each.start
        ends.setdefault(each.source, {})[str(each.partition)] = each.end
    offsets = sum(each.end - each.start for each in ranges)
    tasks = max(session.sparkContext.defaultParallelism, min(_TASKS_MAX, offsets // OFFSETS_IN_TASK))
    return (
        session.read.format("kafka")
        .options(
            **kafka_options(settings),
            **{
                "kafka.bootstrap.servers": settings.kafka,
                "kafka.isolation.level": "read_committed",
                "assign": json.dumps(assigned),
                "startingOffsets": json.dumps(starts),
                "endingOffsets": json.dumps(ends),
                "includeHeaders": "true",
                "minPartitions": str(tasks),
                # Retention may remove messages while they are read: the partitions are described once more
                # afterwards.
                "failOnDataLoss": "false",
                "kafkaConsumer.pollTimeoutMs": str(POLL_MS),
                **FETCH,
            },
        )
        .load()
    )


def header_of(side: str) -> Column:
    """Return the value of the last header that names the schema of a side; null if there is none."""
    headers = sql.col("headers")
    from_end = sql.array_position(sql.reverse(headers["key"]), _HEADERS[side])
    return sql.get(headers["value"], (sql.size(headers) - from_end).cast("int"))


def reference_of(data: Column, header: Column | None) -> Column:
    """Return the bytes that name a schema, or a byte that says why there are none."""
    found = sql.when(data.isNull(), _literal(_IN_NULL))
    if header is not None:
        named = _name_at_begin(header, lambda name: sql.concat(_literal(_IN_HEADER), name))
        found = found.when(header.isNotNull(), named)
    return found.otherwise(_name_at_begin(data, lambda name: name))


def name_of(data: Column, header: Column) -> Column:
    """Return the bytes that name a schema, wherever they are; :data:`NO_NAME` or :data:`NO_MESSAGE`."""
    reference = reference_of(data, header)
    in_header = sql.substring(reference, 1, 1) == _literal(_IN_HEADER)
    return sql.when(in_header, sql.substring(reference, 2, _GUID_BYTES)).otherwise(reference)


def _name_at_begin(data: Column, make: Callable[[Column], Column]) -> Column:
    """Return what ``make`` makes of the id or GUID at the beginning of some bytes, as those bytes."""
    length = sql.length(data)

    def begins(byte: int, size: int) -> Column:
        return (sql.substring(data, 1, 1) == _literal(byte)) & (length >= size)

    return (
        sql.when(begins(_IN_ID, _ID_BYTES), make(sql.substring(data, 1, _ID_BYTES)))
        .when(begins(_IN_GUID, _GUID_BYTES), make(sql.substring(data, 1, _GUID_BYTES)))
        .otherwise(_literal(_IN_NOTHING))
    )


def _literal(byte: int) -> Column:
    return sql.lit(bytes([byte]))


def _use(row: Mapping[str, Any]) -> Use:
    reference = read_reference(bytes(row["ref"]))
    sampled = reference[0] == NONE and row["last_offset"] is not None
    samples = (row["last_offset"],) if sampled else ()
    return Use(
        *(row["source"], row["partition"], row["side"]),
        *reference,
        *(row["messages"], row["bytes"] or 0),
        *(row[name] for name in _PLACES),
    )._replace(samples=samples)


def read_reference(raw: bytes) -> tuple[str, int | None, str | None]:
    """Return the framing of a group, with its id or GUID. Ids are signed, as Java reads them."""
    kind, header = raw[0], raw[0] == _IN_HEADER
    if kind in (_IN_NOTHING, _IN_NULL):
        return NONE if kind == _IN_NOTHING else NULL, None, None
    name = raw[1:] if header else raw
    if name[0] == _IN_ID:
        return HEADER_ID if header else ID, int.from_bytes(name[1:], signed=True), None
    return HEADER_GUID if header else GUID, None, str(uuid.UUID(bytes=name[1:]))
