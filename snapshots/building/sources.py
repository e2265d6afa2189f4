"""The log as seen by a builder of snapshots: its records, and how long it keeps replaced ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, Protocol

from registry.base.config.settings import Settings
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import Record
from registry.log.contract import Fetched, LogError, Unreachable
from registry.log.embedded.reader import EmbeddedLogReader

# Time limit for finding the log's end, and for a read.
ASK_S = 30.0
# How many records before an offset are searched for a time, in turn.
_BACK = (1, 1_000, 1_000_000)
# Places at which a log is read to estimate its size, and what is read at each.
_LOOKS, _LOOK_RECORDS, _LOOK_BYTES = 16, 500, 256 << 10
# What is read at once.
_BATCH_RECORDS, _BATCH_BYTES = 4_000, 2 << 20
# Records before an offset from which its lineage is made.
_LINEAGE_RECORDS = 64


class ReadableLog(Protocol):
    """The part of :class:`registry.log.contract.Log` that a builder needs."""

    @property
    def identity(self) -> str:
        """Identity of the log."""
        ...

    def query_end(self, timeout_s: float) -> int:
        """Return the offset of the next record, as of some moment after the call."""
        ...

    def divergence(self, lineage: Lineage) -> int | None:
        """Return the offset at or before which this log departs from ``lineage``."""
        ...

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return the available records from ``offset`` on."""
        ...

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until a read from ``offset`` would advance; return whether it would."""
        ...

    def close(self) -> None:
        """Release the log."""
        ...


class LogSize(NamedTuple):
    """About how many records a stretch of the log has, and their bytes."""

    records: int
    bytes: int
    # The offset of the first one.
    start: int = 0


class LogSource(NamedTuple):
    """An open log and its guarantees."""

    log: ReadableLog
    # How long a record stays at least after the next one of its key was appended.
    lag_ms: int
    # How long the record of a deletion stays at least.
    retention_ms: int
    # The most by which clocks may differ.
    margin_ms: int

    def end(self) -> int:
        """Return the log's current end."""
        return self.log.query_end(ASK_S)


def open_source(settings: Settings) -> LogSource:
    """Open the configured log, whether or not a node is running.

    Raises :class:`registry.log.contract.LogError`, also for a topic that does not exist.
    """
    margin_ms = round(settings.end_age_margin_s * 1000)
    if not settings.kafka:
        return LogSource(
            EmbeddedLogReader(settings.data / "log"),
            round(settings.min_compaction_lag_s * 1000),
            round(settings.tombstone_retention_s * 1000),
            margin_ms,
        )
    from registry.log.kafka.open_topic import open_topic_for_command  # noqa: PLC0415 - an embedded log needs no client

    log = open_topic_for_command(settings, make=False)
    if log is None:
        raise LogError(f"the topic {settings.topic} does not exist at {settings.kafka}")
    return LogSource(log, log.compaction_lag_ms, log.tombstone_retention_ms, margin_ms)


def time_before(log: ReadableLog, offset: int) -> int:
    """Return a time before which nothing from ``offset`` on was appended, ms since the epoch; 0 if unknown.

    It is that of the last record before ``offset``. Raises as :func:`records_between`.
    """
    for back in _BACK:
        start = max(0, offset - back)
        ts = _last_time(log, start, offset)
        if ts is not None or start == 0:
            return ts or 0
    return 0


def lineage_at(log: ReadableLog, offset: int) -> Lineage:
    """Return the lineage of the log up to ``offset``. Raises as :func:`records_between`."""
    # One record is read at a time, so that the leader epoch is that of the last batch before ``offset``.
    start = max(0, offset - _LINEAGE_RECORDS)
    lineage = NOTHING
    while start < offset:
        if not log.wait(start, ASK_S):
            raise Unreachable(f"nothing could be read from offset {start} on within {ASK_S:g} s")
        fetched = log.read(start, 1, 1 << 20)
        records = [record for record in fetched.records if record.offset < offset]
        known = fetched.epoch_end <= offset
        lineage = lineage.with_records(records, fetched.epoch if known else -1, fetched.epoch_end)
        start = fetched.next
    return lineage


def estimate_size(log: ReadableLog, start: int, end: int) -> LogSize:
    """Return about how much the log still has from ``start`` up to ``end``, after a few small reads.

    Compaction leaves few records of many offsets. Raises :class:`registry.log.contract.LogError`.
    """
    start = _first_offset(log, start, end)
    share, records, size = (end - start) / _LOOKS, 0.0, 0.0
    for look in range(_LOOKS):
        at = start + round(share * look)
        if at >= end or not log.wait(at, ASK_S):
            continue
        fetched = log.read(at, _LOOK_RECORDS, _LOOK_BYTES)
        found = [record for record in fetched.records if record.offset < end]
        stretch = min(fetched.next, end) - at
        if stretch > 0:
            records += len(found) * share / stretch
            size += (
                sum(len(record.key or b"") + len(record.value or b"") for record in found) * share / stretch
            )
    return LogSize(round(records), round(size), start)


def _first_offset(log: ReadableLog, start: int, end: int) -> int:
    """Return the offset of the first record from ``start`` up to ``end``; ``end`` if there is none.

    Where a log's beginning is gone, only a read from 0 finds what is left. Raises as :func:`records_between`.
    """
    return next((record.offset for batch in batches_between(log, start, end) for record in batch), end)


def _last_time(log: ReadableLog, start: int, end: int) -> int | None:
    last = deque(records_between(log, start, end), maxlen=1)
    return last[0].ts if last else None


def records_between(log: ReadableLog, start: int, end: int) -> Iterator[Record]:
    """Yield the records that the log still has from ``start`` up to ``end``, which must not be past its end.

    Raises :class:`registry.log.contract.LogError`, also if a read times out.
    """
    return chain.from_iterable(batches_between(log, start, end))


def batches_between(log: ReadableLog, start: int, end: int) -> Iterator[list[Record]]:
    """Yield the same records in batches, which may be empty."""
    while start < end:
        if not log.wait(start, ASK_S):
            raise Unreachable(f"nothing could be read from offset {start} on within {ASK_S:g} s")
        fetched = log.read(start, _BATCH_RECORDS, _BATCH_BYTES)
        within = fetched.next <= end
        yield fetched.records if within else [record for record in fetched.records if record.offset < end]
        start = fetched.next
