"""The store as readers open it: read-only, in processes other than the node."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import lmdb

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.lineage import Lineage

from . import layout
from .layout import State, StoreError, StoreMissing, read_current
from .views import NO_MEMO, Memo, StoreView

_Mark = tuple[int, int] | None


class StoreReader:
    """The rows of the store in folder ``path``, which need not exist yet.

    The node may create a new store at any time; :meth:`refresh`, called by one thread, follows it. Other
    threads may open views. Create the object in the process that uses it, never before a fork.

    ``map_bytes``: the node's map size, if known. A store that grows beyond its map is opened again.
    """

    def __init__(self, path: Path, map_bytes: int = 0) -> None:
        self._path = path
        self._map_bytes = map_bytes
        self._opened = 0
        self._outgrown = False
        self._opening = threading.Lock()
        self._mark: _Mark = None
        self._env: lmdb.Environment | None = None
        self._rows: Any = None
        self._meta: Any = None
        self._history: Any = None
        self._memo: Memo = [NO_MEMO]
        self.refresh()

    def refresh(self) -> bool:
        """Open the current store if it has changed; return True if there is one. Cheap if nothing changed."""
        with self._opening:
            mark = _mark(self._path / layout.CURRENT)
            if mark is not None and (mark != self._mark or self._env is None):
                self._reopen(mark)
            if self._history is None and self._env is not None:
                self._history = _history(self._env)  # the node may have created it meanwhile
            return self._env is not None

    def is_complete(self) -> bool:
        """Return true if the rows are of this release's fold and were once read up to the log's end."""
        if self._env is None:
            return False
        with self._env.begin(self._meta) as txn:
            fold, built = txn.get(layout.META_FOLD), txn.get(layout.META_BUILT)
        return fold == b"%d" % FOLD_VERSION and built != b"0"

    def _reopen(self, mark: _Mark) -> None:
        current = read_current(self._path)
        if current is None:
            return
        try:
            env = lmdb.open(
                str(self._path / current.name), max_dbs=layout.TABLES, readonly=True, create=False,
                map_size=self._map_bytes, max_readers=layout.READERS_MAX, max_spare_txns=1,
            )  # fmt: skip
            rows = env.open_db(layout.ROWS, create=False)
            meta = env.open_db(layout.META, create=False)
            history = _history(env)
        except lmdb.Error:
            # Replaced or removed at this moment: the next refresh finds the new state.
            return
        # The former environment closes with its last view, which may be in another thread.
        self._mark, self._env, self._rows, self._meta, self._history = mark, env, rows, meta, history
        self._memo = [NO_MEMO]
        self._opened += 1
        self._outgrown = False

    def view(self) -> StoreView:
        """Return a view of the committed rows, for a ``with`` block.

        Raises :class:`StoreMissing` if there is no store yet, or while older views keep a store that has
        outgrown its map from being opened again.
        """
        txn, opened, memo = self._begin()
        return StoreView(txn, self._rows, self._meta, self._history, opened << 48 | txn.id(), memo)

    def view_unless(self, moment: int | None) -> StoreView | None:
        """Return a view, or ``None`` if the rows are still those of ``moment``, which costs a tenth of it.

        Raises as :meth:`view`.
        """
        txn, opened, memo = self._begin()
        found = opened << 48 | txn.id()
        if found == moment:
            txn.abort()
            return None
        return StoreView(txn, self._rows, self._meta, self._history, found, memo)

    def _begin(self) -> tuple[lmdb.Transaction[bytes], int, Memo]:
        """Return a read transaction, with the number of the store's opening and the memo of its views."""
        opened, memo = self._opened, self._memo
        if self._env is not None:
            try:
                return self._env.begin(self._rows), opened, memo
            except lmdb.MapResizedError:
                # The exception's frames hold the environment, which must be closed before it is opened again.
                pass
            self._drop(opened)
        if self._outgrown:
            self.refresh()
        opened, memo = self._opened, self._memo
        if self._env is None:
            raise StoreMissing(f"there is no store in {self._path} yet")
        return self._env.begin(self._rows), opened, memo

    def _drop(self, opened: int) -> None:
        """Release an environment that has outgrown its map, unless another thread has done so."""
        with self._opening:
            if opened == self._opened:
                self._env = self._rows = self._meta = None
                self._outgrown = True

    def state(self) -> State:
        """Return applied offset and digest. Raises :class:`StoreMissing`."""
        try:
            with self.view() as view:
                return view.state()
        except (lmdb.Error, ValueError) as error:
            raise StoreError(f"the store in {self._path} cannot be read: {error}") from error

    def lineage(self) -> Lineage:
        """Return the lineage of the log that was applied. Raises :class:`StoreMissing`."""
        try:
            with self.view() as view:
                return view.lineage()
        except (lmdb.Error, ValueError) as error:
            raise StoreError(f"the store in {self._path} cannot be read: {error}") from error

    def close(self) -> None:
        """Release the store; open views become invalid."""
        if self._env is not None:
            self._env.close()
            self._env = None


def _history(env: lmdb.Environment) -> Any:
    """Return the table of the history; ``None`` in a store of an older release that no node has opened."""
    try:
        return env.open_db(layout.HISTORY, create=False)
    except lmdb.NotFoundError:
        return None


def _mark(file: Path) -> _Mark:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns
