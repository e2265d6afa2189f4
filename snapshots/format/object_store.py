"""A location in an object store or HDFS, by Arrow's file systems.

Credentials, region and the like are found where the clients of these stores look for them (environment,
profile, the machine's role), or stand in the URI: ``s3://bucket/path?region=…&endpoint_override=HOST:PORT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

from pyarrow import ArrowException, ArrowNotImplementedError, fs

from registry.config.uris import without_secrets

from .location import BadLocation, LocationUnreachable, Missing

_WHOLE_ON_CLOSE = ("s3", "gcs")
"""Stores in which a file is not there before it is whole; in others it is brought to its place from aside."""

_OF_BUCKETS = ("s3", "gcs", "abfs")
"""Stores that list a bucket that does not exist, or a container, like an empty one."""

_WITH_PARENTS = ("s3", "abfs")
"""Stores in which a folder is there, and listed, as soon as a file in it is."""

_SHOWN = 500


class Remote:
    """See :class:`.location.Files`."""

    def __init__(self, system: fs.FileSystem, folder: str) -> None:
        self._system = system
        self._folder = folder.rstrip("/")
        # Where Azure's credentials are not found, Arrow ends the process if a file is the first that it is
        # asked for. Of a list it says so.
        self._must_list_first = system.type_name == "abfs"

    @classmethod
    def open(cls, uri: str) -> Remote:
        """The location at ``uri``. Raises :class:`.location.BadLocation`."""
        try:
            system, folder = fs.FileSystem.from_uri(uri)
        except (ArrowException, ValueError) as error:
            raise BadLocation(
                f"{without_secrets(uri)!r} names no place for snapshots: {_line(error)}"
            ) from error
        except OSError as error:  # what a store needs here is not there, as Hadoop's libraries for hdfs:
            raise BadLocation(
                f"{without_secrets(uri)!r} cannot be reached from this machine: {_line(error)}"
            ) from error
        if not folder.strip("/"):
            raise BadLocation(f"{without_secrets(uri)!r} names no folder: add a path")
        return cls(system, folder)

    def read(self, path: str) -> bytes:
        """The content of a file."""
        if self._must_list_first:
            self.names("", folders=True)
        with _told(path):
            try:
                with self._system.open_input_stream(self._at(path), compression=None) as file:
                    content: bytes = file.read()
            except FileNotFoundError as error:
                self._insist_on_bucket()
                raise Missing(path) from error
        return content

    def write(self, path: str, data: bytes) -> None:
        """Write at once in S3 and Google's store, where that is whole or nothing; else aside, and rename.

        In HDFS there is neither the old file nor the new one for a moment. Azure renames onto the old file,
        but only in a hierarchical namespace. In a flat one, where a file that is being written is seen empty,
        the store copies what is whole into its place, ordinarily at once. What was killed leaves a folder
        ``.new-…`` in the file's folder, and goes with that.
        """
        file = self._at(path)
        folder, _, name = file.rpartition("/")
        with _told(path):
            if self._system.type_name in _WHOLE_ON_CLOSE:
                self._put(file, data)
                return
            aside = f"{folder}/.new-{token_hex(8)}"
            self._put(f"{aside}/{name}", data)
            self._bring(f"{aside}/{name}", file)
            self._system.delete_dir(aside)

    def _put(self, file: str, data: bytes) -> None:
        if self._system.type_name not in _WITH_PARENTS:
            self._system.create_dir(file.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(file, compression=None) as out:
            out.write(data)

    def _bring(self, new: str, file: str) -> None:
        if self._system.type_name == "hdfs":
            with suppress(FileNotFoundError):  # which renames onto nothing that is there
                self._system.delete_file(file)
        try:
            self._system.move(new, file)
        except ArrowNotImplementedError:
            self._system.copy_file(new, file)

    def names(self, path: str, *, folders: bool) -> list[str]:
        """The folders or files within a folder."""
        wanted = fs.FileType.Directory if folders else fs.FileType.File
        with _told(path):
            entries = self._system.get_file_info(fs.FileSelector(self._at(path), allow_not_found=True))
            self._must_list_first = False
            if not entries:
                self._insist_on_bucket()
            return [entry.base_name for entry in entries if entry.type == wanted]

    def delete(self, path: str) -> None:
        """Remove a file."""
        with _told(path), suppress(FileNotFoundError):
            self._system.delete_file(self._at(path))

    def delete_folder(self, path: str) -> None:
        """Remove a folder."""
        folder = self._at(path)
        with _told(path), suppress(FileNotFoundError):
            # Google's client has another error for a folder that is not there.
            if self._system.get_file_info(folder).type != fs.FileType.NotFound:
                self._system.delete_dir(folder)

    def _insist_on_bucket(self) -> None:
        """Where nothing was found, ask for the bucket. Raises :class:`.location.LocationUnreachable`."""
        if self._system.type_name not in _OF_BUCKETS:
            return
        bucket = self._folder.partition("/")[0]
        try:
            found = self._system.get_file_info(bucket).type
        except (OSError, ArrowException):
            return  # who may use one folder only may not ask
        if found == fs.FileType.NotFound:
            raise LocationUnreachable(
                f"there is no bucket or container named {bucket}: make it, or name another one in snapshots"
            )

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
    return without_secrets(str(error).strip().partition("\n")[0][:_SHOWN])
