"""The embedded log: a log in its own LMDB environment, for a single machine without Kafka.

Rules:

* One process writes; a lock file next to the folder ensures that. Any of its threads may make calls.
* An append is one synced LMDB transaction: all or nothing, on disk before the call returns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import lmdb

from registry.base.processes.lmdb_check import views_have_ended
from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Entry
from registry.log.contract import (
    NO_HEADERS,
    Claim,
    DamagedLog,
    Fencing,
    Fetched,
    LogClosed,
    LogError,
    RecordHeaders,
)

from . import layout
from .appender import Appender, Bounds, Compaction
from .check import check
from .reader import divergence, read_records, with_principals

MAP_BYTES = 64 << 30
RECORD_BYTES_MAX = 1_048_576


def now_ms() -> int:
    """Return the wall clock, in ms since the epoch."""
    return time.time_ns() // 1_000_000


class EmbeddedLog:
    """The log in folder ``path``, created if it is missing.

    ``map_bytes`` limits the log's size; the file is sparse and only as large as its content. ``must_exist``:
    the caller knows that the log existed (a store was built from it), so a missing one is damage. ``advice``
    returns the end of :class:`DamagedLog`'s text: which copies the user still has.

    Raises :class:`DamagedLog` if the files are corrupt, :class:`LogError` if another process has the log
    open or it cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        map_bytes: int = MAP_BYTES,
        record_bytes_max: int = RECORD_BYTES_MAX,
        clock: Callable[[], int] = now_ms,
        must_exist: bool = False,
        advice: Callable[[], str] = str,
    ) -> None:
        self._path = path
        self._advice = advice
        self.record_bytes_max = record_bytes_max
        self._writing = threading.Lock()
        # Held to begin reading; _writing comes before it.
        self._opening = threading.Lock()
        self._appended = threading.Condition()
        self._closed = False
        self._verified = 0
        self._lock_fd = layout.lock(path)
        try:
            if layout.is_absent(path) and not must_exist:
                layout.create(path, map_bytes)
            elif findings := check(path):
                raise self._damaged_error("; ".join(findings))  # noqa: TRY301 (the lock is released below)
            self._env, self._tables = layout.open_log(path, map_bytes)
        except BaseException:
            os.close(self._lock_fd)
            raise
        with self._env.begin(self._tables.meta) as txn:
            self._identity = bytes(txn.get(layout.META_IDENTITY, b"")).decode()
            self._state = layout.LogState.unpack(bytes(txn.get(layout.META_STATE, b"")))
        self._compaction = Compaction(self._tables)
        self._appender = Appender(
            path, self._env, self._tables, record_bytes_max=record_bytes_max, clock=clock
        )

    @property
    def last_error(self) -> str:
        """Why appends fail; cleared once there is room for what was rejected."""
        return self._appender.last_error

    @property
    def is_being_written(self) -> bool:
        """True while an append would wait for another, or for a step of compaction."""
        return self._writing.locked()

    @property
    def identity(self) -> str:
        """A random id, assigned when the log was created."""
        return self._identity

    @property
    def fencing(self) -> Fencing:
        """The state of fencing: not needed, because no other process can append."""
        return Fencing()

    @property
    def tombstone_retention_ms(self) -> None:
        """``None``: compaction deletes only tombstones that the only store has applied."""
        return

    def end(self) -> int:
        """Return the offset of the next record."""
        if self._closed:
            self._alive()  # raises
        return self._state.end

    def query_end(self, timeout_s: float) -> int:
        """Return :meth:`end`; no other process appends."""
        return self.end()

    def claim(self) -> None:
        """Do nothing: the lock file keeps every other process out."""
        self._alive()

    def fence(self, earlier: Claim) -> None:
        """Do nothing: this log has no claims."""
        self._alive()

    def count(self) -> int:
        """The records that are there; fewer than :meth:`end` after compaction."""
        return self._state.records

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Read records, see :meth:`.contract.Log.read`; a wrong checksum raises :class:`DamagedLog`."""
        try:
            with self._begin_reading() as txn:
                found = read_records(txn, offset, records_max, bytes_max)
                return with_principals(txn, self._tables.principals, found)
        except layout.BadRecord as bad:
            raise self._damaged_error(f"the record at offset {bad.offset} is unreadable") from bad
        except (lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
            raise self._damaged_error(f"reading from offset {offset}: {error}") from error
        except lmdb.Error as error:
            raise LogError(f"the log in {self._path} cannot be read: {error}") from error

    def _begin_reading(self) -> lmdb.Transaction[bytes]:
        with self._opening:
            self._alive()
            return self._env.begin(self._tables.records)

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Read records, as :meth:`read` does: no read disturbs another."""
        return self.read(offset, records_max, bytes_max)

    def query_start(self) -> int:
        """Return 0: only superseded records are ever deleted."""
        self._alive()
        return 0

    def first_after(self, time_ms: int) -> int | None:
        """Return the offset of the first newer record, see :meth:`.contract.Log.first_after`.

        Searches by halves, so that it finds one of several such records where the clock was set back.
        """
        low, end = 0, self.end()
        high = end
        while low < high:
            middle = (low + high) // 2
            records = self.read(middle, 1, 1).records
            if records and records[0].ts <= time_ms:
                low = records[0].offset + 1
            else:
                high = middle
        found = self.read(low, 1, 1).records
        return found[0].offset if found else None

    def divergence(self, lineage: Lineage) -> int | None:
        """Return an offset where this log differs from ``lineage``, see :meth:`.contract.Log.divergence`."""
        return divergence(self, lineage)

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        """Return no headers: the embedded log does not store them."""
        return RecordHeaders(offset, ())

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """Append entries, see :meth:`.contract.Log.append`, in one synced transaction.

        Record headers are dropped.
        """
        self._appender.check_size(entries)
        with self._writing:
            self._alive()
            end = self._state.end
            self._state = self._appender.append(entries, self._state)
        with self._appended:
            self._appended.notify_all()
        return end

    def check_for_room(self) -> None:
        """Clear :attr:`last_error` if there is room again for what was rejected, and some more."""
        with self._writing:
            if not self._closed:
                self._appender.check_for_room()

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until a read from ``offset`` would advance, see :meth:`.contract.Log.wait`."""
        with self._appended:
            self._appended.wait_for(lambda: self._closed or self._state.end > offset, timeout_s)
        self._alive()
        return self._state.end > offset

    def compact(
        self,
        now: int,
        min_lag_ms: int,
        tombstone_retention_ms: int,
        limit: int = 1000,
        applied: int | None = None,
    ) -> int:
        """Delete superseded records, in one bounded step; return 0 when nothing is left to do.

        A record is deleted when a later one of its key is older than ``min_lag_ms`` at ``now`` (ms since the
        epoch); a tombstone when it is older than ``tombstone_retention_ms`` and no earlier record of its key
        is left. With ``applied``, only lower offsets count: the following store must have applied a tombstone
        before it is deleted. A step examines at most ``limit`` records and as many tombstones, so that
        appends wait only briefly. Raises :class:`LogError`; the next call retries.
        """
        with self._writing:
            self._alive()
            before = self._state.end - 1 if applied is None else min(applied, self._state.end - 1)
            bounds = Bounds(before, now - min_lag_ms, now - tombstone_retention_ms, limit)
            try:
                with self._env.begin(write=True) as txn:
                    state, done = self._compaction.step(txn, self._state, bounds)
                    if done:
                        txn.put(layout.META_STATE, state.pack(), db=self._tables.meta)
            except layout.BadRecord as bad:
                raise self._damaged_error(f"the record at offset {bad.offset} is unreadable") from bad
            except lmdb.Error as error:
                raise LogError(f"the log in {self._path} cannot be compacted: {error}") from error
            self._state = state
        return done

    def verify_step(self, records_max: int = 1000) -> bool:
        """Check the next records' checksums; return True at the log's end.

        Called from time to time, because the check at the start is bounded. Raises :class:`DamagedLog`.
        """
        fetched = self.read(self._verified, records_max, 64 << 20)
        self._verified = fetched.next
        return self._verified >= self._state.end

    def close(self) -> None:
        """Release the log; threads in :meth:`wait`, and later calls, end with :class:`LogClosed`.

        While a thread still reads, the environment stays open: the process is about to end.
        """
        with self._writing, self._opening:
            if self._closed:
                return
            self._closed = True
            if views_have_ended(self._env):
                self._env.close()
            os.close(self._lock_fd)
        with self._appended:
            self._appended.notify_all()

    def _alive(self) -> None:
        if self._closed:
            raise LogClosed(f"the log in {self._path} is closed")

    def _damaged_error(self, finding: str) -> DamagedLog:
        text = (
            f"The log in {self._path} is damaged: {finding}. It is the registry's only source of truth, so "
            "the registry does not start with it. Restore the folder from a backup, or a snapshot into "
            "another data folder (registrar snapshot restore). To start with an empty log, move "
            f"{self._path.parent} away."
        )
        return DamagedLog(f"{text} {self._advice()}".rstrip())
