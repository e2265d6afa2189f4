"""Read access to a store for commands while no node runs, regardless of the log it was built from.

Only the lock is written, and a bad store is not set aside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb

from registry.base.processes.lmdb_check import CannotExamine, examine, read_only
from registry.domain.fold import former
from registry.domain.rows import digest
from registry.domain.rows.memory_views import OverlayView
from registry.domain.rows.view import View, scan

from . import layout
from .examination import read_meta
from .folder import environments
from .layout import DamagedStore, State, StoreError, StoreMissing, hold, read_current
from .views import StoreView


class OfflineStore:
    """The current store in folder ``path``, or the one called ``name``, locked until its ``with`` block ends.

    Rows of a former fold version are shown with what they lack. Raises :class:`StoreMissing`,
    :class:`StoreError` if a node has it open or its rows are of a fold version that this release does not
    know, :class:`DamagedStore`.
    """

    def __init__(self, path: Path, name: str = "") -> None:
        current = read_current(path)
        name = name or (current.name if current else "")
        try:
            found = path.is_dir() and path / name in environments(path)
        except OSError as error:
            raise StoreError(f"the store in {path} cannot be read: {error.strerror or error}") from error
        if not found:
            raise StoreMissing(f"there is no store{name and ' ' + name} in {path}")
        self._lock_fd = hold(path)
        self.folder = path / name
        try:
            _examine(self.folder)
            meta = read_meta(self.folder)
            self._env = read_only(self.folder, layout.TABLES)
        except lmdb.Error as error:
            os.close(self._lock_fd)
            raise StoreError(f"the store {self.folder} cannot be opened: {error}") from error
        except BaseException:
            os.close(self._lock_fd)
            raise
        try:
            self._rows = self._env.open_db(layout.ROWS, create=False)
            self._meta = self._env.open_db(layout.META, create=False)
            # Identity of the log that it was built from.
            self.log = meta[layout.META_LOG].decode()
            self.state = State.unpack(meta[layout.META_STATE])
            # False if the log was not yet read up to its end.
            self.is_complete = meta.get(layout.META_BUILT) != b"0"
            self._added = self._missing(meta[layout.META_FOLD].decode())
        except BaseException:
            self.close()
            raise

    def _missing(self, fold: str) -> dict[bytes, bytes | None]:
        """Return what rows of a former version lack."""
        if not former.can_read(fold):
            raise StoreError(
                f"the store {self.folder} has rows of fold {fold}, which this release does not know"
            )
        with self._view() as view:
            return dict(former.missing(view, int(fold)))

    def others(self) -> list[Path]:
        """Return the other stores in the folder: set aside, or being built."""
        return [each for each in environments(self.folder.parent) if each != self.folder]

    def check(self) -> None:
        """Verify the digest of all rows. Raises :class:`DamagedStore` if it differs."""
        with self._view() as view:
            if digest.of_rows(scan(view, b"")) != self.state.digest:
                raise DamagedStore(f"the rows in {self.folder} do not match the stored digest")

    @contextmanager
    def view(self) -> Iterator[View]:
        """Yield a view of the rows, for a ``with`` block."""
        with self._view() as view:
            yield OverlayView(view, self._added) if self._added else view

    def _view(self) -> StoreView:
        return StoreView(self._env.begin(self._rows), self._rows, self._meta)

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


def _examine(folder: Path) -> None:
    try:
        findings = examine("registry.store.check", folder)
    except CannotExamine as error:
        raise StoreError(str(error)) from error
    if findings:
        raise DamagedStore(f"the store {folder} is damaged: {'; '.join(findings)}")
