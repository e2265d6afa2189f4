"""The location of snapshots: a folder of this machine, or one in a store that Spark and all nodes can reach.

``<location>/<id>/part-….arrow`` and ``<location>/<id>/manifest.json``, and those of censuses in
``<location>/census/<id>/``. Paths are relative to the location,
with slashes between their parts.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from registry.base.config.addresses import without_secrets

from .files import BadLocation, Files
from .manifest import MANIFEST, MANIFEST_BYTES_MAX, NO_KEYS, ManifestKeys

SCHEMES = ("file", "s3", "gs", "hdfs", "abfs", "abfss", "viewfs")
# Hadoop's names for s3.
_AS_S3 = ("s3a", "s3n")
_PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,2}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Location:
    """The folder that holds snapshots. Any thread may use it."""

    def __init__(self, uri: str, files: Files, keys: ManifestKeys = NO_KEYS) -> None:
        # As given, with a plain path made absolute. It may hold a password, which str() leaves out.
        self.uri = uri
        self.backing = files
        # With a key, manifests here are signed, and others are not used.
        self.keys = keys

    @classmethod
    def parse(cls, uri: str | Path, keys: ManifestKeys = NO_KEYS) -> Location:
        """Return the location that a plain path or a URI names, without reading anything yet.

        Raises :class:`.files.BadLocation`, with advice.
        """
        text = cls.normalize_uri(uri)
        if text.startswith("/"):
            from .files import LocalFolder  # noqa: PLC0415 - only one of the two kinds is needed

            return cls(text, LocalFolder(Path(text)), keys)
        from .object_store import ObjectStore  # noqa: PLC0415 - the library behind it is large

        scheme, _, rest = text.partition(":")
        scheme = scheme.lower()
        return cls(text, ObjectStore.open(f"{'s3' if scheme in _AS_S3 else scheme}:{rest}"), keys)

    @staticmethod
    def normalize_uri(uri: str | Path) -> str:
        """Return the ``uri`` of the location, even if this host cannot reach it.

        Does not need the libraries that opening the location may need. Raises :class:`.files.BadLocation`.
        """
        text = str(uri)
        if not _SCHEME.match(text):
            return str(Path(text).absolute())
        scheme = text.partition(":")[0].lower()
        if scheme == "file":
            return str(_local_path(text))
        if scheme not in SCHEMES + _AS_S3:
            raise BadLocation(
                f"{without_secrets(text)!r} is not a location for snapshots: give a folder, or a URI that"
                f" begins with {', '.join(f'{each}:' for each in SCHEMES)}"
            )
        return text

    @property
    def is_remote(self) -> bool:
        """True if it is reached over a network by a client that retries for seconds."""
        return not self.uri.startswith("/")

    def __str__(self) -> str:
        return without_secrets(self.uri)

    def read(self, path: str, most: int = MANIFEST_BYTES_MAX) -> bytes:
        """Return the content of a file; of one with more than ``most`` bytes, one byte more than that.

        Raises as :meth:`.files.Files.read`.
        """
        return self.backing.read(_check(path), most)

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        """Return the bytes of a file from ``begin`` on, fewer than ``length`` only at its end.

        Raises as :meth:`.files.Files.read`.
        """
        return self.backing.read_range(_check(path), begin, length)

    def copy(self, path: str, new: str) -> bool:
        """Copy a file within the location; return false, without a copy, where that would move its bytes.

        Raises as :meth:`.files.Files.copy`.
        """
        return self.backing.copy(_check(path), _check(new))

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file and its folder, whole or not at all.

        Raises :class:`.files.LocationUnreachable`.
        """
        self.backing.write(_check(path), data)

    def folders(self, within: str = "") -> list[str]:
        """Return the names of all folders directly in the location, or in a folder of it, ascending.

        Raises :class:`.files.LocationUnreachable`.
        """
        return sorted(filter(_PATH.fullmatch, self.backing.names(within and _check(within), folders=True)))

    def files(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, ascending; empty if the folder does not exist.

        Raises :class:`.files.LocationUnreachable`.
        """
        return sorted(filter(_PATH.fullmatch, self.backing.names(_check(folder), folders=False)))

    def delete(self, folder: str) -> None:
        """Delete the folder of a snapshot or census if it exists; call again if interrupted.

        Raises :class:`.files.LocationUnreachable`.
        """
        # The manifest goes first, so that a half-deleted folder is not a snapshot.
        self.backing.delete(f"{_check(folder)}/{MANIFEST}")
        self.backing.delete_folder(folder)


def _check(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is not a path within a location")
    return path


def _local_path(uri: str) -> Path:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise BadLocation(f"{uri!r} does not name a folder of this machine: write file:///absolute/path")
    return Path(unquote(parts.path))
