"""The environment of a store: how it is opened, and how its file is written.

LMDB reads pages through a map of the file and writes them by calls. A store that is far behind its log is
also written through the map, so commits change pages in place. Otherwise LMDB keeps copies of them, 50 MB
for thousands of new rows, and writes each by a call of its own, half of a commit's time. But a full disk
ends a process that writes to a map (SIGBUS), and the file looks as long as the map. So the room for a commit
is taken on the disk before it begins, and the environment is opened again without such a map when the log
was read up to its end.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import lmdb

from registry.base.processes.lmdb_check import DATA

from .layout import READERS_MAX, TABLES

# Elsewhere, the file may not be sparse.
MAY_BE_MAPPED = sys.platform == "linux"
# More than the new pages of any commit, which has a few thousand records.
COMMIT_BYTES = 128 << 20
# A disk with less free space counts as full.
_ROOM_MIN = 1 << 20


class Environment:
    """Opens the environment in folder ``path``; ``synced``: each commit reaches the disk."""

    def __init__(self, path: Path, map_bytes: int, *, synced: bool) -> None:
        self._path, self._map_bytes, self._synced = path, map_bytes, synced
        self._taken_bytes = 0  # of the file, for which there is room on the disk

    def open(self, *, mapped: bool = False) -> lmdb.Environment:
        """Open it; ``mapped``: written through the map. Raises :class:`lmdb.Error`."""
        return lmdb.open(
            str(self._path), map_size=self._map_bytes, max_dbs=TABLES, mode=0o700, create=False,
            sync=self._synced, metasync=self._synced, writemap=mapped, max_readers=READERS_MAX,
            max_spare_txns=1,
        )  # fmt: skip

    def takes_room(self, env: lmdb.Environment) -> bool:
        """Take room on the disk for the pages of the next commits; return false if there is none.

        Room for two is taken, so that there is some for one that cannot leave the map yet.
        """
        used = bytes_used(env)
        if self._taken_bytes >= min(used + COMMIT_BYTES, self._map_bytes):
            return True
        end = min(used + 2 * COMMIT_BYTES, self._map_bytes)
        try:
            with (self._path / DATA).open("r+b", buffering=0) as file:
                os.posix_fallocate(file.fileno(), used, end - used)
        except OSError:
            return False
        self._taken_bytes = end
        return True

    def cut(self, env: lmdb.Environment) -> None:
        """End the file after its last page, also if a process was killed that wrote through the map."""
        size = bytes_used(env)
        with suppress(OSError):
            if (self._path / DATA).stat().st_size > size:
                os.truncate(self._path / DATA, size)


def bytes_used(env: lmdb.Environment) -> int:
    """Return the size of the file up to its last page."""
    used: int = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    return used


def if_disk_full(folder: Path) -> str:
    """Return what to add to an error of LMDB, which reports a partial write as an input/output error."""
    try:
        full = shutil.disk_usage(folder).free < _ROOM_MIN
    except OSError:
        return ""
    return "; the disk is full" if full else ""
