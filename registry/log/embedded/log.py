"""The embedded log: a log in an LMDB environment of its own, for one machine without Kafka.

Rules:

* one process writes, which a lock file beside the folder keeps; any number of its threads may call;
* an append is one synced LMDB transaction: all of the batch or nothing, on disk before the call returns;
* the folder is made under another name and renamed when it is complete, so that a log without its meta
  rows is damage and never a log half made.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import lmdb

from registry.domain.log_format.lineage import Lineage
from registry.domain.log_format.records import Entry
from registry.log.contract import (
    NO_HEADERS,
    Claim,
    DamagedLog,
    Fencing,
    Fetched,
    LogError,
    OutcomeUnknown,
    RecordHeaders,
    RecordTooLarge,
)
from registry.processes import file_lock

from . import format as layout
from .check import check
from .compaction import Bounds, Compaction
from .reader import divergence, fetched

MAP_BYTES = 64 << 30
RECORD_BYTES_MAX = 1_048_576
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Room beyond twice the refused size that ends the trouble, so that it does not come back at once.
_SPARE_BYTES = 64 << 10
_ROOM_BYTES = 16 << 20
"""With less room an I/O error means a full disk: LMDB says so of the short write with which the disk ends."""


def now_ms() -> int:
    """The wall clock, ms since the epoch."""
    return time.time_ns() // 1_000_000


class EmbeddedLog:
    """The log in folder ``path``, made when it is not there.

    ``map_bytes`` is the most the log can grow to; the file is sparse and only as large as its content.
    ``must_exist``: the caller knows of this log (a store was made from it), so a missing one is damage.
    ``advice`` gives the end of the text of :class:`DamagedLog`: what the user still has.

    Raises :class:`DamagedLog` when the files are not what was written, :class:`LogError` when another
    process has the log open or it cannot be opened.
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
        self._clock = clock
        self._advice = advice
        self.record_bytes_max = record_bytes_max
        self._writing = threading.Lock()
        self._appended = threading.Condition()
        self._closed = False
        self._doubt = ""
        self.trouble = ""
        """Why nothing can be appended; empty again once there is room for what was refused."""
        self._refused_bytes = 0
        self._verified = 0
        self._lock_fd = _lock(path)
        try:
            if _absent(path) and not must_exist:
                _make(path, map_bytes)
            elif findings := check(path):
                raise self._damaged("; ".join(findings))  # noqa: TRY301 (the lock goes with it)
            self._env, self._tables = _open(path, map_bytes)
        except BaseException:
            os.close(self._lock_fd)
            raise
        records, _, _, meta = self._tables
        self._records = records
        with self._env.begin(meta) as txn:
            self._identity = bytes(txn.get(layout.META_IDENTITY, b"")).decode()
            self._state = layout.State.unpack(bytes(txn.get(layout.META_STATE, b"")))
        self._compaction = Compaction(*self._tables[:3])

    @property
    def identity(self) -> str:
        """Random, given when the log was made."""
        return self._identity

    @property
    def fencing(self) -> Fencing:
        """See :class:`.contract.Log`: nobody else can append."""
        return Fencing()

    @property
    def tombstone_retention_ms(self) -> None:
        """Always: compaction takes only tombstones that the one store has applied."""
        return

    def end(self) -> int:
        """The offset that the next record will get."""
        self._alive()
        return self._state.end

    def query_end(self, timeout_s: float) -> int:
        """The same; nobody else appends."""
        return self.end()

    def claim(self) -> None:
        """Nothing: the lock file keeps every other process out."""
        self._alive()

    def fence(self, earlier: Claim) -> None:
        """Nothing: no claim was ever given."""
        self._alive()

    def count(self) -> int:
        """The records that are there; fewer than :meth:`end` after compaction."""
        return self._state.records

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """See :meth:`.contract.Log.read`; :class:`DamagedLog` when a record's checksum does not hold."""
        self._alive()
        try:
            with self._env.begin(self._records) as txn:
                return fetched(txn, offset, records_max, bytes_max)
        except layout.BadRecord as bad:
            raise self._damaged(f"the record at offset {bad.offset} is unreadable") from bad
        except (lmdb.CorruptedError, lmdb.PageNotFoundError) as error:
            raise self._damaged(f"reading from offset {offset}: {error}") from error
        except lmdb.Error as error:
            self._alive()
            raise LogError(f"the log in {self._path} cannot be read: {error}") from error

    def divergence(self, lineage: Lineage) -> int | None:
        """See :meth:`.contract.Log.divergence`."""
        return divergence(self, lineage)

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        """See :meth:`.contract.Log.headers_before`: none."""
        return RecordHeaders(offset, ())

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """See :meth:`.contract.Log.append`. One synced transaction, whatever the number of entries.

        Record headers are dropped.
        """
        for entry in entries:
            if len(entry.key) + len(entry.value or b"") > self.record_bytes_max:
                raise RecordTooLarge(
                    f"a record of {len(entry.key) + len(entry.value or b'')} bytes is over the log's "
                    f"limit of {self.record_bytes_max}"
                )
        with self._writing:
            self._alive()
            if self._doubt:
                raise OutcomeUnknown(self._doubt)
            end, count, cleaned = self._state
            state = layout.State(end + len(entries), count + len(entries), cleaned)
            if entries:
                self._commit(entries, state)
                self._state = state
                if self.trouble and _size(entries) >= self._refused_bytes:
                    self.trouble = ""
        with self._appended:
            self._appended.notify_all()
        return end

    def _commit(self, entries: Sequence[Entry], state: layout.State) -> None:
        ts = self._clock()
        offset = state.end - len(entries)
        try:
            with self._env.begin(self._records, write=True) as txn:
                for entry in entries:
                    raw_offset = layout.pack_offset(offset)
                    txn.put(raw_offset, layout.pack(raw_offset, ts, entry), append=True)
                    offset += 1
                txn.put(layout.META_STATE, state.pack(), db=self._tables[3])
        except lmdb.Error as error:
            self._failed(error, entries, state)

    def _stored(self) -> layout.State | None:
        """The state that the environment says; ``None`` when it says nothing."""
        try:
            with self._env.begin(self._tables[3]) as txn:
                return layout.State.unpack(bytes(txn.get(layout.META_STATE, b"")))
        except (lmdb.Error, ValueError):
            return None

    def _failed(self, error: lmdb.Error, entries: Sequence[Entry], wanted: layout.State) -> NoReturn:
        """Raise what a failed commit means: what the environment now says decides.

        In doubt the log takes nothing more: only opening it again shows what is on disk.
        """
        found = self._stored()
        if found is None or found == wanted:
            self._doubt = f"writing the log in {self._path} failed ({error}): start the node again"
            raise OutcomeUnknown(self._doubt) from error
        if isinstance(error, lmdb.MapFullError):
            why = f"the log in {self._path} has reached its map size (setting log_map_bytes)"
        elif error.code in _FULL or (error.code == errno.EIO and self._free_bytes() < _ROOM_BYTES):
            why = f"the disk under the log in {self._path} is full"
        else:
            why = f"the log in {self._path} cannot be written: {error}"
        self.trouble = why
        self._refused_bytes = min(_size(entries), self.record_bytes_max)
        raise LogError(f"{why}; nothing was appended") from error

    def look_for_room(self) -> None:
        """End the :attr:`trouble` if there is room again for what was refused, and some more.

        A row of that size is written and deleted again, which leaves its pages to the next append.
        """
        with self._writing:
            if not self.trouble or self._doubt or self._closed:
                return
            meta = self._tables[3]
            try:
                # A small row first: LMDB reuses what a transaction has freed only after another one.
                for size in (1, 2 * self._refused_bytes + _SPARE_BYTES):
                    with self._env.begin(meta, write=True) as txn:
                        txn.put(layout.META_ROOM, bytes(size))
                with self._env.begin(meta, write=True) as txn:
                    txn.delete(layout.META_ROOM)
            except lmdb.Error:
                return
            self.trouble = ""

    def _free_bytes(self) -> int:
        room = os.statvfs(self._path)
        return room.f_bavail * room.f_frsize

    def wait(self, offset: int, timeout_s: float) -> bool:
        """See :meth:`.contract.Log.wait`."""
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
        """Take away what later records have replaced; 0 when nothing is left to do, else call it again.

        A record goes when a later one of its key is older than ``min_lag_ms`` at ``now`` (ms since the
        epoch); a tombstone goes when it is older than ``tombstone_retention_ms`` and nothing earlier of its
        key is left. Only records below ``applied`` count, if given: a store that follows must have seen a
        tombstone before it goes. A call looks at no more than ``limit`` records and as many tombstones, so
        that appends wait only shortly. Raises :class:`LogError`; the next call tries the same again.
        """
        with self._writing:
            self._alive()
            before = self._state.end - 1 if applied is None else min(applied, self._state.end - 1)
            bounds = Bounds(before, now - min_lag_ms, now - tombstone_retention_ms, limit)
            try:
                with self._env.begin(write=True) as txn:
                    state, done = self._compaction.step(txn, self._state, bounds)
                    if done:
                        txn.put(layout.META_STATE, state.pack(), db=self._tables[3])
            except layout.BadRecord as bad:
                raise self._damaged(f"the record at offset {bad.offset} is unreadable") from bad
            except lmdb.Error as error:
                raise LogError(f"the log in {self._path} cannot be compacted: {error}") from error
            self._state = state
        return done

    def verify_step(self, records_max: int = 1000) -> bool:
        """Check the next records' checksums; whether all that were there have been seen.

        Called from time to time after the start, whose own check is bounded. Raises :class:`DamagedLog`.
        """
        fetched = self.read(self._verified, records_max, 64 << 20)
        self._verified = fetched.next
        return self._verified >= self._state.end

    def close(self) -> None:
        """Release the log; threads in :meth:`wait` end with an error."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            self._env.close()
            os.close(self._lock_fd)
        with self._appended:
            self._appended.notify_all()

    def _alive(self) -> None:
        if self._closed:
            raise LogError(f"the log in {self._path} is closed")

    def _damaged(self, finding: str) -> DamagedLog:
        text = (
            f"The log in {self._path} is damaged: {finding}. It is the only truth of this registry, so "
            "nothing is served from it. Restore the folder from a backup, or move it away to begin with an "
            "empty log."
        )
        return DamagedLog(f"{text} {self._advice()}".rstrip())


def _size(entries: Sequence[Entry]) -> int:
    return sum(len(entry.key) + len(entry.value or b"") for entry in entries)


def _absent(path: Path) -> bool:
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _lock(path: Path) -> int:
    """Hold the lock file beside the folder."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return file_lock.hold(path.with_name(path.name + ".lock"))
    except file_lock.LockHeld as held:
        raise LogError(
            f"the log in {path} is open for writing by process {held}: "
            "give each node a folder of its own (data)"
        ) from held


def _make(path: Path, map_bytes: int) -> None:
    """A new, empty log with an identity of its own."""
    new = path.with_name(path.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        env = lmdb.open(str(new), map_size=map_bytes, max_dbs=layout.TABLES, mode=0o700)
        tables = [env.open_db(name) for name in (layout.RECORDS, layout.KEYS, layout.GRAVES, layout.META)]
        with env.begin(tables[3], write=True) as txn:
            txn.put(layout.META_FORMAT, layout.FORMAT)
            txn.put(layout.META_IDENTITY, secrets.token_hex(16).encode())
            txn.put(layout.META_STATE, layout.State(0, 0, 0).pack())
        env.close()
        new.rename(path)
        file_lock.sync(path.parent)
    except (lmdb.Error, OSError) as error:
        raise LogError(f"no log can be made in {path}: {error}") from error


def _open(path: Path, map_bytes: int) -> tuple[lmdb.Environment, list[Any]]:
    try:
        env = lmdb.open(
            str(path), map_size=map_bytes, max_dbs=layout.TABLES, mode=0o700, max_spare_txns=1, create=False
        )
        names = (layout.RECORDS, layout.KEYS, layout.GRAVES, layout.META)
        return env, [env.open_db(name, create=False) for name in names]
    except lmdb.Error as error:
        raise LogError(f"the log in {path} cannot be opened: {error}") from error
