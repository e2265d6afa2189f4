"""A location in a folder of this machine, or of a network file system that is mounted here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.processes import file_lock as kept_folders

from .location import LocationUnreachable, Missing

_UNFINISHED = ".new-"
"""What files begin with that are being written; such names are no files of a location."""


class Disk:
    """See :class:`.location.Files`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with _told(path):
            try:
                return (self._folder / path).read_bytes()
            except (FileNotFoundError, NotADirectoryError) as error:
                raise Missing(str(self._folder / path)) from error

    def write(self, path: str, data: bytes) -> None:
        """Write beside the file, bring it to disk, rename."""
        file = self._folder / path
        new = file.with_name(f"{_UNFINISHED}{os.getpid()}-{file.name}")
        with _told(path):
            _make_private(file.parent)
            kept_folders.replace(file, data, new)

    def names(self, path: str, *, folders: bool) -> list[str]:
        """The folders or files within a folder."""
        with _told(path):
            try:
                with os.scandir(self._folder / path) as entries:
                    return [each.name for each in entries if (each.is_dir() if folders else each.is_file())]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def delete(self, path: str) -> None:
        """Remove a file, for good before anything else is removed."""
        file = self._folder / path
        with _told(path):
            try:
                file.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            kept_folders.sync(file.parent)

    def delete_folder(self, path: str) -> None:
        """Remove a folder."""
        with _told(path):
            try:
                shutil.rmtree(self._folder / path)
            except FileNotFoundError:
                return


def _make_private(folder: Path) -> None:
    """Make ``folder`` and what is missing above it for this user alone; mkdir's mode is that of the last."""
    missing = [folder, *folder.parents]
    for each in reversed([path for path in missing if not path.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LocationUnreachable(f"{error.strerror or error}: {error.filename or path}") from error
