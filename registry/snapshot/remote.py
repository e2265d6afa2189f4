"""A location in an object store or HDFS, by Arrow's file systems.

Credentials, region and the like are found where the clients of these stores look for them (environment,
profile, the machine's role), or stand in the URI: ``s3://bucket/path?region=…&endpoint_override=HOST:PORT``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyarrow import ArrowException, fs

from .location import BadLocation, LocationUnreachable, Missing, masked

_WHOLE_ON_CLOSE = ("s3", "gcs")
"""Stores in which a file is not there before it is whole; in others it is renamed into its place."""

_SHOWN = 500


class Remote:
    """See :class:`.location.Files`."""

    def __init__(self, system: fs.FileSystem, folder: str) -> None:
        self._system = system
        self._folder = folder.rstrip("/")

    @classmethod
    def open(cls, uri: str) -> Remote:
        """The location at ``uri``. Raises :class:`.location.BadLocation`."""
        try:
            system, folder = fs.FileSystem.from_uri(uri)
        except (ArrowException, ValueError) as error:
            raise BadLocation(f"{masked(uri)!r} names no place for snapshots: {_line(error)}") from error
        except OSError as error:  # what a store needs here is not there, as Hadoop's libraries for hdfs:
            raise BadLocation(
                f"{masked(uri)!r} cannot be reached from this machine: {_line(error)}"
            ) from error
        if not folder.strip("/"):
            raise BadLocation(f"{masked(uri)!r} names no folder: add a path")
        return cls(system, folder)

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with _told(path):
            try:
                with self._system.open_input_stream(self._at(path), compression=None) as file:
                    content: bytes = file.read()
            except FileNotFoundError as error:
                raise Missing(path) from error
        return content

    def write(self, path: str, data: bytes) -> None:
        """Write at once where that is whole or nothing; elsewhere beside the file, and rename."""
        file = self._at(path)
        folder, _, name = file.rpartition("/")
        with _told(path):
            if self._system.type_name in _WHOLE_ON_CLOSE:
                self._put(file, data)
                return
            new = f"{folder}/.new-{os.getpid()}-{name}"
            self._system.create_dir(folder, recursive=True)
            self._put(new, data)
            with suppress(FileNotFoundError):
                # Not every system renames onto a file that is there.
                self._system.delete_file(file)
            self._system.move(new, file)

    def _put(self, file: str, data: bytes) -> None:
        with self._system.open_output_stream(file, compression=None) as out:
            out.write(data)

    def names(self, path: str, *, folders: bool) -> list[str]:
        """The folders or files within a folder."""
        wanted = fs.FileType.Directory if folders else fs.FileType.File
        with _told(path):
            entries = self._system.get_file_info(fs.FileSelector(self._at(path), allow_not_found=True))
            return [entry.base_name for entry in entries if entry.type == wanted]

    def delete(self, path: str) -> None:
        """Remove a file."""
        with _told(path), suppress(FileNotFoundError):
            self._system.delete_file(self._at(path))

    def delete_folder(self, path: str) -> None:
        """Remove a folder."""
        with _told(path), suppress(FileNotFoundError):
            self._system.delete_dir(self._at(path))

    def _at(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ArrowException) as error:
        where = f"{path}: " if path else ""
        raise LocationUnreachable(f"{where}{_line(error)}") from error


def _line(error: Exception) -> str:
    """The first line: where Hadoop's libraries are not found, all places follow where they were sought."""
    return masked(str(error).strip().partition("\n")[0][:_SHOWN])
