"""Snapshots made in tests, from given records."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from registry.base.config.settings import Settings
from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format import records, values
from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Entry, Record
from registry.domain.model import Subject
from registry.log.contract import Fetched
from registry.log.embedded.log import now_ms
from registry.log.embedded.reader import divergence
from snapshots.building import local
from snapshots.building.sources import LogSource
from snapshots.building.task import Task, silent
from snapshots.format.deltas import rows_between
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, new_id
from snapshots.format.parts import Row, read_batches, rows_of
from snapshots.format.stored import read_part
from snapshots.format.writer import ManifestHeader, publish, write_run

DAY_MS = 86_400_000
MAP = 256 << 20
LOG = "the-log"
_chance = itertools.count()


class KnownLog:
    """A log with known records; it ends at ``end``, by default after the last one."""

    identity = LOG

    def __init__(self, records: Sequence[Record], end: int | None = None) -> None:
        self.records = records
        self._end = end if end is not None else (records[-1].offset + 1 if records else 0)

    def query_end(self, timeout_s: float) -> int:
        return self._end

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        at = bisect_left(self.records, offset, key=lambda record: record.offset)
        found = list(self.records[at : at + records_max])
        return Fetched(found, found[-1].offset + 1 if found else max(offset, self._end))

    def divergence(self, lineage: Lineage) -> int | None:
        return divergence(self, lineage)

    def wait(self, offset: int, timeout_s: float) -> bool:
        return offset < self._end

    def close(self) -> None:
        pass


def source(log: Any, *, lag_ms: int = 2 * DAY_MS, retention_ms: int = 7 * DAY_MS) -> LogSource:
    return LogSource(log, lag_ms, retention_ms, 1000)


def task(
    data: Path, source: LogSource, end: int, base: Manifest | None = None, location: Location | None = None
) -> Task:
    now = now_ms()
    return Task(
        id=new_id(end, now, next(_chance)),
        settings=Settings(data=data, store_map_bytes=MAP),
        source=source,
        end=end,
        base=base,
        location=location or Location.parse(data / "snapshots"),
        at_end_ms=now,
        began_ms=now,
    )


def build(
    data: Path,
    records: Sequence[Record],
    end: int | None = None,
    base: Manifest | None = None,
    log_end: int | None = None,
) -> Manifest:
    """Build a snapshot of these records by the local engine, in ``<data>/snapshots``."""
    log = KnownLog(records, log_end)
    return local.build(task(data, source(log), log.query_end(1) if end is None else end, base), silent)


def about(offset: int = 7, **other: Any) -> ManifestHeader:
    now = now_ms()
    known = ManifestHeader(
        new_id(offset, now, next(_chance)), FOLD_VERSION, LOG, offset, offset, now, now, "local"
    )
    return known._replace(**other)


def sealed(location: Location, rows: Iterable[Row], offset: int = 7) -> Manifest:
    """Write a snapshot with these rows."""
    header = about(offset)
    return publish(location, header, write_run(location, header.id, [sorted(rows)]))


def rows_in(location: Location, manifest: Manifest) -> list[Row]:
    """Return all rows of a snapshot, in their stored order."""
    return [row for rows in rows_between(manifest, partial(read_part, location)) for row in rows]


def files_of(location: Location, manifest: Manifest) -> dict[str, bytes]:
    """Return the content of a snapshot's parts by their names."""
    return {part.name: location.read(f"{manifest.id}/{part.name}") for part in manifest.parts}


def version(name: str, number: int, schema_id: int, text: str = '"int"', context: str = ".") -> Entry:
    """Return a version's record."""
    subject = Subject(context, name)
    return Entry(records.schema_key(subject, number), values.schema_value(subject, number, schema_id, text))


def log_of(entries: Iterable[Entry]) -> list[Record]:
    """Return a log without holes."""
    return [Record(offset, 1000 + offset, *entry) for offset, entry in enumerate(entries)]


def read_rows(data: bytes) -> Iterator[list[Row]]:
    """Yield the rows of a part whose file has the content ``data``, in batches."""
    return (list(rows_of(batch)) for batch in read_batches(data))
