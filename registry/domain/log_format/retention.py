"""Limits on how long rows may be away from the log's end before the log may have forgotten a deletion.

A log keeps the record of a deletion only for a time. Rows that were last at the log's end before that may
hold what such a record deleted, and would hold it forever, so they are rebuilt. This applies to a store that
was offline, to a snapshot that is loaded, and to the base of a newer snapshot.
"""

from __future__ import annotations


def too_long(at_end_ms: int, now_ms: int, retention_ms: int | None, margin_ms: int) -> str:
    """Return why rows last at the log's end at ``at_end_ms`` cannot be continued; empty if they can.

    Times are ms since the epoch, perhaps from the clocks of two hosts; ``margin_ms`` is how much these may
    differ.
    ``retention_ms``: how long the log keeps deletions at least; ``None``: forever, as far as these rows go. A
    time in the future means that a clock was set back, so the real age is unknown.
    """
    if retention_ms is None:
        return ""
    away_ms = now_ms - at_end_ms
    if away_ms < -margin_ms:
        return "it was last at the log's end at a time that is yet to come, so the clock was set back"
    if away_ms <= max(0, retention_ms - margin_ms):
        return ""
    away_s, kept_s = away_ms // 1000, retention_ms // 1000
    return f"it was last at the log's end {away_s} s ago, and the log keeps deletions for {kept_s} s"
