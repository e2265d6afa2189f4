"""The catalogue for an embedded log: a folder with one file for each entry.

Files rather than LMDB: a damaged LMDB file kills every process that maps it, and entries are few and small.
Any number of processes may use it: a lock makes reading and replacing an entry one step, and files are
replaced by renames, so readers need no lock.

The path of a location within the data folder is kept relative to it: if the data folder is moved or copied,
entries refer to the snapshots next to them, and a copy never deletes the original's snapshots.
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

from registry.base.processes import file_lock

from .catalogue import CatalogueError, Entry, follows, is_name

_ENTRY = ".json"
_MARKED = "marked"
_LOCK = "lock"
# Prefix of the URI of a location within the data folder, as it is kept.
_WITHIN = "./"
_log = logging.getLogger(__name__)


class EmbeddedCatalogue:
    """The catalogue in ``folder``, a folder of the data folder that is created with the first entry.

    See :class:`.catalogue.Catalogue`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = f"{folder.absolute().parent}/"
        self._reported: set[str] = set()

    @property
    def identity(self) -> str:
        """Identity of the lock file, which is never written; see :attr:`.catalogue.Catalogue.identity`."""
        try:
            lock = (self._folder / _LOCK).stat()
        except OSError:
            return ""
        return f"{lock.st_ino}.{lock.st_mtime_ns}"

    def entries(self) -> dict[str, Entry]:
        """Return the entries by id, see :meth:`.catalogue.Catalogue.entries`."""
        with _errors_translated(self._folder):
            try:
                files = sorted(self._folder.iterdir())
            except FileNotFoundError:
                return {}
            found = (self._read(file.stem) for file in files if file.suffix == _ENTRY)
            return {entry.id: entry for entry in found if entry is not None}

    def put(self, entry: Entry) -> Entry | None:
        """Write an entry, see :meth:`.catalogue.Catalogue.put`."""
        if not is_name(entry.id):
            raise CatalogueError(f"{entry.id!r} cannot be the id of a snapshot")
        with self._lock():
            current = self._read(entry.id)
            if not follows(current, entry):
                return current
            self._write(entry.id + _ENTRY, self._relative(entry).dumps())
            return entry

    def forget(self, id: str) -> None:
        """Remove an entry, see :meth:`.catalogue.Catalogue.forget`."""
        if not is_name(id) or not (self._folder / (id + _ENTRY)).exists():
            return
        with self._lock():
            (self._folder / (id + _ENTRY)).unlink(missing_ok=True)
            file_lock.sync(self._folder)

    def marked(self, log: str) -> int:
        """Return the marked offset of a log, see :meth:`.catalogue.Catalogue.marked`."""
        with _errors_translated(self._folder):
            try:
                return int(json.loads((self._folder / _MARKED).read_bytes()).get(log, -1))
            except FileNotFoundError:
                return -1
            except (ValueError, TypeError, AttributeError):
                return -1

    def mark(self, log: str, offset: int) -> None:
        """Mark an offset of a log, see :meth:`.catalogue.Catalogue.mark`."""
        with self._lock():
            self._write(_MARKED, json.dumps({log: offset}).encode())

    def rest(self) -> None:
        """Do nothing: no file is kept open."""

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with _errors_translated(self._folder):
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
                raise ValueError(f"it holds the entry {entry.id!r}")  # noqa: TRY301 (reported as the others)
        except FileNotFoundError:
            return None
        except ValueError as error:
            if id not in self._reported:
                self._reported.add(id)
                _log.warning(
                    "ignoring the file %s of the catalogue: %s",
                    self._folder / (id + _ENTRY),
                    error,
                )
            return None
        if entry.uri.startswith(_WITHIN):
            return replace(entry, uri=self._data + entry.uri.removeprefix(_WITHIN))
        return entry

    def _relative(self, entry: Entry) -> Entry:
        if entry.uri.startswith(self._data):
            return replace(entry, uri=_WITHIN + entry.uri.removeprefix(self._data))
        return entry


@contextmanager
def _errors_translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CatalogueError(f"cannot use the catalogue in {folder}: {error.strerror or error}") from error
