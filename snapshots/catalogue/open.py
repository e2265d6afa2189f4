"""Opening the catalogue and location that the settings name; the catalogue of an embedded log is a folder."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from registry.base.config.settings import Settings
from registry.base.config.sources import current_secret
from registry.base.observe.progress import announced_if_slow
from registry.base.processes import file_lock
from snapshots.format.files import Files
from snapshots.format.location import Location
from snapshots.format.manifest import ManifestKeys

from .catalogue import Catalogue, CatalogueError, Entry, follows, is_name

_ENTRY = ".json"
_MARKED = "marked"
_LOCK = "lock"
# Prefix of the URI of a location within the data folder, as it is kept.
_WITHIN = "./"
_log = logging.getLogger(__name__)


class EmbeddedCatalogue:
    """The catalogue in ``folder``, a folder of the data folder that is created with the first entry.

    See :class:`.catalogue.Catalogue`. Each entry is a file rather than a row in LMDB: a damaged LMDB file
    kills every process that maps it, and entries are few and small. Any number of processes may use it: a
    lock makes reading and replacing an entry one step, and files are replaced by renames, so readers need no
    lock.

    The path of a location within the data folder is kept relative to it: if the data folder is moved or
    copied, entries refer to the snapshots next to them, and a copy never deletes the original's snapshots.
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

    def marked_offset(self, log: str) -> int:
        """Return the marked offset of a log, see :meth:`.catalogue.Catalogue.marked_offset`."""
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


_T = TypeVar("_T")


def manifest_keys(settings: Settings) -> ManifestKeys:
    """Return the keys as they are now: their files may have changed since the start."""
    return ManifestKeys(
        current_secret(settings.snapshots_key, settings.snapshots_key_file),
        current_secret(settings.snapshots_old_key, settings.snapshots_old_key_file),
    )


def open_location(settings: Settings) -> Location:
    """Return the location for a command, which says so if it does not answer at once; nothing is read yet.

    Raises :class:`snapshots.format.files.BadLocation`.
    """
    location = Location.parse(settings.snapshots_location, manifest_keys(settings))
    if location.is_remote:
        location.backing = _AnnouncedFiles(location.backing, f"waiting for the snapshots in {location}")
    return location


class _AnnouncedFiles:
    """Files whose requests are announced if they take long, until one has been answered."""

    def __init__(self, files: Files, text: str) -> None:
        self._files = files
        self._text = text
        self._answered = False

    def read(self, path: str, most: int) -> bytes:
        return self._request_announced(lambda: self._files.read(path, most))

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        return self._request_announced(lambda: self._files.read_range(path, begin, length))

    def copy(self, path: str, new: str) -> bool:
        return self._request_announced(lambda: self._files.copy(path, new))

    def write(self, path: str, data: bytes) -> None:
        self._request_announced(lambda: self._files.write(path, data))

    def names(self, path: str, *, folders: bool) -> list[str]:
        return self._request_announced(lambda: self._files.names(path, folders=folders))

    def delete(self, path: str) -> None:
        self._request_announced(lambda: self._files.delete(path))

    def delete_folder(self, path: str) -> None:
        self._request_announced(lambda: self._files.delete_folder(path))

    def _request_announced(self, request: Callable[[], _T]) -> _T:
        if self._answered:
            return request()
        with announced_if_slow(self._text):
            answer = request()
        self._answered = True
        return answer


def catalogue_topic(settings: Settings) -> str:
    """Return the name of the catalogue's topic."""
    return f"{settings.topic}_snapshots"


def open_catalogue(settings: Settings, *, command: bool = False) -> Catalogue:
    """Return the log's catalogue, without reading, creating or connecting to anything yet.

    For a ``command``, it is printed that Kafka is waited for.
    """
    if not settings.kafka:
        return EmbeddedCatalogue(settings.data / "catalogue")
    from registry.log.kafka import open_topic  # noqa: PLC0415 (not for a standalone node)

    from .kafka import KafkaCatalogue  # noqa: PLC0415 (as above)

    opened = open_topic.open_unfenced_topic_for_command if command else open_topic.open_unfenced_topic
    topic = catalogue_topic(settings)
    return KafkaCatalogue(lambda make: opened(settings, topic, make=make))
