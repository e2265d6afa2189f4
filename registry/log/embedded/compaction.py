"""Compaction of the embedded log: what Kafka's cleaner does to a compacted topic, in bounded steps.

A record is looked at once, when it is older than the lag: it replaces the earlier record of its key, which
goes. So a record stays at least until a later one of its key has the lag's age, and the order of records
never changes. The log's last record always stays, so that the check at the start can hold it against the end.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import lmdb

from . import format as layout
from .format import State


class Bounds(NamedTuple):
    """What one step may take."""

    offset: int
    """Only records below."""
    replaced_ts: int
    """Records appended until then, ms since the epoch, take the earlier ones of their keys away."""
    tombstone_ts: int
    """Tombstones appended until then go themselves."""
    limit: int
    """Records to look at."""


class Compaction:
    """One step at a time over the log's tables, inside the caller's write transaction."""

    def __init__(self, records: Any, keys: Any, graves: Any) -> None:
        self._records, self._keys, self._graves = records, keys, graves

    def step(self, txn: lmdb.Transaction[bytes], state: State, bounds: Bounds) -> tuple[State, int]:
        """The state afterwards, and how many records were looked at or buried; 0 when all is done."""
        cleaned, superseded = self._look(txn, state.cleaned, bounds)
        buried = self._bury(txn, bounds)
        done = cleaned - state.cleaned + buried
        return State(state.end, state.records - superseded - buried, cleaned), done

    def _look(self, txn: lmdb.Transaction[bytes], cleaned: int, bounds: Bounds) -> tuple[int, int]:
        """Look at the next records; the new ``cleaned``, and how many went."""
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
        return int(txn.delete(earlier, db=self._records))

    def _bury(self, txn: lmdb.Transaction[bytes], bounds: Bounds) -> int:
        """Remove old tombstones; table graves lists those that stand alone."""
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
            removed += int(txn.delete(raw_offset, db=self._records))
        return removed
