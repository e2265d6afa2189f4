"""Compaction of the embedded log: what Kafka's cleaner does to a compacted topic, in bounded steps.

A record is looked at once, when it is older than the lag: it replaces the earlier record of its key, which
goes. So a record stays at least until a later one of its key has the lag's age, and the order of records
never changes. The log's last record always stays, so that the check at the start can hold it against the end.
"""

from __future__ import annotations

from typing import Any

import lmdb

from . import format as layout
from .format import State


class Compaction:
    """One step at a time over the log's tables, inside the caller's write transaction."""

    def __init__(self, records: Any, keys: Any, graves: Any) -> None:
        self._records, self._keys, self._graves = records, keys, graves

    def step(
        self,
        txn: lmdb.Transaction[bytes],
        state: State,
        now: int,
        min_lag_ms: int,
        retention_ms: int,
        limit: int,
    ) -> tuple[State, int]:
        """The state afterwards and the number of records removed. Times in ms."""
        cleaned, superseded = self._look(txn, state, now - min_lag_ms, limit)
        buried = self._bury(txn, now - retention_ms, limit)
        removed = superseded + buried
        return State(state.end, state.records - removed, cleaned), removed

    def _look(self, txn: lmdb.Transaction[bytes], state: State, before: int, limit: int) -> tuple[int, int]:
        """Look at records appended at ``before`` or earlier; the new ``cleaned``, and how many went."""
        cleaned, removed = state.cleaned, 0
        while limit > 0 and cleaned < state.end - 1:
            raw_offset = layout.pack_offset(cleaned)
            raw = txn.get(raw_offset, db=self._records)
            if raw is None:
                raise layout.BadRecord(cleaned)
            record = layout.unpack(raw_offset, raw)
            if record.ts > before:
                break
            removed += self._supersede(txn, raw_offset, record.key or b"", record.value is None)
            cleaned += 1
            limit -= 1
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

    def _bury(self, txn: lmdb.Transaction[bytes], before: int, limit: int) -> int:
        """Remove tombstones appended at ``before`` or earlier; table graves lists those that stand alone."""
        removed = 0
        with txn.cursor(self._graves) as cursor:
            graves = []
            for grave in cursor:
                graves.append(grave)
                if len(graves) >= limit:
                    break
        for raw_offset, name in graves:
            raw = txn.get(raw_offset, db=self._records)
            if raw is None:
                raise layout.BadRecord(layout.unpack_offset(raw_offset))
            if layout.unpack(raw_offset, raw).ts > before:
                break
            txn.delete(raw_offset, db=self._graves)
            txn.delete(name, db=self._keys)
            removed += int(txn.delete(raw_offset, db=self._records))
        return removed
