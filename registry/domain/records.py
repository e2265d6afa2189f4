"""Records of the log: their keys and values, byte for byte as Confluent's Schema Registry writes them."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """One entry of the log as it was read."""

    offset: int
    ts: int
    """Time of the append, ms since the epoch."""
    key: bytes | None
    value: bytes | None


class Entry(NamedTuple):
    """A key and value to append; a value of ``None`` is a tombstone."""

    key: bytes
    value: bytes | None
