"""Logical types of schemas, and the rules of lakes and engines (``compatibilityPolicy: LOGICAL``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from registry.domain.schemas.contract import Budget

from . import comparing
from .engines import LOGICAL_ENGINES, TARGETS
from .findings import Direction, Report
from .types import Type

# The direction in which the new or the old schema is the reader, in the order of messages.
_DIRECTIONS: Final[Mapping[str, Direction]] = {"new": "backward", "old": "forward"}


def logical_reports(new: Type, old: Type | None, readers: Collection[str], budget: Budget) -> list[Report]:
    """Return the objections that ``LOGICAL`` asks for, to a type or to the change from ``old``.

    ``readers``: which of the two have to read the other's rows. Raises :class:`.contract.Exhausted`.
    """
    if old is None:
        found = (
            Report(each.name, "", comparing.limit_findings(new, each, budget)) for each in LOGICAL_ENGINES
        )
        return [each for each in found if each.findings]
    pairs = {"new": (old, new), "old": (new, old)}
    found = (
        Report(engine.name, direction, comparing.change_findings(*pairs[reader_is], engine, budget))
        for reader_is, direction in _DIRECTIONS.items()
        if reader_is in readers
        for engine in LOGICAL_ENGINES
    )
    return [each for each in found if each.findings]


def target_reports(new: Type, old: Type | None, targets: Iterable[str], budget: Budget) -> list[Report]:
    """Return the objections of targets to a type, or to the change from ``old``.

    A table follows its newest schema, so only rows of the old one have to stay readable. Raises
    :class:`.contract.Exhausted`.
    """
    reports: list[Report] = []
    for name in targets:
        if old is None:
            found = comparing.limit_findings(new, TARGETS[name], budget)
        else:
            found = comparing.change_findings(old, new, TARGETS[name], budget)
        reports.append(Report(name, "" if old is None else "backward", found, is_target=True))
    return [each for each in reports if each.findings]
