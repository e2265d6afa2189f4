"""Logical types of schemas, and the rules of lakes and engines (``compatibilityPolicy: LOGICAL``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from registry.domain.schemas.contract import Budget

from . import comparing, validity
from .findings import Direction, Report
from .modes import MODES
from .types import Type

# The direction in which the new or the old schema is the reader, in the order of messages.
_DIRECTIONS: Final[Mapping[str, Direction]] = {"new": "backward", "old": "forward"}


def validity_reports(new: Type, budget: Budget) -> list[Report]:
    """Return the objections of the engines to a type. Raises :class:`.contract.Exhausted`."""
    found = (Report(mode.name, "", validity.findings(new, mode, budget)) for mode in MODES)
    return [each for each in found if each.findings]


def change_reports(new: Type, old: Type, readers: Collection[str], budget: Budget) -> list[Report]:
    """Return the objections of the engines to the change from ``old`` to ``new``.

    ``readers``: which of the two have to read the other's rows. Raises :class:`.contract.Exhausted`.
    """
    pairs = {"new": (old, new), "old": (new, old)}
    found = (
        Report(mode.name, direction, comparing.findings(*pairs[reader_is], mode, budget))
        for reader_is, direction in _DIRECTIONS.items()
        if reader_is in readers
        for mode in MODES
    )
    return [each for each in found if each.findings]
