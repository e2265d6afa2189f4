"""The reader's side of the store: read-only, in other processes than the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lmdb

from . import layout
from .layout import State, StoreError, StoreMissing, read_current
from .view import Memo, StoreView

_Mark = tuple[int, int] | None


class StoreReader:
    """The rows of the store in folder ``path``, whether or not it is there yet.

    The node may begin another store at any time; :meth:`refresh`, called by one thread, follows it.
    Views may be opened by others. Open it after the process was started, never before a fork.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: _Mark = None
        self._env: lmdb.Environment | None = None
        self._rows: Any = None
        self._meta: Any = None
        self._memo: Memo = [(-1, 0)]
        self.refresh()

    def refresh(self) -> bool:
        """Open the current store if it is another than before; whether there is one. Cheap when it is not."""
        mark = _mark(self._path / layout.CURRENT)
        if mark is not None and (mark != self._mark or self._env is None):
            self._reopen(mark)
        return self._env is not None

    def _reopen(self, mark: _Mark) -> None:
        current = read_current(self._path)
        if current is None:
            return
        try:
            env = lmdb.open(
                str(self._path / current.name), max_dbs=layout.TABLES, readonly=True, create=False,
                map_size=0, max_readers=layout.READERS_MAX, max_spare_txns=1,
            )  # fmt: skip
            rows = env.open_db(layout.ROWS, create=False)
            meta = env.open_db(layout.META, create=False)
        except lmdb.Error:
            # Swapped or removed just now: the next refresh sees what came of it.
            return
        # The environment of before closes with its last view, which may be in another thread.
        self._mark, self._env, self._rows, self._meta = mark, env, rows, meta
        self._memo = [(-1, 0)]

    def view(self) -> StoreView:
        """The committed rows, for a ``with`` block; :class:`StoreMissing` when there is no store yet."""
        if self._env is None:
            raise StoreMissing(f"there is no store in {self._path} yet")
        return StoreView(self._env, self._rows, self._meta, self._memo)

    def state(self) -> State:
        """Applied offset and digest; :class:`StoreMissing` when there is no store yet."""
        try:
            with self.view() as view:
                return view.state()
        except (lmdb.Error, ValueError) as error:
            raise StoreError(f"the store in {self._path} cannot be read: {error}") from error

    def close(self) -> None:
        """Release the store; views become errors."""
        if self._env is not None:
            self._env.close()
            self._env = None


def _mark(file: Path) -> _Mark:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns
