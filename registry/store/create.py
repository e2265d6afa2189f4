"""Creation of an environment: empty, or from rows in key order.

An environment is not a store until the file ``current`` names it. The next start removes what a killed
process has left (:mod:`.open`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import lmdb

from registry.base.processes import file_lock
from registry.base.processes.lmdb_check import DATA
from registry.domain.log_format.lineage import NOTHING, Lineage

from . import layout
from .environment import MAY_BE_MAPPED, Environment, if_disk_full
from .layout import State, StoreError


class OutOfOrder(Exception):
    """A row's key is not greater than the one before it."""


class Origin(NamedTuple):
    """The origin of an environment's rows."""

    # Version of the fold that produced the rows.
    fold: int
    # Identity of the log.
    log: str
    state: State
    # When the rows were up to date with the log's end, in ms since the epoch.
    at_end_ms: int
    # Id of the snapshot that they were loaded from, until their digest is verified.
    snapshot: str = ""
    lineage: Lineage = NOTHING


class NewStore:
    """A new environment in ``folder``, which must not exist; used in a ``with`` block.

    Raises :class:`StoreError` if the disk or the map is full.
    """

    def __init__(self, folder: Path, map_bytes: int) -> None:
        self._folder = folder
        self._rows_added = 0
        self._environment = Environment(folder, map_bytes, synced=False)
        self._takes_room = MAY_BE_MAPPED
        try:
            # The file "current" makes creation atomic, so pages need to reach the disk only once, at the end.
            # No writable map: its page faults cost twice what the copies do, and a full disk would kill the
            # process.
            self._env = lmdb.open(
                str(folder), map_size=map_bytes, max_dbs=layout.TABLES, mode=0o700,
                max_readers=layout.READERS_MAX, sync=False, metasync=False, readahead=False,
            )  # fmt: skip
            self._rows = self._env.open_db(layout.ROWS)
            self._meta = self._env.open_db(layout.META)
            self._txn = self._env.begin(self._rows, write=True)
        except lmdb.Error as error:
            raise self._store_error(error) from error
        self._thread = ThreadPoolExecutor(1, "sync")
        self._syncing: Future[None] | None = None

    def append(self, rows: Iterable[tuple[bytes, bytes]]) -> int:
        """Add rows, a few megabytes at most, whose keys are greater than all before; return their number.

        Raises :class:`OutOfOrder`, and what ``rows`` raises.
        """
        try:
            with self._txn.cursor() as cursor:
                consumed, added = cursor.putmulti(rows, append=True)
            if added < consumed:
                raise OutOfOrder(
                    f"row {self._rows_added + added + 1} has a key that is not greater than the one before"
                )
            self._rows_added += added
            # The disk gives the pages of many commits together sooner than one by one.
            self._takes_room = self._takes_room and self._environment.takes_room(self._env)
            self._txn.commit()
            self._txn = self._env.begin(self._rows, write=True)
            if self._syncing is None or self._syncing.done():
                self._syncing = self._thread.submit(self._write_out)
        except lmdb.Error as error:
            raise self._store_error(error) from error
        return added

    def _write_out(self) -> None:
        """Write committed pages to disk, so that the sync at the end is short."""
        with suppress(OSError):  # the sync at the end would fail, too
            fd = os.open(self._folder / DATA, os.O_RDONLY)
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def finish(self, origin: Origin) -> None:
        """Write the meta rows and sync everything to disk."""
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
            layout.META_BUILT: b"0",
        }
        try:
            for name, value in meta.items():
                self._txn.put(name, value, db=self._meta)
            self._txn.commit()
            self._environment.cut(self._env)
            self._env.sync(True)
            file_lock.sync(self._folder)
            file_lock.sync(self._folder.parent)
        except lmdb.Error as error:
            raise self._store_error(error) from error

    def _store_error(self, error: lmdb.Error) -> StoreError:
        if isinstance(error, lmdb.MapFullError):
            return StoreError(f"the store {self._folder} has reached its map size (setting store_map_bytes)")
        return StoreError(
            f"the store {self._folder} cannot be written: {error}{if_disk_full(self._folder.parent)}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(cancel_futures=True)
        with suppress(lmdb.Error):
            self._txn.abort()
        self._env.close()
