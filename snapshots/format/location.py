"""Where snapshots lie: a folder of this machine, or one in a store that Spark and all nodes reach.

``<location>/<id>/part-….arrow`` and ``<location>/<id>/manifest.json``. Paths are relative to the location,
with slashes between their parts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from registry.config.uris import without_secrets

from .manifest import MANIFEST

SCHEMES = ("file", "s3", "gs", "hdfs", "abfs", "abfss", "viewfs")
_AS_S3 = ("s3a", "s3n")
"""What Hadoop calls the same."""
_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class BadLocation(Exception):
    """The text names no location; the message says what would."""


class Missing(Exception):
    """There is no such file; the text is its path."""


class LocationUnreachable(Exception):
    """The location did not answer, refused, or has no bucket; the text says so. The next try may go well."""


class Files(Protocol):
    """What a location needs of a file system; paths are relative to the location's folder.

    Every call raises :class:`LocationUnreachable`.
    """

    def read(self, path: str) -> bytes:
        """The content of a file. Raises :class:`Missing`."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file with its folder, whole or not at all."""
        ...

    def names(self, path: str, *, folders: bool) -> list[str]:
        """The folders, or the files, directly within a folder; none where it is not there, but its bucket."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def delete_folder(self, path: str) -> None:
        """Remove a folder and what is left in it, if it is there."""
        ...


class Location:
    """The folder in which snapshots lie. Any thread may use it."""

    def __init__(self, uri: str, files: Files) -> None:
        self.uri = uri
        """As it was given, a plain path made absolute. It may hold a password, which ``str()`` leaves out."""
        self._files = files

    @classmethod
    def parse(cls, uri: str | Path) -> Location:
        """The location that a plain path or a URI names. Nothing is read yet.

        Raises :class:`BadLocation`, with advice.
        """
        text = cls.named(uri)
        if text.startswith("/"):
            return cls._local(Path(text))
        scheme, _, rest = text.partition(":")
        scheme = scheme.lower()
        return cls(text, _remote(f"{'s3' if scheme in _AS_S3 else scheme}:{rest}"))

    @staticmethod
    def named(uri: str | Path) -> str:
        """The ``uri`` of the location that this names, whether or not this host can reach it.

        Needs none of the libraries that opening it may need. Raises :class:`BadLocation`.
        """
        text = str(uri)
        if not _SCHEME.match(text):
            return str(Path(text).absolute())
        scheme = text.partition(":")[0].lower()
        if scheme == "file":
            return str(_local_path(text))
        if scheme not in SCHEMES + _AS_S3:
            raise BadLocation(
                f"{without_secrets(text)!r} is no place for snapshots: give a folder, or a URI that begins"
                f" with {', '.join(f'{each}:' for each in SCHEMES)}"
            )
        return text

    @classmethod
    def _local(cls, folder: Path) -> Location:
        from .local_folder import Disk  # noqa: PLC0415 - of the two kinds, one is needed

        return cls(str(folder), Disk(folder))

    @property
    def is_far(self) -> bool:
        """Whether it is reached over a network by a client that tries again and again, for seconds."""
        return not self.uri.startswith("/")

    def __str__(self) -> str:
        return without_secrets(self.uri)

    def read(self, path: str) -> bytes:
        """The content of a file. Raises :class:`Missing`, :class:`LocationUnreachable`."""
        return self._files.read(_checked(path))

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file and the folder that it is in; whole or not at all.

        Raises :class:`LocationUnreachable`.
        """
        self._files.write(_checked(path), data)

    def folders(self) -> list[str]:
        """The names of all folders, ascending. Raises :class:`LocationUnreachable`."""
        return sorted(filter(_PATH.fullmatch, self._files.names("", folders=True)))

    def files(self, folder: str) -> list[str]:
        """The names of the files in a folder, ascending; none where there is no such folder.

        Raises :class:`LocationUnreachable`.
        """
        return sorted(filter(_PATH.fullmatch, self._files.names(_checked(folder), folders=False)))

    def delete(self, folder: str) -> None:
        """Remove a snapshot's folder, if it is there; again where this was interrupted.

        Its manifest goes first, so that what is half removed is no snapshot. Raises
        :class:`LocationUnreachable`.
        """
        self._files.delete(f"{_checked(folder)}/{MANIFEST}")
        self._files.delete_folder(folder)


def _checked(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no path within a location")
    return path


def _local_path(uri: str) -> Path:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise BadLocation(f"{uri!r} names no folder of this machine: write file:///absolute/path")
    return Path(unquote(parts.path))


def _remote(uri: str) -> Files:
    from .object_store import Remote  # noqa: PLC0415 - the library behind it is large

    return Remote.open(uri)
