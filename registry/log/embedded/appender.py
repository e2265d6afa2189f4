"""Writes to an embedded log: appends, one synced transaction each, and compaction in bounded steps.

Each record is examined once, when it is older than the lag: it supersedes the earlier record of its key,
which is deleted. So a record stays at least until a later one of its key is older than the lag, and the
order of records never changes. The log's last record always stays, so that the check at the start can
compare it with the end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

import lmdb

from registry.domain.log_format.records import Entry
from registry.log.contract import LogError, OutcomeUnknown, RecordTooLarge

from . import layout
from .layout import LogState, Tables

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Free space required beyond twice the rejected size before the error is cleared, so that it does not recur.
_SPARE_BYTES = 64 << 10
# With less free space an I/O error means a full disk: LMDB reports a short write that way.
_ROOM_BYTES = 16 << 20


class Appender:
    """Appends records to the environment of the log in folder ``path``; the caller serializes the calls.

    ``clock`` returns ms since the epoch.
    """

    def __init__(
        self,
        path: Path,
        env: lmdb.Environment,
        tables: Tables,
        *,
        record_bytes_max: int,
        clock: Callable[[], int],
    ) -> None:
        self._path = path
        self._env = env
        self._tables = tables
        self._meta = tables.meta
        self._record_bytes_max = record_bytes_max
        self._clock = clock
        self._in_doubt = ""
        # Why appends fail; cleared once there is room for what was rejected.
        self.last_error = ""
        self._refused_bytes = 0

    def check_size(self, entries: Sequence[Entry]) -> None:
        """Raise :class:`.contract.RecordTooLarge` if the log does not take one of the entries."""
        for entry in entries:
            if (size := _size([entry])) > self._record_bytes_max:
                raise RecordTooLarge(
                    f"a record of {size} bytes is over the log's limit of {self._record_bytes_max}"
                )

    def append(self, entries: Sequence[Entry], state: layout.LogState) -> layout.LogState:
        """Append entries to a log in ``state``; return its next state.

        Raises :class:`.contract.LogError` if nothing was appended, :class:`.contract.OutcomeUnknown`.
        """
        if self._in_doubt:
            raise OutcomeUnknown(self._in_doubt)
        if not entries:
            return state
        end, count, cleaned = state
        following = layout.LogState(end + len(entries), count + len(entries), cleaned)
        self._commit(entries, following)
        if self.last_error and _size(entries) >= self._refused_bytes:
            self.last_error = ""
        return following

    def _commit(self, entries: Sequence[Entry], state: layout.LogState) -> None:
        ts = self._clock()
        offset = state.end - len(entries)
        try:
            with self._env.begin(self._tables.records, write=True) as txn:
                for entry in entries:
                    raw_offset = layout.pack_offset(offset)
                    txn.put(raw_offset, layout.pack(raw_offset, ts, entry), append=True)
                    if entry.principal:
                        named = layout.pack_principal(raw_offset, entry.principal)
                        txn.put(raw_offset, named, db=self._tables.principals, append=True)
                    offset += 1
                txn.put(layout.META_STATE, state.pack(), db=self._meta)
        except lmdb.Error as error:
            self._raise_failure(error, entries, state)

    def _read_state(self) -> layout.LogState | None:
        """Return the state in the environment; ``None`` if it cannot be read."""
        try:
            with self._env.begin(self._meta) as txn:
                return layout.LogState.unpack(bytes(txn.get(layout.META_STATE, b"")))
        except (lmdb.Error, ValueError):
            return None

    def _raise_failure(
        self, error: lmdb.Error, entries: Sequence[Entry], wanted: layout.LogState
    ) -> NoReturn:
        """Raise the meaning of a failed commit, which the environment's state decides.

        If the outcome is unknown, the log accepts no more appends: only opening it again shows what is on
        disk.
        """
        found = self._read_state()
        if found is None or found == wanted:
            self._in_doubt = f"writing the log in {self._path} failed ({error}): start the node again"
            raise OutcomeUnknown(self._in_doubt) from error
        if isinstance(error, lmdb.MapFullError):
            reason = f"the log in {self._path} has reached its map size (setting log_map_bytes)"
        elif error.code in _FULL or (error.code == errno.EIO and self._free_bytes() < _ROOM_BYTES):
            reason = f"the disk under the log in {self._path} is full"
        else:
            reason = f"the log in {self._path} cannot be written: {error}"
        self.last_error = reason
        self._refused_bytes = min(_size(entries), self._record_bytes_max)
        raise LogError(f"{reason}; nothing was appended") from error

    def check_for_room(self) -> None:
        """Clear :attr:`last_error` if there is room again for what was rejected, and some more.

        A row of that size is written and deleted, which leaves its pages to the next append.
        """
        if not self.last_error or self._in_doubt:
            return
        try:
            # A small row first: LMDB reuses freed pages only after another transaction.
            for size in (1, 2 * self._refused_bytes + _SPARE_BYTES):
                with self._env.begin(self._meta, write=True) as txn:
                    txn.put(layout.META_ROOM, bytes(size))
            with self._env.begin(self._meta, write=True) as txn:
                txn.delete(layout.META_ROOM)
        except lmdb.Error:
            return
        self.last_error = ""

    def _free_bytes(self) -> int:
        room = os.statvfs(self._path)
        return room.f_bavail * room.f_frsize


def _size(entries: Sequence[Entry]) -> int:
    return sum(len(entry.key) + len(entry.value or b"") for entry in entries)


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

    def step(self, txn: lmdb.Transaction[bytes], state: LogState, bounds: Bounds) -> tuple[LogState, int]:
        """Return the new state, and how many records were examined or deleted; 0 at the end."""
        cleaned, superseded = self._look(txn, state.cleaned, bounds)
        deleted = self._delete_old_tombstones(txn, bounds)
        done = cleaned - state.cleaned + deleted
        return LogState(state.end, state.records - superseded - deleted, cleaned), done

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

    def _delete_old_tombstones(self, txn: lmdb.Transaction[bytes], bounds: Bounds) -> int:
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
