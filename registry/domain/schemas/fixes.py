"""Suggestions for compatible changes: one sentence for each kind of change, in a table per format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from .contract import Part
from .excerpts import cut

_SHOWN_MAX: Final = 60


class Fix(NamedTuple):
    """A suggestion for an incompatible change, for the new schema, since only that one can still be altered.

    Texts may contain ``{name}``, the changed part, and ``{old}`` and ``{new}``, its texts.
    """

    # If the new schema must read what the old one wrote.
    backward: str
    # If the old schema must read what the new one writes.
    forward: str


def fix_text(
    fixes: Mapping[str, Fix],
    change: str,
    reader_is: Literal["new", "old"],
    name: str,
    old: Part | None,
    new: Part | None,
) -> str:
    """Return the sentence for an incompatible change."""
    fix = fixes[change]
    text = fix.backward if reader_is == "new" else fix.forward
    return text.format(name=name, old=_shown(old), new=_shown(new))


def _shown(part: Part | None) -> str:
    return "nothing" if part is None else cut(part.text, _SHOWN_MAX)
