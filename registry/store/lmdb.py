"""The store: all rows of one host in an LMDB environment, and the offset up to which they fold the log.

Rules:

* :meth:`Store.commit` is the only way to change rows. Rows, applied offset and digest change in one
  transaction, so a process that is killed at any instant resumes exactly.
* Commits are not synced: the log is the truth, and the page cache survives a kill. It does not survive a
  crash of the machine, so a store that was not closed before a reboot is rebuilt (:mod:`.open`).
* The map has its maximum size from the beginning; the file is sparse.
* A store that is far behind its log is written through its map (:mod:`.environment`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import lmdb

from registry.base.processes.lmdb_check import views_have_ended
from registry.domain.history.entries import Slice
from registry.domain.log_format.lineage import NOTHING, Lineage, Mismatch
from registry.domain.rows.layout import CLEAR, VERSION
from registry.domain.rows.version_row import same_content
from registry.domain.rows.view import Change, complete_from, gap_below

from . import id_counts, layout
from .counts import CountIndex
from .environment import MAY_BE_MAPPED, Environment, bytes_used, if_disk_full
from .id_counts import IdCountIndex
from .indexes import Adopt, Commit, Digest, HistoryIndex, Index, LineageIndex, Revision, new_revision, prepare
from .layout import BLOCK, DamagedStore, State, StoreClosed, StoreError
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
    ``read_only``: rows and history stay as they are, and commits raise :class:`StoreError`. ``far_behind``:
    many records come before :meth:`complete` is called.
    """

    def __init__(
        self,
        path: Path,
        map_bytes: int = layout.MAP_BYTES,
        *,
        block: int = BLOCK,
        read_only: bool = False,
        far_behind: bool = False,
    ) -> None:
        self.path = path
        self.read_only = read_only
        # What little is written to a read-only one must not depend on its being closed.
        self._environment = Environment(path, map_bytes, synced=read_only)
        self._block = block
        # True while readers may serve the rows of another store, whose place this one takes when complete.
        self.former_served = False
        self._writing = threading.Lock()
        # Held to begin reading; with _writing, which comes before it, the environment may be opened again.
        self._opening = threading.Lock()
        self._closed = False
        self._far_behind = far_behind
        # True while commits write through the map.
        self.is_mapped = False
        try:
            self._open()
            with self._env.begin(self._meta) as txn:
                self._mismatch = self._mismatch_stored = Mismatch.unpack(txn.get(layout.META_MISMATCH))
                self._is_complete = txn.get(layout.META_BUILT) != b"0"
            if not read_only:
                with self._env.begin(self._meta, write=True) as txn:
                    txn.put(layout.META_BOOT, layout.boot_id())
                    txn.put(layout.META_CLEAN, b"0")
                    txn.put(layout.META_REVISION, new_revision())
                # From here on a crash of the machine is detected, whichever pages reached the disk.
                self._env.sync(True)
                if far_behind and MAY_BE_MAPPED and self._environment.takes_room(self._env):
                    self._open_again(mapped=True)
        except (lmdb.Error, ValueError) as error:
            raise StoreError(f"the store in {path} cannot be opened: {error}") from error

    def _open(self) -> None:
        """Open the environment, and the indexes as its last commit left them."""
        try:
            self._env = self._environment.open(mapped=self.is_mapped)
        except lmdb.Error:
            if not self.is_mapped:
                raise
            self.is_mapped = False  # Some filesystems, or limits of a file's size, allow no such map.
            self._env = self._environment.open()
        self._rows = self._env.open_db(layout.ROWS, create=False)
        self._meta = self._env.open_db(layout.META, create=False)
        # Stores of older releases have no history.
        self._history = None if self.read_only else self._env.open_db(layout.HISTORY)
        with self._env.begin(self._meta, write=not self.read_only) as txn:
            if not self.read_only:
                prepare(txn, self._history, self._meta)
            self._digest = Digest(State.unpack(txn.get(layout.META_STATE) or b""))
            self._lineage = LineageIndex(Lineage.unpack(txn.get(layout.META_LINEAGE) or b""))
            self._kept_history = HistoryIndex(txn, self._history, self._meta)
            self._counts = CountIndex(txn, self._meta, self._block)
        self._id_counts = IdCountIndex(self._block)
        # The counts of ids come after those that they depend on.
        self._indexes: tuple[Index, ...] = (
            self._digest, self._lineage, Revision(), self._kept_history, self._counts, self._id_counts,
        )  # fmt: skip
        if not (self.is_mapped or self.read_only):
            self._environment.cut(self._env)

    def _open_again(self, *, mapped: bool) -> None:
        self._env.close()
        self.is_mapped = mapped
        self._open()

    def _leave_map_if_over(self) -> None:
        """Write as usual from now on, if much is no longer to come or the disk may soon be full.

        The caller holds ``_writing``. If a view lasts, a later call will do that. An error ends the process,
        which could do nothing without the environment.
        """
        if self._far_behind and self._environment.takes_room(self._env):
            return
        with self._opening:
            if views_have_ended(self._env):
                self._open_again(mapped=False)

    @property
    def is_being_written(self) -> bool:
        """True while a commit would wait for another, such as a step of maintenance."""
        return self._writing.locked()

    @property
    def applied(self) -> int:
        """Offset of the next record to apply."""
        return self._digest.state.applied

    @property
    def digest(self) -> int:
        """The digest of all rows."""
        return self._digest.state.digest

    @property
    def state(self) -> State:
        """The applied offset and digest of one moment."""
        return self._digest.state

    @property
    def lineage(self) -> Lineage:
        """The lineage of the log that was applied; empty in stores of older releases."""
        return self._lineage.lineage

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
        with self._opening, self._env.begin(self._meta) as txn:
            return txn.get(name) or b""

    def at_end_ms(self) -> int:
        """Return when the store was last at the log's end, or created, in ms since the epoch; 0: unknown."""
        return int(self.meta(layout.META_AT_END) or b"0")

    def mark_at_end(self, now_ms: int) -> None:
        """Record that the store is at the log's end."""
        self._put_meta(layout.META_AT_END, b"%d" % now_ms)

    def _put_meta(self, name: bytes, value: bytes) -> None:
        def put(txn: lmdb.Transaction[bytes]) -> None:
            txn.put(name, value)

        self._write(put)

    @property
    def is_complete(self) -> bool:
        """True if the log was once read up to its end, so that the rows may be served without it."""
        return self._is_complete

    def complete(self) -> None:
        """Record that the log was read up to its end as queried. Raises :class:`StoreError`."""
        if not self._is_complete:
            self._put_meta(layout.META_BUILT, b"1")
            self._is_complete = True
        with self._writing:
            self._far_behind = False
            if self.is_mapped:
                self._leave_map_if_over()

    @property
    def loaded_from(self) -> str:
        """Id of the snapshot that the rows were loaded from; empty once their digest is verified."""
        return self.meta(layout.META_LOADED).decode()

    def mark_verified(self) -> None:
        """Record that the digest of the loaded rows is verified."""
        self._put_meta(layout.META_LOADED, b"")

    def condemn(self, reason: str) -> None:
        """Record, outside of LMDB, that this environment must not be opened again."""
        with suppress(OSError):
            (self.path / layout.CONDEMNED).write_text(reason)

    def view(self) -> StoreView:
        """Return a view of the committed rows, for a ``with`` block."""
        with self._opening:
            return StoreView(self._env.begin(self._rows), self._rows, self._meta, self._history)

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
            if self.is_mapped:
                self._leave_map_if_over()
            try:
                with self._env.begin(self._rows, write=True) as txn, txn.cursor() as cursor:
                    if new and cursor.putmulti(new, overwrite=False)[1] != len(new):
                        raise DamagedStore(f"the store in {self.path} has rows that its index lacks")
                    commit = Commit(txn, cursor, self._meta, new, changed, applied, lineage, history)
                    _change(commit, counting=self._counts.valid and not new)
                    adopted = [each.on_commit(commit) for each in self._indexes]
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            for adopt in adopted:
                if adopt is not None:
                    adopt()

    def verify_step(self, rows_max: int = 1000) -> bool:
        """Add the next rows' hashes; return True at the end of a round in which all rows matched the digest.

        Commits may come between steps; their changes below the current position are added, too. Call it
        repeatedly. Raises :class:`DamagedStore` if the digest differs.
        """
        with self._writing:
            try:
                with self._env.begin(self._rows) as txn, txn.cursor() as cursor:
                    return self._digest.scrub(cursor, rows_max)
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            except DamagedStore as error:
                self.condemn(str(error))
                raise DamagedStore(f"the rows in {self.path} do not match the stored digest") from None

    def count_step(self) -> bool:
        """Count the next block of versions, if any; return True once all are counted."""
        if self._counts.complete:
            return True
        if not self._counts.valid:
            self._id_counts.restart()
        self._write(lambda txn: self._counts.step(txn, self.applied), self._rows)
        return False

    def count_ids_step(self) -> bool:
        """Count the next block of an id's rows, if any; return True at the end of a round over all ids."""
        with self._writing:
            if not self._counts.valid or self._id_counts.is_complete(self.applied):
                return True
            try:
                with self.view() as view:
                    found = self._id_counts.find(view, view.keys)
                if found.block is not None:
                    with self._env.begin(self._meta, write=True) as txn:
                        id_counts.put(txn, found.block)
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            return self._id_counts.advance(found, self.applied)

    def history_gap(self) -> tuple[int, int] | None:
        """Return the highest part of the applied log that the history lacks; ``None``: it has all."""
        return gap_below(self._kept_history.spans, self.applied)

    def history_from(self) -> int:
        """Return the offset from which on the history lacks no record."""
        return complete_from(self._kept_history.spans, self.applied)

    def fill_history(self, part: Slice) -> None:
        """Add a part of the log to the history, which holds nothing of it yet."""
        self._write(lambda txn: self._kept_history.add(txn, part))

    def clear_history(self) -> None:
        """Forget the whole history, so that rows may take its space."""
        self._write(self._kept_history.clear)

    def _write(self, change: Callable[[lmdb.Transaction[bytes]], Adopt | None], table: Any = None) -> None:
        """Change indexes or other meta rows, in a transaction over ``meta`` or another table."""
        with self._writing:
            if self.is_mapped:
                self._leave_map_if_over()
            try:
                with self._env.begin(table or self._meta, write=True) as txn:
                    adopt = change(txn)
            except lmdb.Error as error:
                raise _store_error(self.path, error) from error
            if adopt is not None:
                adopt()

    def reader_check(self) -> int:
        """Free the slots of killed readers, whose views would pin old pages; return their number."""
        with self._opening:
            return self._env.reader_check()

    def stat(self) -> StoreStat:
        """Return the current sizes."""
        with self._opening:
            with self._env.begin(self._rows) as txn:
                rows = txn.stat(self._rows)["entries"]
            info, used = self._env.info(), bytes_used(self._env)
        return StoreStat(rows, used, info["map_size"], info["num_readers"])

    def sync(self) -> None:
        """Write all committed pages to disk."""
        with self._opening:
            self._env.sync(True)

    def close(self) -> None:
        """Sync the store, mark it as cleanly closed, and release it.

        From then on every other call raises :class:`StoreClosed`, so a thread that has outlasted its time
        does no harm. While it still reads, the environment stays open: the process is about to end.
        """
        with self._writing, self._opening:
            if self._closed:
                return
            self._closed = True
            closed: Any = _Closed(self.path)
            env, self._env = self._env, closed
            if not self.read_only:
                self._mark_clean(env)
            if views_have_ended(env):
                env.close()

    def _mark_clean(self, env: lmdb.Environment) -> None:
        # On a full disk the store stays marked as open, so it is rebuilt after a reboot.
        with suppress(lmdb.Error):
            env.sync(True)
            with env.begin(self._meta, write=True) as txn:
                txn.put(layout.META_CLEAN, b"1")
            env.sync(True)
            self._environment.cut(env)


class _Closed:
    """Placeholder for the environment of a closed store."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        raise StoreClosed(f"the store in {self._path} is closed")


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


def _change(commit: Commit, *, counting: bool) -> None:
    """Change the rows; ``counting``: say which versions and clears changed."""
    cursor, replaced, versions, clears = commit.rows, commit.replaced, commit.versions, commit.clears
    replace, pop, disturbed = cursor.replace, cursor.pop, commit.disturbed
    for key, value in commit.changed:
        old = pop(key) if value is None else replace(key, value)
        if key.startswith(VERSION):
            if value is not None and not disturbed:
                disturbed = _changes_revision(cursor, key, value, old)
            if counting:
                versions.append((key, old, value))
        elif counting and key.startswith(CLEAR):
            clears.append(key)
        if old is not None:
            replaced.append((key, old))
    commit.disturbed = disturbed


def _changes_revision(cursor: lmdb.Cursor[bytes], key: bytes, value: bytes, old: bytes | None) -> bool:
    """Evaluate :func:`.version_row.changes_revision` with the cursor that has just put the row."""
    if old is not None:
        return not same_content(old, value)
    return cursor.next() and cursor.key().startswith(key[:-4])


def _store_error(path: Path, error: lmdb.Error) -> StoreError:
    """Return the store's exception for an error of LMDB."""
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError | lmdb.BadTxnError | lmdb.PanicError):
        return DamagedStore(f"the store in {path} is damaged: {error}")
    if isinstance(error, lmdb.MapFullError):
        return StoreError(f"the store in {path} has reached its map size (setting store_map_bytes)")
    return StoreError(f"the store in {path} cannot be written: {error}{if_disk_full(path)}")
