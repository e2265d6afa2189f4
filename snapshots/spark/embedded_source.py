"""The embedded log as a Python data source of Spark, read by several tasks.

The log is on one host, so Spark has to run there (``local``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from registry.domain.log_format.records import Record
from registry.log.embedded.reader import EmbeddedLogReader

_RECORDS = 4_000
_BYTES = 4 << 20


class Offsets(InputPartition):
    """The offsets from ``start`` up to ``end``."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))
        self.start, self.end = start, end


class EmbeddedLogSource(DataSource):
    """Options: ``path``, the log's folder; ``start`` and ``end`` (exclusive), offsets; ``tasks``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format in Spark."""
        return "registrar_log"

    def schema(self) -> str:
        """Return the columns."""
        return "key binary, offset bigint, ts bigint, value binary"

    def reader(self, schema: object) -> DataSourceReader:
        """Return a reader of the log."""
        start, end, tasks = (int(self.options[name]) for name in ("start", "end", "tasks"))
        return EmbeddedReader(self.options["path"], start, end, tasks)


class EmbeddedReader(DataSourceReader):
    """Reads the records of a range of offsets."""

    def __init__(self, path: str, start: int, end: int, tasks: int) -> None:
        self._path, self._start, self._end, self._tasks = path, start, end, tasks

    def partitions(self) -> list[Offsets]:
        """Return about equally many offsets for each task."""
        length = self._end - self._start
        edges = [self._start + length * task // self._tasks for task in range(self._tasks + 1)]
        return [Offsets(start, end) for start, end in itertools.pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        assert isinstance(partition, Offsets)
        with closing(EmbeddedLogReader(Path(self._path))) as log:
            at = partition.start
            while at < partition.end:
                fetched = log.read(at, _RECORDS, _BYTES)
                yield _batch([record for record in fetched.records if record.offset < partition.end])
                if fetched.next == at:
                    return
                at = fetched.next


def _batch(records: list[Record]) -> pa.RecordBatch:
    columns = {
        "key": pa.array([each.key for each in records], pa.binary()),
        "offset": pa.array([each.offset for each in records], pa.int64()),
        "ts": pa.array([each.ts for each in records], pa.int64()),
        "value": pa.array([each.value for each in records], pa.binary()),
    }
    return pa.record_batch(columns)
