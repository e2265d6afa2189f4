"""Compaction of the embedded log: the equivalent of Kafka's log cleaner, in bounded steps.

Each record is examined once, when it is older than the lag: it supersedes the earlier record of its key,
which is deleted. So a record stays at least until a later one of its key is older than the lag, and the
order of records never changes. The log's last record always stays, so that the check at the start can
compare it with the end.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import lmdb

from . import layout
from .layout import State, Tables


class Bounds(NamedTuple):
    """The limits of one step. Times are in ms since the epoch."""

    # Only records with lower offsets are examined.
    offset: int
    # Records that are not newer supersede earlier ones of their keys.
    replaced_ts: int
    # Tombstones that are not newer are deleted.
    tombstone_ts: int
    # The maximum number of records to examine.
    limit: int


class Compaction:
    """Compacts the log's tables step by step, in the caller's write transactions."""

    def __init__(self, tables: Tables) -> None:
        self._records, self._keys, self._graves = tables.records, tables.keys, tables.graves
        self._principals = tables.principals

    def step(self, txn: lmdb.Transaction[bytes], state: State, bounds: Bounds) -> tuple[State, int]:
        """Return the new state, and how many records were examined or buried; 0 at the end."""
        cleaned, superseded = self._look(txn, state.cleaned, bounds)
        buried = self._bury(txn, bounds)
        done = cleaned - state.cleaned + buried
        return State(state.end, state.records - superseded - buried, cleaned), done

    def _look(self, txn: lmdb.Transaction[bytes], cleaned: int, bounds: Bounds) -> tuple[int, int]:
        """Examine the next records; return the new ``cleaned`` and the number of deleted records."""
        removed = 0
        for offset in range(cleaned, min(bounds.offset, cleaned + bounds.limit)):
            raw_offset = layout.pack_offset(offset)
            raw = txn.get(raw_offset, db=self._records)
            if raw is None:
                raise layout.BadRecord(offset)
            record = layout.unpack(raw_offset, raw)
            if record.ts > bounds.replaced_ts:
                break
            removed += self._supersede(txn, raw_offset, record.key or b"", record.value is None)
            cleaned = offset + 1
        return cleaned, removed

    def _supersede(self, txn: lmdb.Transaction[bytes], raw_offset: bytes, key: bytes, tombstone: bool) -> int:
        name = layout.key_hash(key)
        earlier = txn.replace(name, raw_offset, db=self._keys)
        if tombstone:
            txn.put(raw_offset, name, db=self._graves)
        if earlier is None:
            return 0
        txn.delete(earlier, db=self._graves)
        return self._delete(txn, earlier)

    def _bury(self, txn: lmdb.Transaction[bytes], bounds: Bounds) -> int:
        """Delete old tombstones; the table graves lists those without earlier records of their key."""
        removed = 0
        with txn.cursor(self._graves) as cursor:
            graves = list(islice(cursor, bounds.limit))
        for raw_offset, name in graves:
            raw = txn.get(raw_offset, db=self._records)
            if raw is None:
                raise layout.BadRecord(layout.unpack_offset(raw_offset))
            if layout.unpack(raw_offset, raw).ts > bounds.tombstone_ts:
                break
            txn.delete(raw_offset, db=self._graves)
            txn.delete(name, db=self._keys)
            removed += self._delete(txn, raw_offset)
        return removed

    def _delete(self, txn: lmdb.Transaction[bytes], raw_offset: bytes) -> int:
        txn.delete(raw_offset, db=self._principals)
        return int(txn.delete(raw_offset, db=self._records))
