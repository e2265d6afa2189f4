"""The file operations that a location needs, their errors, and a location in a folder.

The folder is on this machine, or on a mounted network file system.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from registry.base.processes import file_lock

# Prefix of files that are being written; a location does not list such names.
_UNFINISHED = ".new-"


class BadLocation(Exception):
    """The text does not name a location; the message says what would."""


class MissingFile(Exception):
    """The file does not exist; the text is its path."""


class LocationUnreachable(Exception):
    """The location did not answer, refused, or has no bucket; the text says so. A retry may succeed."""


class Files(Protocol):
    """The file system behind a location; paths are relative to the location's folder.

    Every call raises :class:`LocationUnreachable`.
    """

    def read(self, path: str, most: int) -> bytes:
        """Return the content of a file; of one with more than ``most`` bytes, one byte more than that.

        Raises :class:`MissingFile`.
        """
        ...

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        """Return the bytes of a file from ``begin`` on, fewer than ``length`` only at its end.

        Raises :class:`MissingFile`.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file and its folder, whole or not at all."""
        ...

    def copy(self, path: str, new: str) -> bool:
        """Create or replace the file ``new`` with the content of ``path``, which does not pass this process.

        Return false if this file system cannot do that; then nothing has changed. Neither file may be
        changed later: they may share their content. Raises :class:`MissingFile`.
        """
        ...

    def names(self, path: str, *, folders: bool) -> list[str]:
        """Return the folders, or the files, directly within a folder; empty if only the folder is missing."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        ...

    def delete_folder(self, path: str) -> None:
        """Delete a folder and its content if it exists."""
        ...


class LocalFolder:
    """A folder on disk; see :class:`.files.Files`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str, most: int) -> bytes:
        """Return the content of a file, at most ``most`` bytes and one."""
        with _errors_translated(path):
            try:
                with (self._folder / path).open("rb") as file:
                    return file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingFile(str(self._folder / path)) from error

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        """Return some bytes of a file."""
        with _errors_translated(path):
            try:
                with (self._folder / path).open("rb", buffering=0) as file:
                    file.seek(begin)
                    return file.read(length)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingFile(str(self._folder / path)) from error

    def copy(self, path: str, new: str) -> bool:
        """Link the file under a temporary name, and rename it into place."""
        file = self._folder / new
        link = file.with_name(f"{_UNFINISHED}{os.getpid()}-{file.name}")
        with _errors_translated(path):
            _make_private(file.parent)
            link.unlink(missing_ok=True)
            try:
                link.hardlink_to(self._folder / path)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise MissingFile(str(self._folder / path)) from error
            except OSError:
                return False  # Some file systems have no links, or only so many of one file.
            link.replace(file)
            # Renaming one link to another of the same file does nothing.
            link.unlink(missing_ok=True)
            file_lock.sync(file.parent)
        return True

    def write(self, path: str, data: bytes) -> None:
        """Write to a temporary file, sync it, and rename it into place."""
        file = self._folder / path
        new = file.with_name(f"{_UNFINISHED}{os.getpid()}-{file.name}")
        with _errors_translated(path):
            _make_private(file.parent)
            file_lock.replace(file, data, new)

    def names(self, path: str, *, folders: bool) -> list[str]:
        """Return the folders or files within a folder."""
        with _errors_translated(path):
            try:
                with os.scandir(self._folder / path) as entries:
                    return [each.name for each in entries if (each.is_dir() if folders else each.is_file())]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def delete(self, path: str) -> None:
        """Delete a file; synced before this returns, so that deletions keep their order."""
        file = self._folder / path
        with _errors_translated(path):
            try:
                file.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            file_lock.sync(file.parent)

    def delete_folder(self, path: str) -> None:
        """Delete a folder and its content."""
        with _errors_translated(path):
            try:
                shutil.rmtree(self._folder / path)
            except FileNotFoundError:
                return


def _make_private(folder: Path) -> None:
    """Create ``folder`` and its missing parents for this user alone."""
    # The mode that is given to mkdir(parents=True) applies to the last folder only.
    missing = [folder, *folder.parents]
    for each in reversed([path for path in missing if not path.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def _errors_translated(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocationUnreachable(f"{error.strerror or error}: {error.filename or path}") from error
