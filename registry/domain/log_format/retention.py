"""What a log that forgets deletions may have forgotten.

A log keeps the record of a deletion for a while only. Rows that were not at the log's end since may hold what
such a record deleted, and would hold it for ever: they are made anew instead of going on. That goes for a
store that was away, for a snapshot that is loaded, and for one that a newer snapshot would be built upon.
"""

from __future__ import annotations


def too_long(at_end_ms: int, now_ms: int, retention_ms: int | None, margin_ms: int) -> str:
    """Why rows that were last at the log's end at ``at_end_ms`` cannot go on; empty when they can.

    Times are ms since the epoch, perhaps by the clocks of two hosts: ``margin_ms`` covers by how much they
    differ. ``retention_ms``: how long the log keeps deletions at least; ``None``: for these rows, for ever.
    A time that is yet to come says that a clock was set back: how long ago it was is then not known.
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
