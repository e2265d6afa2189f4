"""When the next snapshot is to be asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from registry.config.schedule import Schedule
from snapshots.catalogue.catalogue import Entry, newest_first


def why_due(rhythm: Schedule, entries: Iterable[Entry], log: str, end: int, now_ms: int) -> str:
    """Why a snapshot of the log of this identity is due, in words; empty when none is.

    ``end``: the log's. What counts is the newest one that was asked for, whatever became of it: one that
    cannot be built is not asked for more often. None is due while one waits or is built, so that after a time
    without any a single one catches up.
    """
    ours = newest_first(each for each in entries if each.log == log and each.state != "deleting")
    if end <= 0 or any(each.is_free(now_ms) or each.state == "building" for each in ours):
        return ""
    records = end - (ours[0].offset if ours else 0)
    if rhythm.records and records >= rhythm.records:
        return f"{records} records since the last one"
    if rhythm.seconds and not ours:
        return "there is none yet"
    if rhythm.seconds:
        seconds = (now_ms - max(each.requested_ms for each in ours)) // 1000
        return f"{seconds} s since the last one" if seconds >= rhythm.seconds else ""
    return ""
