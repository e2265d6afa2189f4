"""Read access to a store for commands while no node runs, regardless of the log it was built from.

Only the lock is written, and a bad store is not set aside.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.rows import digest
from registry.domain.rows.view import scan
from registry.processes.lmdb_check import CannotExamine, examine, read_only

from . import layout
from .layout import DamagedStore, State, StoreError, StoreMissing, hold, read_current
from .views import StoreView


class OfflineStore:
    """The current store in folder ``path``, locked until its ``with`` block ends.

    Raises :class:`StoreMissing`, :class:`StoreError` if a node has it open or its rows are of another fold
    version, :class:`DamagedStore`.
    """

    def __init__(self, path: Path) -> None:
        current = read_current(path)
        if current is None:
            raise StoreMissing(f"there is no store in {path}")
        # Identity of the log that it was built from.
        self.log = current.log
        self._lock_fd = hold(path)
        try:
            self._folder = path / current.name
            self._env = _open(self._folder)
        except BaseException:
            os.close(self._lock_fd)
            raise
        try:
            self._rows = self._env.open_db(layout.ROWS, create=False)
            self._meta = self._env.open_db(layout.META, create=False)
            self.state = self._state()
        except BaseException:
            self.close()
            raise

    def _state(self) -> State:
        with self._env.begin(self._meta) as txn:
            fold = (txn.get(layout.META_FOLD) or b"").decode()
            state = State.unpack(txn.get(layout.META_STATE) or b"")
        if fold != str(FOLD_VERSION):
            raise StoreError(f"the store {self._folder} has rows of fold {fold}; this is fold {FOLD_VERSION}")
        return state

    def check(self) -> None:
        """Verify the digest of all rows. Raises :class:`DamagedStore` if it differs."""
        with self.view() as view:
            if digest.of_rows(scan(view, b"")) != self.state.digest:
                raise DamagedStore(f"the rows in {self._folder} do not match the stored digest")

    def view(self) -> StoreView:
        """Return a view of the rows, for a ``with`` block."""
        return StoreView(self._env, self._rows, self._meta)

    def close(self) -> None:
        """Release the store, so that a node can open it."""
        self._env.close()
        os.close(self._lock_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(folder: Path) -> lmdb.Environment:
    try:
        findings = examine("registry.store.check", folder)
        if findings:
            raise DamagedStore(f"the store {folder} is damaged: {'; '.join(findings)}")
        return read_only(folder, layout.TABLES)
    except CannotExamine as error:
        raise StoreError(str(error)) from error
    except lmdb.Error as error:
        raise StoreError(f"the store {folder} cannot be opened: {error}") from error
