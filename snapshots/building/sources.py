"""The log as a builder of snapshots sees it: to be read, and how long it keeps what was replaced."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from registry.config.settings import Settings
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import Record
from registry.log.contract import Fetched, LogError, Unreachable
from registry.log.embedded.reader import EmbeddedLogReader

ASK_S = 30.0
"""Time for the log to say where it ends."""
_BACK = (1, 1_000, 1_000_000)
_REMEMBERED = 64


class ReadableLog(Protocol):
    """What a builder needs of a log; see :class:`registry.log.contract.Log`."""

    @property
    def identity(self) -> str:
        """Names this very log."""
        ...

    def query_end(self, timeout_s: float) -> int:
        """The offset that the next record will get, as of some moment after the call."""
        ...

    def divergence(self, lineage: Lineage) -> int | None:
        """The offset at or before which this log ceases to be the one of ``lineage``."""
        ...

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """What is at hand from ``offset`` on."""
        ...

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Whether a read from ``offset`` would get on."""
        ...

    def close(self) -> None:
        """Release the log."""
        ...


class Source(NamedTuple):
    """An open log and its promises."""

    log: ReadableLog
    lag_ms: int
    """A record stays for at least as long after the next one of its key was appended."""
    retention_ms: int
    """The record of a deletion stays for at least as long."""
    margin_ms: int
    """By how much clocks may differ."""

    def end(self) -> int:
        """Where the log ends now."""
        return self.log.query_end(ASK_S)


def open_source(settings: Settings) -> Source:
    """The log that the settings name, whether or not a node runs.

    Raises :class:`registry.log.contract.LogError`, also for a topic that does not exist.
    """
    margin_ms = round(settings.end_age_margin_s * 1000)
    if not settings.kafka:
        return Source(
            EmbeddedLogReader(settings.data / "log"),
            round(settings.min_compaction_lag_s * 1000),
            round(settings.tombstone_retention_s * 1000),
            margin_ms,
        )
    from registry.log.kafka.open_topic import open_topic_for_command  # noqa: PLC0415 - its client is not for a log alone

    log = open_topic_for_command(settings, make=False)
    if log is None:
        raise LogError(f"the topic {settings.topic} does not exist at {settings.kafka}")
    return Source(log, log.compaction_lag_ms, log.tombstone_retention_ms, margin_ms)


def time_before(log: ReadableLog, offset: int) -> int:
    """A time, ms since the epoch, before which nothing from ``offset`` on was appended; 0 when not known.

    It is that of the last record before: all later ones stand behind it. Raises as :func:`records_between`.
    """
    for back in _BACK:
        start = max(0, offset - back)
        ts = _last_time(log, start, offset)
        if ts is not None or start == 0:
            return ts or 0
    return 0


def lineage_at(log: ReadableLog, offset: int) -> Lineage:
    """What there is to remember of the log up to ``offset``. Raises as :func:`records_between`.

    One record is read at a time, so that the leader epoch is that of the last batch before ``offset``.
    """
    start = max(0, offset - _REMEMBERED)
    lineage = NOTHING
    while start < offset:
        if not log.wait(start, ASK_S):
            raise Unreachable(f"nothing could be read from offset {start} on within {ASK_S:g} s")
        fetched = log.read(start, 1, 1 << 20)
        records = [record for record in fetched.records if record.offset < offset]
        known = fetched.epoch_end <= offset
        lineage = lineage.extended(records, fetched.epoch if known else -1, fetched.epoch_end)
        start = fetched.next
    return lineage


def _last_time(log: ReadableLog, start: int, end: int) -> int | None:
    last = deque(records_between(log, start, end), maxlen=1)
    return last[0].ts if last else None


def records_between(log: ReadableLog, start: int, end: int) -> Iterator[Record]:
    """What the log still has from ``start`` up to ``end``, where it is known to go on.

    Raises :class:`registry.log.contract.LogError`, also where nothing comes in time.
    """
    while start < end:
        if not log.wait(start, ASK_S):
            raise Unreachable(f"nothing could be read from offset {start} on within {ASK_S:g} s")
        fetched = log.read(start, 1_000, 1 << 20)
        yield from (record for record in fetched.records if record.offset < end)
        start = fetched.next
