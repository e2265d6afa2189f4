"""Making an environment: empty, or from rows in the order of their keys.

Nothing here is a store before the file ``current`` names it; what a killed process leaves is removed by the
next start (:mod:`.open`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import lmdb

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.processes import file_lock
from registry.processes.lmdb_check import DATA

from . import layout
from .layout import State, StoreError

_COMMIT_BATCHES = 2
"""Of rows in one transaction, whose pages are held in memory until then."""
_ROOM_MIN = 1 << 20
"""Bytes that a disk has free which is not full."""


class OutOfOrder(Exception):
    """A row's key is not greater than the one before it."""


class Origin(NamedTuple):
    """What an environment is told about its rows."""

    fold: int
    """Version of the fold that made them."""
    log: str
    """Identity of the log."""
    state: State
    at_end_ms: int
    """When they were those at the log's end, ms since the epoch."""
    snapshot: str = ""
    """Id of the snapshot that they were loaded from, while nobody has added them up."""
    lineage: Lineage = NOTHING


class NewStore:
    """The environment in ``folder``, which must not exist, for a ``with`` block.

    Raises :class:`StoreError` when the disk or the map is full.
    """

    def __init__(self, folder: Path, map_bytes: int) -> None:
        self._folder = folder
        self._pending = self._rows_added = 0
        try:
            # Whole or not at all is what the file "current" is for: pages go to disk once, at the end.
            self._env = lmdb.open(
                str(folder), map_size=map_bytes, max_dbs=layout.TABLES, mode=0o700,
                max_readers=layout.READERS_MAX, sync=False, metasync=False, readahead=False,
            )  # fmt: skip
            self._rows = self._env.open_db(layout.ROWS)
            self._meta = self._env.open_db(layout.META)
            self._txn = self._env.begin(self._rows, write=True)
        except lmdb.Error as error:
            raise self._meant(error) from error
        self._thread = ThreadPoolExecutor(1, "sync")
        self._syncing: Future[None] | None = None

    def append(self, rows: Iterable[tuple[bytes, bytes]], count: int) -> None:
        """Add ``count`` rows, some megabytes at most, whose keys all are greater than those before.

        Raises :class:`OutOfOrder`.
        """
        try:
            with self._txn.cursor() as cursor:
                consumed, added = cursor.putmulti(rows, append=True)
            if not consumed == added == count:
                raise OutOfOrder(
                    f"the row after the {self._rows_added + added}th has a smaller key, or the same"
                )
            self._rows_added += added
            self._pending += 1
            if self._pending == _COMMIT_BATCHES:
                self._pending = 0
                self._txn.commit()
                self._txn = self._env.begin(self._rows, write=True)
                if self._syncing is None or self._syncing.done():
                    self._syncing = self._thread.submit(self._write_out)
        except lmdb.Error as error:
            raise self._meant(error) from error

    def _write_out(self) -> None:
        """Bring to disk what was committed, so that little is left for the end."""
        with suppress(OSError):  # the sync at the end would meet it too
            fd = os.open(self._folder / DATA, os.O_RDONLY)
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def finish(self, origin: Origin) -> None:
        """Say what the rows are, and bring everything to disk."""
        meta = {
            layout.META_FORMAT: layout.FORMAT,
            layout.META_FOLD: b"%d" % origin.fold,
            layout.META_LOG: origin.log.encode(),
            layout.META_BOOT: layout.boot_id(),
            layout.META_CLEAN: b"1",
            layout.META_STATE: origin.state.pack(),
            layout.META_AT_END: b"%d" % origin.at_end_ms,
            layout.META_LOADED: origin.snapshot.encode(),
            layout.META_LINEAGE: origin.lineage.pack(),
        }
        try:
            for name, value in meta.items():
                self._txn.put(name, value, db=self._meta)
            self._txn.commit()
            self._env.sync(True)
            file_lock.sync(self._folder)
            file_lock.sync(self._folder.parent)
        except lmdb.Error as error:
            raise self._meant(error) from error

    def _meant(self, error: lmdb.Error) -> StoreError:
        if isinstance(error, lmdb.MapFullError):
            return StoreError(f"the store {self._folder} has reached its map size (setting store_map_bytes)")
        # LMDB calls a page that was written only in part an input/output error.
        try:
            full = shutil.disk_usage(self._folder.parent).free < _ROOM_MIN
        except OSError:
            full = False
        room = "; there is no room left on the disk" if full else ""
        return StoreError(f"the store {self._folder} cannot be written: {error}{room}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(cancel_futures=True)
        with suppress(lmdb.Error):
            self._txn.abort()
        self._env.close()
