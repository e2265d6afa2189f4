"""The catalogue beside an embedded log: a folder with one file for each entry.

Files and not LMDB: a damaged file of LMDB kills whoever maps it, and entries are few and small. Any number
of processes may use it: one lock makes reading what stands and replacing it one step, and a file is replaced
by a rename, so that readers need no lock.

A location within the data folder is kept by its path from there: where that folder was moved or copied, the
entries mean the snapshots beside them, and a copy deletes none of the original's.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from registry.processes import file_lock

from .catalogue import CatalogueError, Entry, follows, is_name

_ENTRY = ".json"
_MARKED = "marked"
_LOCK = "lock"
_WITHIN = "./"
"""What the path of a location within the data folder begins with."""
_log = logging.getLogger(__name__)


class EmbeddedCatalogue:
    """The catalogue in ``folder``, a folder of the data folder that is made with the first entry.

    See :class:`.catalogue.Catalogue`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = f"{folder.absolute().parent}/"
        self._told: set[str] = set()

    @property
    def identity(self) -> str:
        """See :attr:`.catalogue.Catalogue.identity`: that of the lock's file, which nobody writes to."""
        try:
            lock = (self._folder / _LOCK).stat()
        except OSError:
            return ""
        return f"{lock.st_ino}.{lock.st_mtime_ns}"

    def entries(self) -> dict[str, Entry]:
        """All entries as of now."""
        with _told(self._folder):
            try:
                files = sorted(self._folder.iterdir())
            except FileNotFoundError:
                return {}
            found = (self._read(file.stem) for file in files if file.suffix == _ENTRY)
            return {entry.id: entry for entry in found if entry is not None}

    def put(self, entry: Entry) -> Entry | None:
        """See :meth:`.catalogue.Catalogue.put`."""
        if not is_name(entry.id):
            raise CatalogueError(f"{entry.id!r} cannot be the id of a snapshot")
        with self._alone():
            stands = self._read(entry.id)
            if not follows(stands, entry):
                return stands
            self._write(entry.id + _ENTRY, self._kept(entry).dumps())
            return entry

    def forget(self, id: str) -> None:
        """See :meth:`.catalogue.Catalogue.forget`."""
        if not is_name(id) or not (self._folder / (id + _ENTRY)).exists():
            return
        with self._alone():
            (self._folder / (id + _ENTRY)).unlink(missing_ok=True)
            file_lock.sync(self._folder)

    def marked(self, log: str) -> int:
        """See :meth:`.catalogue.Catalogue.marked`."""
        with _told(self._folder):
            try:
                return int(json.loads((self._folder / _MARKED).read_bytes()).get(log, -1))
            except FileNotFoundError:
                return -1
            except (ValueError, TypeError, AttributeError):
                return -1

    def mark(self, log: str, offset: int) -> None:
        """See :meth:`.catalogue.Catalogue.mark`."""
        with self._alone():
            self._write(_MARKED, json.dumps({log: offset}).encode())

    def rest(self) -> None:
        """Nothing is kept open."""

    def close(self) -> None:
        """Nothing is kept open."""

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with _told(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)

    def _write(self, name: str, data: bytes) -> None:
        file_lock.replace(self._folder / name, data, self._folder / f"{name}.new")

    def _read(self, id: str) -> Entry | None:
        try:
            entry = Entry.loads((self._folder / (id + _ENTRY)).read_bytes())
            if entry.id != id:
                raise ValueError(f"it holds the entry {entry.id!r}")  # noqa: TRY301 (told as the others)
        except FileNotFoundError:
            return None
        except ValueError as error:
            if id not in self._told:
                self._told.add(id)
                _log.warning(
                    "the file %s is no entry of the catalogue: %s", self._folder / (id + _ENTRY), error
                )
            return None
        if entry.uri.startswith(_WITHIN):
            return replace(entry, uri=self._data + entry.uri.removeprefix(_WITHIN))
        return entry

    def _kept(self, entry: Entry) -> Entry:
        if entry.uri.startswith(self._data):
            return replace(entry, uri=_WITHIN + entry.uri.removeprefix(self._data))
        return entry


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CatalogueError(
            f"the catalogue in {folder} cannot be used: {error.strerror or error}"
        ) from error
