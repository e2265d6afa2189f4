"""Reading of a topic's messages with another schema than those that they were written with.

Java counts which schemas messages name, and reads what it can: Avro, by Spark's own function. Python reads
only messages that Java could not read, which says why, and those of other formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from registrar.spark import formats
from registrar.spark.columns import begins_with, bounds_of, search_bounds
from registrar.spark.formats import FORMATS
from registry.base.config.settings import Settings
from registry.cli.decoding.message import WriterSchema, resolved_text
from registry.cli.decoding.rereading import Reader
from registry.domain.schemas import InvalidSchema
from snapshots.building.task import EngineFailed, Progress
from snapshots.census.plan import Range

from .census import NO_MESSAGE, REFERENCES_MAX, header_of, name_of, read_ranges, translate_errors
from .engine import report_progress
from .session import open_session
from .tasks.rereading import FAILURES, Failures, Rereading

COUNTING, READING = "counting writers", "reading messages"
# Java reads the messages of so many writers; more would make a plan that it does not compile.
_WRITERS_IN_JAVA: Final = 200
_GROUP: Final = "rereading"
# The fields of a record around each message: one of them has a default, so it is null only if the message
# cannot be read. A record with one field is written as that field.
_AROUND, _MESSAGE, _IS_READ = "RegistrarMessage_", "message", "is_read"
_PERMISSIVE: Final = {"mode": "PERMISSIVE"}


@contextmanager
def open_rereader(settings: Settings, progress: Progress) -> Iterator[SparkRereader]:
    """Start Spark for a ``with`` block, unless it runs already.

    Raises :class:`snapshots.building.task.BuildFailed`.
    """
    with open_session(settings, records_in_java=True, formats={"avro"}) as session:
        yield SparkRereader(session, settings, progress)


class SparkRereader:
    """Reads the messages of ranges. Methods raise the errors of :class:`.census.SparkCounter`."""

    def __init__(self, session: SparkSession, settings: Settings, progress: Progress) -> None:
        self._session, self._settings, self._progress = session, settings, progress

    def count_writers(self, ranges: Sequence[Sequence[Range]], side: str) -> dict[bytes, int]:
        """Return how many messages name which schema, by the bytes of :func:`.census.name_of`."""
        with translate_errors():
            found = self._messages(ranges, side).groupBy("ref").count().limit(REFERENCES_MAX + 1)
            with report_progress(self._session.sparkContext, COUNTING, _GROUP, self._progress):
                rows = found.toArrow().to_pylist()
        if len(rows) > REFERENCES_MAX:
            raise EngineFailed(
                f"its {side}s name more than {REFERENCES_MAX} schemas, so they are probably not in the wire "
                "format"
            )
        return {row["ref"]: row["count"] for row in rows}

    def failures(
        self,
        ranges: Sequence[Sequence[Range]],
        side: str,
        reader: Reader,
        writers: Mapping[bytes, WriterSchema | str],
    ) -> Failures:
        """Return the messages that cannot be read. ``writers``: by what :meth:`count_writers` returns."""
        with translate_errors():
            messages = self._messages(ranges, side).where(sql.col("ref") != sql.lit(NO_MESSAGE))
            columns = sql.col("ref"), sql.col("partition"), sql.col("offset"), sql.col("data")
            doubtful = self._without_readable(messages, reader, writers).select(*columns)
            found = doubtful.mapInArrow(Rereading(reader, writers).read, FAILURES)
            with report_progress(self._session.sparkContext, READING, _GROUP, self._progress):
                rows = found.toArrow().to_pylist()
        failures = Failures()
        for row in rows:
            places = [(each["partition"], each["offset"]) for each in row["places"]]
            failures.add(row["ref"], row["reason"], row["messages"], places)
        return failures

    def _messages(self, ranges: Sequence[Sequence[Range]], side: str) -> DataFrame:
        frames = [read_ranges(self._session, self._settings, each) for each in ranges]
        data, header = sql.col(side), header_of(side)
        body = sql.when(header.isNotNull(), sql.concat(_behind_name(header), data)).otherwise(
            _behind_name(data)
        )
        return reduce(DataFrame.unionAll, frames).select(
            "partition", "offset", name_of(data, header).alias("ref"), body.alias("data")
        )

    def _without_readable(
        self, messages: DataFrame, reader: Reader, writers: Mapping[bytes, WriterSchema | str]
    ) -> DataFrame:
        """Leave out what Java can read; all messages stay if it cannot use the reader's schema."""
        if not FORMATS[reader.schema.type].needs_writer:
            return messages
        try:
            read = _read_by_java(reader, writers)
            return messages.where(~read) if read is not None else messages
        except (PySparkException, Py4JJavaError, InvalidSchema):
            # A recursive schema, for which Spark has no type; or Spark's package for Avro is not there.
            return messages


def _behind_name(data: Column) -> Column:
    begin = sql.when(sql.substring(data, 1, 1) == sql.lit(b"\0"), 6).otherwise(18)
    return sql.substring(data, begin, sql.length(data))


def _read_by_java(reader: Reader, writers: Mapping[bytes, WriterSchema | str]) -> Column | None:
    """Return whether Java has read a message; ``None`` if it knows no writer."""
    own = reader.schema.type
    target = formats.Reader(formats.Schema(own, _wrap(resolved_text(reader.schema), reads=True)))
    texts: dict[str, list[bytes]] = {}
    for ref, writer in writers.items():
        if isinstance(writer, WriterSchema) and writer.type == own:
            texts.setdefault(_wrap(resolved_text(writer), reads=False), []).append(ref)
    chosen = list(texts)[:_WRITERS_IN_JAVA]
    if not chosen:
        return None
    ranges = {name: (at, "") for at, text in enumerate(chosen) for name in texts[text]}

    def read(key: tuple[int, str]) -> Column:
        found = FORMATS[own].decode(sql.col("data"), target, chosen[key[0]], _PERMISSIVE)
        return found[_IS_READ].isNotNull()

    named = sql.col("ref")
    found = search_bounds(named, bounds_of(ranges), read)
    return sql.when(begins_with(named, [*ranges]), found).otherwise(False)


def _wrap(text: str, *, reads: bool) -> str:
    fields = [{"name": _MESSAGE, "type": json.loads(text)}]
    if reads:
        fields.append({"name": _IS_READ, "type": "boolean", "default": True})
    return json.dumps({"type": "record", "name": _AROUND, "fields": fields})
