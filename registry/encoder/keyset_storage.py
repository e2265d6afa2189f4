"""Storage of the encrypted keyset: a file in the data folder or a topic, and the copy for readers."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from registry.base.processes import file_lock
from registry.log.contract import LogError

from .keyset import BadKeyset, key_ids

FILE = "encoder-keyset.json"


class KeysetStore(Protocol):
    """Storage of the encrypted keyset. All calls raise :class:`registry.log.contract.LogError`."""

    @property
    def name(self) -> str:
        """Name of the storage for messages."""
        ...

    def make(self) -> None:
        """Create the storage if it is missing."""
        ...

    def read(self) -> bytes | None:
        """Return the stored keyset; ``None`` if there is none."""
        ...

    def write(self, data: bytes) -> list[bytes]:
        """Write the keyset, durable on return; return those that others wrote since the last read."""
        ...


class KeysetFile:
    """The file in the data folder: the only keyset with an embedded log, a copy with a topic."""

    def __init__(self, data: Path) -> None:
        self.path = data / FILE

    @property
    def name(self) -> str:
        """Name of the file for messages."""
        return f"the file {self.path}"

    def make(self) -> None:
        """Do nothing: the file is created with the first keyset."""

    def read(self) -> bytes | None:
        """Return the stored keyset; ``None`` without a file."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogError(f"{self.name} cannot be read: {error.strerror or error}") from error

    def write(self, data: bytes) -> list[bytes]:
        """Write the keyset and return no others: the file has no other writers."""
        try:
            file_lock.replace(self.path, data, self.path.with_suffix(".new"))
        except OSError as error:
            raise LogError(f"{self.name} cannot be written: {error.strerror or error}") from error
        return []

    def mark(self) -> tuple[int, int] | None:
        """Return a value that changes with each write of the file; ``None`` without a file."""
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns


def carry(data: bytes, store: KeysetStore) -> None:
    """Copy an encrypted keyset, unchanged, to another storage.

    Raises :class:`registry.log.contract.LogError`, also if that holds another keyset that lacks its keys.
    """
    found = store.read()
    if found is None:
        store.write(data)
        return
    try:
        missing = key_ids(data) - key_ids(found)
    except BadKeyset as error:
        raise LogError(f"the keyset in {store.name} cannot be compared: {error}") from error
    if missing:
        raise LogError(
            f"{store.name} holds another keyset, without the keys of this state's encrypted metadata; name "
            "another location (metadata_encoder_topic, or another data folder)"
        )
