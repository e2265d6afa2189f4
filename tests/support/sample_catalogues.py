"""Entries and catalogues for tests."""

from __future__ import annotations

from typing import Any

from snapshots.catalogue.catalogue import Entry

NOW = 1_790_000_000_000
LOG = "a-log"


def entry(id: str = "20260921T131320Z-000000000007-00aa11", **given: Any) -> Entry:
    """Return an entry that was requested at ``NOW``."""
    fields: dict[str, Any] = {
        "id": id,
        "state": "requested",
        "log": LOG,
        "offset": 7,
        "uri": "/snapshots",
        "requested_ms": NOW,
        "updated_ms": NOW,
    }
    return Entry(**(fields | given))


def ready(offset: int, **given: Any) -> Entry:
    """Return the entry of a snapshot that is ready."""
    return entry(f"20260921T131320Z-{offset:012d}-00aa11", state="ready", offset=offset, **given)
