"""Events as server-sent events (the WHATWG's HTML standard, 9.2)."""

from __future__ import annotations

from .ring import Entry


def printed(entry: Entry) -> bytes:
    """Return an event: its offset is the id from which clients resume, its kind the type."""
    event = entry.event
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.offset, event.kind.encode(), entry.data)


def beginning(position: int, retry_ms: int) -> bytes:
    """Return the first lines of a stream: the position, and how soon to connect again after it has ended."""
    return b"retry: %d\n%b" % (retry_ms, heartbeat(position))


def heartbeat(position: int) -> bytes:
    """Return a comment and an id without an event: clients resume from there, and notice nothing else."""
    return b": %d\nid: %d\n\n" % (position - 1, position - 1)
