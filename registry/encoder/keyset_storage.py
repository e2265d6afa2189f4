"""Where the encrypted keyset is kept: a file in the data folder or a topic, and the copy that readers use."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from registry.log.contract import LogError
from registry.processes import file_lock

from .keyset import BadKeyset, key_ids

FILE = "encoder-keyset.json"


class Place(Protocol):
    """Keeps the encrypted keyset. All calls raise :class:`registry.log.contract.LogError`."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def make(self) -> None:
        """Make the place if it is missing."""
        ...

    def read(self) -> bytes | None:
        """Return the keyset that stands there now; ``None`` if there is none."""
        ...

    def write(self, data: bytes) -> list[bytes]:
        """Write the keyset, durable on return; return those that others wrote since it was last read."""
        ...


class KeysetFile:
    """The file in the data folder: the only keyset beside an embedded log, and a copy beside a topic."""

    def __init__(self, data: Path) -> None:
        self.path = data / FILE

    @property
    def name(self) -> str:
        """See :attr:`Place.name`."""
        return f"the file {self.path}"

    def make(self) -> None:
        """See :meth:`Place.make`: the file is made with the first keyset."""

    def read(self) -> bytes | None:
        """See :meth:`Place.read`."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LogError(f"{self.name} cannot be read: {error.strerror or error}") from error

    def write(self, data: bytes) -> list[bytes]:
        """See :meth:`Place.write`; nobody else writes."""
        try:
            file_lock.replace(self.path, data, self.path.with_suffix(".new"))
        except OSError as error:
            raise LogError(f"{self.name} cannot be written: {error.strerror or error}") from error
        return []

    def mark(self) -> tuple[int, int] | None:
        """Return what changes whenever the file does; ``None`` without a file."""
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns


def carry(data: bytes, place: Place) -> None:
    """Bring an encrypted keyset to another place, as it is.

    Raises :class:`registry.log.contract.LogError`, also if another keyset without its keys stands there.
    """
    found = place.read()
    if found is None:
        place.write(data)
        return
    try:
        missing = key_ids(data) - key_ids(found)
    except BadKeyset as error:
        raise LogError(f"the keyset in {place.name} cannot be compared: {error}") from error
    if missing:
        raise LogError(
            f"{place.name} holds another keyset, without the keys of this state's encrypted metadata; name "
            "another place (metadata_encoder_topic, or another data folder)"
        )
