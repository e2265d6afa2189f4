"""The file operations that a location needs, and their errors."""

from __future__ import annotations

from typing import Protocol


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

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises :class:`MissingFile`."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file and its folder, whole or not at all."""
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
