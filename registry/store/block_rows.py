"""Meta rows that hold the blocks of a store's versions, and what they count.

Each block is :data:`PREFIX` and the key at which the block begins, then its counts, or nothing while it is
not counted; it ends where the next one begins. :data:`.layout.META_COUNTED` holds the offset that the counts
stand for.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import lmdb

from registry.domain.rows.layout import VERSION, after, is_version_key
from registry.domain.rows.view import Block, Counts

from .layout import META_COUNTED, META_STATE

PREFIX = b"#"
END = after(VERSION)
BLOCK = 1024  # rows in a block at first; it is split above twice as many, and merged below half
UNCOUNTED = b""

COUNTS = struct.Struct(">5I")

Touched = tuple[bytes, bytes | None, bytes | None]  # a version row's key, its value before and after a commit


class Range(NamedTuple):
    """A block, counted or not."""

    begin: bytes
    end: bytes
    counts: Counts | None

    @property
    def part(self) -> bool:
        """True if the rows are a part of one group."""
        return is_version_key(self.begin) or is_version_key(self.end)


def range_at(cursor: lmdb.Cursor[bytes], key: bytes) -> Range | None:
    """Return the block that holds the key; ``cursor`` is one over the meta rows."""
    wanted = PREFIX + key
    found = cursor.set_range(wanted)
    if not (found and cursor.key() == wanted) and not (cursor.prev() if found else cursor.last()):
        return None
    begin, raw = cursor.item()
    if not begin.startswith(PREFIX):
        return None
    following = cursor.next() and cursor.key().startswith(PREFIX)
    counts = Counts(*COUNTS.unpack(raw)) if raw else None
    return Range(begin[1:], cursor.key()[1:] if following else END, counts)


def block_at(cursor: lmdb.Cursor[bytes], key: bytes) -> Block | None:
    """Return the block that holds the key, if it is counted."""
    found = range_at(cursor, key)
    return None if found is None or found.counts is None else Block(found.begin, found.end, found.counts)


def are_valid(txn: lmdb.Transaction[bytes], meta: Any) -> bool:
    """Return true unless the store has no counts, or a release without counts has changed the rows since."""
    applied = (txn.get(META_STATE, db=meta) or b"")[:8]
    return applied != b"" and txn.get(META_COUNTED, db=meta) == applied
