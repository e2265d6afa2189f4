"""What would pass, in one sentence for each kind of change; each format has a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from .contract import Part
from .excerpts import cut

_SHOWN_MAX: Final = 60


class Fix(NamedTuple):
    """What may be done about a change, in the schema that is to be: only that can still be written otherwise.

    Texts may name ``{name}``, what the change is about, ``{old}`` and ``{new}``, how it is written.
    """

    # Where the new schema has to read what the old one wrote.
    backward: str
    # Where the old schema has to read what the new one writes.
    forward: str


def told(
    fixes: Mapping[str, Fix],
    change: str,
    reader_is: Literal["new", "old"],
    name: str,
    old: Part | None,
    new: Part | None,
) -> str:
    """Return the sentence for a change that is not compatible."""
    fix = fixes[change]
    text = fix.backward if reader_is == "new" else fix.forward
    return text.format(name=name, old=_shown(old), new=_shown(new))


def _shown(part: Part | None) -> str:
    return "nothing" if part is None else cut(part.text, _SHOWN_MAX)
