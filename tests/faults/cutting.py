"""Cutting the tail off a partition of a stopped broker, as a disk does that lost its last writes."""

from __future__ import annotations

from pathlib import Path

from .segments import sizes


def cut(broker: Path, topic: str, records: int) -> int:
    """Cut at least this many offsets off the only partition; return the offset at which its log then ends."""
    folder = broker / "data" / f"{topic}-0"
    segment = max(folder.glob("*.log"))
    raw = segment.read_bytes()
    batches = list(sizes(raw))
    end = batches[-1].next
    kept = [batch for batch in batches if batch.next <= end - records]
    assert kept, "so many offsets are not in the last segment"
    segment.write_bytes(raw[: kept[-1].ends_at])
    for pattern in (f"{segment.stem}.*index", "*.snapshot"):
        for left in folder.glob(pattern):
            left.unlink()
    # Without the mark of a clean shutdown, the broker examines its files when it starts.
    (broker / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return kept[-1].next
