"""A location in an object store or HDFS, through Arrow's file systems.

Credentials, region and the like come from where the clients of these stores look for them (environment,
profile, the machine's role), or from the URI: ``s3://bucket/path?region=…&endpoint_override=HOST:PORT``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

from pyarrow import ArrowException, ArrowNotImplementedError, fs

from registry.base.config.addresses import without_secrets

from .files import BadLocation, LocationUnreachable, MissingFile

# Stores in which a file appears only when it is complete; in others it is written elsewhere and moved.
_ATOMIC = ("s3", "gcs")
# Stores that list a bucket or container that does not exist like an empty one.
_WITH_BUCKETS = ("s3", "gcs", "abfs")
# Stores that copy a file themselves; Arrow moves the bytes of others through this process.
_COPYING = ("s3", "gcs", "abfs")
# Stores in which a folder exists, and is listed, as soon as a file in it does.
_IMPLICIT_FOLDERS = ("s3", "abfs")
_SHOWN_CHARACTERS = 500


class ObjectStore:
    """A folder in an object store or HDFS; see :class:`.files.Files`."""

    def __init__(self, system: fs.FileSystem, folder: str) -> None:
        self._system = system
        self._folder = folder.rstrip("/")
        # Without Azure credentials, Arrow ends the process if the first request is for a file; a first
        # request for a list fails with an error.
        self._must_list_first = system.type_name == "abfs"

    @classmethod
    def open(cls, uri: str) -> ObjectStore:
        """Return the folder at ``uri``. Raises :class:`.files.BadLocation`."""
        try:
            system, folder = fs.FileSystem.from_uri(uri)
        except (ArrowException, ValueError) as error:
            raise BadLocation(
                f"{without_secrets(uri)!r} is not a location for snapshots: {_line(error)}"
            ) from error
        except OSError as error:  # the store's libraries are missing here, such as Hadoop's for hdfs:
            raise BadLocation(
                f"{without_secrets(uri)!r} cannot be reached from this machine: {_line(error)}"
            ) from error
        if not folder.strip("/"):
            raise BadLocation(f"{without_secrets(uri)!r} does not name a folder: add a path")
        return cls(system, folder)

    def read(self, path: str, most: int) -> bytes:
        """Return the content of a file, at most ``most`` bytes and one."""
        if self._must_list_first:
            self.names("", folders=True)
        with _errors_translated(path):
            try:
                with self._system.open_input_stream(self._at(path), compression=None) as file:
                    content: bytes = file.read(most + 1)
            except FileNotFoundError as error:
                self._check_bucket()
                raise MissingFile(path) from error
        return content

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        """Return some bytes of a file."""
        if self._must_list_first:
            self.names("", folders=True)
        with _errors_translated(path):
            try:
                with self._system.open_input_file(self._at(path)) as file:
                    content: bytes = file.read_at(length, begin)
            except FileNotFoundError as error:
                self._check_bucket()
                raise MissingFile(path) from error
        return content

    def copy(self, path: str, new: str) -> bool:
        """Have the store copy a file."""
        if self._system.type_name not in _COPYING:
            return False
        with _errors_translated(path):
            try:
                self._system.copy_file(self._at(path), self._at(new))
            except ArrowNotImplementedError:
                return False
            except OSError as error:
                # S3's error for a file that does not exist has no type of its own.
                if self._system.get_file_info(self._at(path)).type == fs.FileType.NotFound:
                    raise MissingFile(path) from error
                raise
        return True

    def write(self, path: str, data: bytes) -> None:
        """Write in place where the store does so atomically (S3, Google); elsewhere write aside and rename.

        In HDFS, neither the old nor the new file exists for a moment. Azure renames over the old file, but
        only in a hierarchical namespace. In a flat one, a file that is being written is visible and empty, so
        the complete file is copied into place, normally at once. A killed process leaves a folder ``.new-…``
        in the file's folder, which is deleted together with it.
        """
        file = self._at(path)
        folder, _, name = file.rpartition("/")
        with _errors_translated(path):
            if self._system.type_name in _ATOMIC:
                self._put(file, data)
                return
            temporary = f"{folder}/.new-{token_hex(8)}"
            self._put(f"{temporary}/{name}", data)
            self._move(f"{temporary}/{name}", file)
            self._system.delete_dir(temporary)

    def _put(self, file: str, data: bytes) -> None:
        if self._system.type_name not in _IMPLICIT_FOLDERS:
            self._system.create_dir(file.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(file, compression=None) as out:
            out.write(data)

    def _move(self, new: str, file: str) -> None:
        if self._system.type_name == "hdfs":
            with suppress(FileNotFoundError):  # HDFS does not rename over an existing file
                self._system.delete_file(file)
        try:
            self._system.move(new, file)
        except ArrowNotImplementedError:
            self._system.copy_file(new, file)

    def names(self, path: str, *, folders: bool) -> list[str]:
        """Return the folders or files within a folder."""
        wanted = fs.FileType.Directory if folders else fs.FileType.File
        with _errors_translated(path):
            entries = self._system.get_file_info(fs.FileSelector(self._at(path), allow_not_found=True))
            self._must_list_first = False
            if not entries:
                self._check_bucket()
            return [entry.base_name for entry in entries if entry.type == wanted]

    def delete(self, path: str) -> None:
        """Delete a file."""
        with _errors_translated(path), suppress(FileNotFoundError):
            self._system.delete_file(self._at(path))

    def delete_folder(self, path: str) -> None:
        """Delete a folder and its content."""
        folder = self._at(path)
        with _errors_translated(path), suppress(FileNotFoundError):
            # Google's client raises another error for a folder that does not exist.
            if self._system.get_file_info(folder).type != fs.FileType.NotFound:
                self._system.delete_dir(folder)

    def _check_bucket(self) -> None:
        """Raise :class:`LocationUnreachable` if the bucket, in which nothing was found, does not exist."""
        if self._system.type_name not in _WITH_BUCKETS:
            return
        bucket = self._folder.partition("/")[0]
        try:
            found = self._system.get_file_info(bucket).type
        except (OSError, ArrowException):
            return  # credentials for one folder only may not allow this
        if found == fs.FileType.NotFound:
            raise LocationUnreachable(
                f"there is no bucket or container named {bucket}: create it, or change the setting snapshots"
            )

    def _at(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder


@contextmanager
def _errors_translated(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ArrowException) as error:
        where = f"{path}: " if path else ""
        raise LocationUnreachable(f"{where}{_line(error)}") from error


def _line(error: Exception) -> str:
    """Return the first line: if Hadoop's libraries are missing, all searched paths follow."""
    return without_secrets(str(error).strip().partition("\n")[0][:_SHOWN_CHARACTERS])
