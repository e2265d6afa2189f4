"""Reading the parts of a base, each held to its hash."""

from __future__ import annotations

from registry.snapshot.location import Location
from registry.snapshot.manifest import Part
from registry.snapshot.parts import BadPart
from registry.snapshot.reading import Unusable, read_part

from .columns import Columns, read_columns


def columns_of_part(location: Location, id: str, part: Part) -> Columns:
    """The rows of a part. Raises :class:`registry.snapshot.reading.Unusable`, and as there."""
    try:
        return read_columns(read_part(location, id, part))
    except BadPart as error:
        raise Unusable(f"{part.name} is damaged: {error}") from error
