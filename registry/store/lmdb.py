"""The store: all rows of one host in an LMDB environment, and the offset up to which they fold the log.

Rules:

* :meth:`Store.commit` is the only way to change rows. Rows, applied offset and digest change in one
  transaction, so a process that is killed at any instant resumes exactly.
* Commits are not synced: the log is the truth, and the page cache survives a kill. It does not survive a
  crash of the machine, so a store that was not closed before a reboot is rebuilt (:mod:`.open`).
* The map has its maximum size from the beginning; the file is sparse.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import lmdb

from registry.domain.history.entries import Slice
from registry.domain.log_format.lineage import NOTHING, Lineage, Mismatch
from registry.domain.rows.digest import MODULUS, row_hash, total
from registry.domain.rows.layout import CLEAR, ID, VERSION
from registry.domain.rows.spans import complete_from, gap_below, joined
from registry.domain.rows.version_row import same_content
from registry.domain.rows.view import Change

from . import id_counts, layout
from .block_rows import BLOCK, END, Touched, are_valid
from .counts import Counting
from .history import clear, prepare, put, spans_in
from .layout import DamagedStore, State, StoreError
from .views import StoreView


class StoreStat(NamedTuple):
    """Sizes, for health and metrics."""

    rows: int
    bytes_used: int
    map_bytes: int
    readers: int


class Store:
    """The writer's side of the environment in folder ``path``, which :mod:`.open` has created.

    Any thread may open views; commits are mutually exclusive. ``block``: versions that are counted together.
    ``read_only``: rows and history stay as they are, and commits raise :class:`StoreError`.
    """

    def __init__(
        self,
        path: Path,
        map_bytes: int = layout.MAP_BYTES,
        *,
        block: int = BLOCK,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.read_only = read_only
        # True while readers may serve the rows of another store, whose place this one takes when complete.
        self.former_served = False
        self._writing = threading.Lock()
        self._closed = False
        self._scrubbed = b""
        self._scrub_sum = 0
        self._block = block
        try:
            self._env = lmdb.open(
                str(path), map_size=map_bytes, max_dbs=layout.TABLES, mode=0o700, create=False,
                # What little is written to a read-only one must not depend on its being closed.
                sync=read_only, metasync=read_only, max_readers=layout.READERS_MAX, max_spare_txns=1,
            )  # fmt: skip
            self._rows = self._env.open_db(layout.ROWS, create=False)
            self._meta = self._env.open_db(layout.META, create=False)
            # Stores of older releases have no history.
            self._history = None if read_only else self._env.open_db(layout.HISTORY)
            with self._env.begin(self._meta, write=not read_only) as txn:
                self._state = State.unpack(txn.get(layout.META_STATE) or b"")
                self._lineage = Lineage.unpack(txn.get(layout.META_LINEAGE) or b"")
                self._mismatch = self._mismatch_stored = Mismatch.unpack(txn.get(layout.META_MISMATCH))
                self._is_complete = txn.get(layout.META_BUILT) != b"0"
                self._has_counts = are_valid(txn, self._meta)
                if not read_only:
                    prepare(txn, self._history, self._meta)
                    txn.put(layout.META_BOOT, layout.boot_id())
                    txn.put(layout.META_CLEAN, b"0")
                    txn.put(layout.META_REVISION, _new_revision())
                self._spans = spans_in(txn, self._meta)
            self._counted_to = b""  # before this key all blocks of versions are counted
            self._ids_from = ID  # where to look for ids to count
            # The applied offsets when this round over them began, and when the last one did.
            self._ids_applied = self._ids_done = -1
            if not read_only:
                # From here on a crash of the machine is detected, whichever pages reached the disk.
                self._env.sync(True)
        except (lmdb.Error, ValueError) as error:
            raise StoreError(f"the store in {path} cannot be opened: {error}") from error

    @property
    def applied(self) -> int:
        """Offset of the next record to apply."""
        return self._state.applied

    @property
    def digest(self) -> int:
        """The digest of all rows."""
        return self._state.digest

    @property
    def state(self) -> State:
        """The applied offset and digest of one moment."""
        return self._state

    @property
    def lineage(self) -> Lineage:
        """The lineage of the log that was applied; empty in stores of older releases."""
        return self._lineage

    @property
    def mismatch(self) -> Mismatch | None:
        """The finding that the log is not the one of these rows, also from before the last restart."""
        return self._mismatch

    def set_mismatch(self, mismatch: Mismatch | None) -> None:
        """Record the finding for every process that reads the store; ``None``: the log is that of the rows.

        A finding that cannot be written, for instance on a full disk, is written by a later call; this
        process goes by it even so. Raises :class:`DamagedStore`.
        """
        self._mismatch = mismatch
        if mismatch == self._mismatch_stored:
            return
        try:
            with self._writing, self._env.begin(self._meta, write=True) as txn:
                _put_mismatch(txn, mismatch)
        except lmdb.Error as error:
            if isinstance(failure := _store_error(self.path, error), DamagedStore):
                raise failure from error
        else:
            self._mismatch_stored = mismatch

    def meta(self, name: bytes) -> bytes:
        """Return a meta row's value; empty if it is missing."""
        with self._env.begin(self._meta) as txn:
            return txn.get(name) or b""

    def at_end_ms(self) -> int:
        """Return when the store was last at the log's end, or created, in ms since the epoch; 0: unknown."""
        return int(self.meta(layout.META_AT_END) or b"0")

    def mark_at_end(self, now_ms: int) -> None:
        """Record that the store is at the log's end."""
        self._put_meta(layout.META_AT_END, b"%d" % now_ms)

    def _put_meta(self, name: bytes, value: bytes) -> None:
        try:
            with self._writing, self._env.begin(self._meta, write=True) as txn:
                txn.put(name, value)
        except lmdb.Error as error:
            raise _store_error(self.path, error) from error

    @property
    def is_complete(self) -> bool:
        """True if the log was once read up to its end, so that the rows may be served without it."""
        return self._is_complete

    def complete(self) -> None:
        """Record that the log was read up to its end as queried. Raises :class:`StoreError`."""
        if not self._is_complete:
            self._put_meta(layout.META_BUILT, b"1")
            self._is_complete = True

    @property
    def loaded(self) -> str:
        """Id of the snapshot that the rows were loaded from; empty once their digest is verified."""
        return self.meta(layout.META_LOADED).decode()

    def proven(self) -> None:
        """Record that the digest of the loaded rows is verified."""
        self._put_meta(layout.META_LOADED, b"")

    def condemn(self, reason: str) -> None:
        """Record, outside of LMDB, that this environment must not be opened again."""
        with suppress(OSError):
            (self.path / layout.CONDEMNED).write_text(reason)

    def view(self) -> StoreView:
        """Return a view of the committed rows, for a ``with`` block."""
        return StoreView(self._env, self._rows, self._meta, history=self._history)

    def commit(
        self,
        changes: dict[bytes, bytes | None] | Iterable[Change],
        applied: int,
        lineage: Lineage = NOTHING,
        history: Slice | None = None,
    ) -> None:
        """Write the changes and the applied offset atomically; of several changes of a key the last counts.

        ``lineage``: of the log up to ``applied``; if it is unknown, the stored one stays. ``history``: the
        part of the log from the former applied offset to this one, if it is to be kept.

        Raises :class:`StoreError` if the disk or the map is full, :class:`DamagedStore` if LMDB's own pages
        are corrupt.
        """
        rows = changes if isinstance(changes, dict) else dict(changes)
        self.commit_folded((), sorted(rows.items(), key=itemgetter(0)), applied, lineage, history)

    def commit_folded(
        self,
        new: Sequence[tuple[bytes, bytes]],
        changed: Sequence[Change],
        applied: int,
        lineage: Lineage = NOTHING,
        history: Slice | None = None,
    ) -> None:
        """Commit changes in ascending order of distinct keys; otherwise as :meth:`commit`.

        ``new`` are rows whose keys must not exist yet, so that former values need not be read. An existing
        one means that the store is damaged.
        """
        if self.read_only:
            raise StoreError(f"the store in {self.path} is of a former release: its rows are only read")
        with self._writing:
            scrubbed = total(_before(self._scrubbed, new)) + total(_before(self._scrubbed, changed))
            delta = total(new) + total(changed)
            try:
                with self._env.begin(self._rows, write=True) as txn, txn.cursor() as cursor:
                    if new and cursor.putmulti(new, overwrite=False)[1] != len(new):
                        raise DamagedStore(f"the store in {self.path} has rows that its index lacks")
                    replace, pop = cursor.replace, cursor.pop
                    disturbed = bool(new)  # new rows come by the thousand; where they go is not checked
                    counting, touched, clears = self._has_counts and not new, list[Touched](), list[bytes]()
                    for key, value in changed:
                        old = pop(key) if value is None else replace(key, value)
                        if key.startswith(VERSION):
                            if value is not None and not disturbed:
                                disturbed = _disturbs(cursor, key, value, old)
                            if counting:
                                touched.append((key, old, value))
                        elif counting and key.startswith(CLEAR):
                            clears.append(key)
                        if old is not None:
                            gone = row_hash(key, old)
                            delta -= gone
                            if key < self._scrubbed:
                                scrubbed -= gone
                    state = State(applied, (self._state.digest + delta) % MODULUS)
                    txn.put(layout.META_STATE, state.pack(), db=self._meta)
                    if disturbed:
                        txn.put(layout.META_REVISION, _new_revision(), db=self._meta)
                    if lineage != NOTHING:
                        txn.put(layout.META_LINEAGE, lineage.pack(), db=self._meta)
                    if history is not None:
                        put(txn, self._history, self._meta, history)
                    if touched or clears:
                        counting = Counting(txn, self._rows, self._meta, self._block).commit(touched, clears)
                    if counting:
                        txn.put(layout.META_COUNTED, state.pack()[:8], db=self._meta)
                    elif self._has_counts:
                        txn.delete(layout.META_COUNTED, db=self._meta)
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            self._state, self._has_counts = state, counting
            self._counted_to = b"" if clears else self._counted_to
            self._lineage = lineage if lineage != NOTHING else self._lineage
            self._spans = self._spans if history is None else joined(self._spans, history.span)
            self._scrub_sum += scrubbed

    def verify_step(self, rows_max: int = 1000) -> bool:
        """Add the next rows' hashes; return True at the end of a round in which all rows matched the digest.

        Commits may come between steps; their changes below the current position are added, too. Call it
        repeatedly. Raises :class:`DamagedStore` if the digest differs.
        """
        with self._writing:
            found, last = self._scrub_sum, None
            try:
                with self._env.begin(self._rows) as txn, txn.cursor() as cursor:
                    rows = cursor if cursor.set_range(self._scrubbed) else ()
                    for key, value in islice(rows, rows_max):
                        found += row_hash(key, value)
                        last = key
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            if last is not None:
                self._scrubbed, self._scrub_sum = last + b"\0", found
                return False
            self._scrubbed, self._scrub_sum = b"", 0
            if found % MODULUS != self._state.digest:
                self.condemn("its rows do not match the stored digest")
                raise DamagedStore(f"the rows in {self.path} do not match the stored digest")
            return True

    def count_step(self) -> bool:
        """Count the next block of versions, if any; return True once all are counted."""
        with self._writing:
            if self._has_counts and self._counted_to == END:
                return True
            try:
                with self._env.begin(self._rows, write=True) as txn:
                    counting = Counting(txn, self._rows, self._meta, self._block)
                    if not self._has_counts:
                        counting.begin()
                        txn.delete(layout.META_COUNTED_FORMER, db=self._meta)
                        txn.put(layout.META_COUNTED, self._state.pack()[:8], db=self._meta)
                    reached = counting.next_block(self._counted_to if self._has_counts else b"")
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            if not self._has_counts:
                self._has_counts, self._ids_from, self._ids_done = True, ID, -1
            self._counted_to = END if reached is None else reached
            return reached is None

    def count_ids_step(self) -> bool:
        """Count the next block of an id's rows, if any; return True at the end of a round over all ids."""
        with self._writing:
            if not self._has_counts or self._ids_done == self._state.applied:
                return True
            try:
                with self.view() as view:
                    found = id_counts.next_block(view, view.keys(self._ids_from), self._block)
                if found.block is not None:
                    with self._env.begin(self._meta, write=True) as txn:
                        id_counts.put(txn, found.block)
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            if self._ids_from == ID:
                self._ids_applied = self._state.applied
            self._ids_from = found.end or ID
            if found.end is None:
                self._ids_done = self._ids_applied
            return found.end is None

    def history_gap(self) -> tuple[int, int] | None:
        """Return the highest part of the applied log that the history lacks; ``None``: it has all."""
        return gap_below(self._spans, self._state.applied)

    def history_from(self) -> int:
        """Return the offset from which on the history lacks no record."""
        return complete_from(self._spans, self._state.applied)

    def fill_history(self, part: Slice) -> None:
        """Add a part of the log to the history, which holds nothing of it yet."""
        with self._writing:
            try:
                with self._env.begin(self._meta, write=True) as txn:
                    put(txn, self._history, self._meta, part)
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            self._spans = joined(self._spans, part.span)

    def clear_history(self) -> None:
        """Forget the whole history, so that rows may take its space."""
        with self._writing:
            try:
                with self._env.begin(write=True) as txn:
                    clear(txn, self._history, self._meta)
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            self._spans = ()

    def reader_check(self) -> int:
        """Free the slots of killed readers, whose views would pin old pages; return their number."""
        return self._env.reader_check()

    def stat(self) -> StoreStat:
        """Return the current sizes."""
        with self._env.begin(self._rows) as txn:
            rows = txn.stat(self._rows)["entries"]
        info, page_bytes = self._env.info(), self._env.stat()["psize"]
        return StoreStat(rows, (info["last_pgno"] + 1) * page_bytes, info["map_size"], info["num_readers"])

    def sync(self) -> None:
        """Write all committed pages to disk."""
        self._env.sync(True)

    def close(self) -> None:
        """Sync the store, mark it as cleanly closed, and release it. Open views become invalid."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            if self.read_only:
                self._env.close()
                return
            # On a full disk the store stays marked as open, so it is rebuilt after a reboot.
            with suppress(lmdb.Error), closing(self._env):
                self._env.sync(True)
                with self._env.begin(self._meta, write=True) as txn:
                    txn.put(layout.META_CLEAN, b"1")
                self._env.sync(True)


def mark_mismatch(folder: Path, mismatch: Mismatch | None) -> None:
    """Record a finding as :meth:`Store.set_mismatch` does, in an environment that no node has open."""
    try:
        with (
            lmdb.open(str(folder), max_dbs=layout.TABLES, map_size=layout.MAP_BYTES, create=False) as env,
            env.begin(env.open_db(layout.META, create=False), write=True) as txn,
        ):
            _put_mismatch(txn, mismatch)
    except lmdb.Error as error:
        if isinstance(failure := _store_error(folder, error), DamagedStore):
            raise failure from error


def _put_mismatch(txn: lmdb.Transaction[bytes], mismatch: Mismatch | None) -> None:
    if mismatch is None:
        txn.delete(layout.META_MISMATCH)
    else:
        txn.put(layout.META_MISMATCH, mismatch.pack())


def _new_revision() -> bytes:
    return os.urandom(8)


def _disturbs(cursor: lmdb.Cursor[bytes], key: bytes, value: bytes, old: bytes | None) -> bool:
    """Evaluate :func:`.version_row.disturbs` with the cursor that has just put the row."""
    if old is not None:
        return not same_content(old, value)
    return cursor.next() and cursor.key().startswith(key[:-4])


def _before(end: bytes, rows: Sequence[Change]) -> Sequence[Change]:
    """Return the rows, given in ascending order, whose keys are less than ``end``."""
    return rows[: bisect_left(rows, (end,))] if end else ()


def _store_error(path: Path, error: lmdb.Error) -> StoreError:
    """Return the store's exception for an error of LMDB."""
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError | lmdb.BadTxnError | lmdb.PanicError):
        return DamagedStore(f"the store in {path} is damaged: {error}")
    if isinstance(error, lmdb.MapFullError):
        return StoreError(f"the store in {path} has reached its map size (setting store_map_bytes)")
    return StoreError(f"the store in {path} cannot be written: {error}")
