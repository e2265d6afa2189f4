"""Reading the parts of a base, each held to its hash."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from snapshots.format.location import Location
from snapshots.format.manifest import Part
from snapshots.format.parts import BadPart
from snapshots.format.stored import UnusableSnapshot, read_part

from .columns import Columns, read_columns, read_keys

T = TypeVar("T")


def columns_of_part(location: Location, id: str, part: Part) -> Columns:
    """The rows of a part. Raises :class:`snapshots.format.stored.UnusableSnapshot`, and as there."""
    return _read(part, read_columns, read_part(location, id, part))


def keys_of_part(
    location: Location, id: str, part: Part
) -> tuple[pa.BinaryArray, Callable[[], pa.BinaryArray]]:
    """The keys of a part, and what unpacks the values when it is called. Both raise likewise."""
    content = read_part(location, id, part)
    return _read(part, read_keys, content), lambda: _read(part, read_columns, content).values


def _read(part: Part, reader: Callable[[bytes], T], content: bytes) -> T:
    try:
        return reader(content)
    except BadPart as error:
        raise UnusableSnapshot(f"{part.name} is damaged: {error}") from error
