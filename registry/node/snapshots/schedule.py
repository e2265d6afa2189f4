"""The schedule's decision when to request the next snapshot. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from registry.base.config.setting_types import Schedule
from snapshots.catalogue.catalogue import Entry, newest_first


def why_due(schedule: Schedule, entries: Iterable[Entry], log: str, end: int, now_ms: int) -> str:
    """Return why a snapshot of the log with the identity ``log`` is due, in words; empty if none is.

    ``end`` is the log's end. Only the newest request counts, no matter if it succeeded, so a snapshot that
    cannot be built is not requested more often. None is due while one is waiting or being built, so a single
    snapshot catches up after a pause.
    """
    ours = newest_first(each for each in entries if each.log == log and each.state != "deleting")
    if end <= 0 or any(each.is_free(now_ms) or each.state == "building" for each in ours):
        return ""
    records = end - (ours[0].offset if ours else 0)
    if schedule.records and records >= schedule.records:
        return f"{records} records since the last one"
    if schedule.seconds and not ours:
        return "there is no snapshot yet"
    if schedule.seconds:
        seconds = (now_ms - max(each.requested_ms for each in ours)) // 1000
        return f"{seconds} s since the last one" if seconds >= schedule.seconds else ""
    return ""
