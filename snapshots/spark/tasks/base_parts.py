"""Reading the parts of a base, each held to its hash."""

from __future__ import annotations

import hashlib

from registry.snapshot.location import Location, Missing
from registry.snapshot.manifest import Part
from registry.snapshot.parts import BadPart

from .columns import Columns, read_columns


class DamagedPart(Exception):
    """A part of the base is not what its manifest says."""


def content_of(location: Location, id: str, part: Part) -> bytes:
    """The content of a part's file. Raises :class:`DamagedPart`."""
    try:
        content = location.read(f"{id}/{part.name}")
    except Missing as error:
        raise DamagedPart(f"{part.name} is missing") from error
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise DamagedPart(f"{part.name} does not have the hash that the manifest says")
    return content


def read_part(location: Location, id: str, part: Part) -> Columns:
    """The rows of a part. Raises :class:`DamagedPart`."""
    try:
        return read_columns(content_of(location, id, part))
    except BadPart as error:
        raise DamagedPart(f"{part.name}: {error}") from error
