"""Changes that rows of all tables have in common: deletes, and quarantine rows for bad records."""

from __future__ import annotations

import orjson

from registry.domain.log_format.records import Record
from registry.domain.rows.view import Change, View

# How much of a record's key a quarantine row shows, in bytes.
_KEY_SHOWN_MAX = 4096


def deletes(view: View, *keys: bytes) -> list[Change]:
    """Return deletes of those rows that exist."""
    return [(key, None) for key in keys if view.get(key) is not None]


def quarantined(record: Record, reason: str) -> bytes:
    """Return the quarantine row of a record."""
    key = None if record.key is None else record.key[:_KEY_SHOWN_MAX].decode(errors="backslashreplace")
    return orjson.dumps({"offset": record.offset, "ts": record.ts, "reason": reason, "key": key})
