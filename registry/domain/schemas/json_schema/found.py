"""The changes found between two schemas, shared where the same pair is met again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry.domain.schemas.contract import Budget

from .changes import HARMLESS

MAX_CHANGES: Final = 1000
"""Told at most: schemas that share parts can differ in exponentially many places."""

MAX_CHARACTERS: Final = 1_000_000
"""Of all paths told together."""


class Found:
    """Changes by their path below the pair compared, in the order in which they were found."""

    __slots__ = ("compatible", "parts")

    def __init__(self, *, compatible: bool = True) -> None:
        self.parts: list[tuple[str, str | Found]] = []
        self.compatible = compatible
        """Whether all are harmless."""

    def add(self, change: str, path: str = "") -> None:
        """One change, at ``path`` below here."""
        self.parts.append((path, change))
        if change not in HARMLESS:
            self.compatible = False

    def include(self, other: Found, path: str = "") -> None:
        """All that was found between parts that lie at ``path``."""
        if other.parts or not other.compatible:
            self.parts.append((path, other))
            self.compatible = self.compatible and other.compatible

    def include_covered(self, other: Found, change: str, path: str) -> None:
        """As :meth:`include`, and what it means for a part that an additional schema covers, or does not."""
        self.include(other, path)
        covered = "IS" if other.compatible else "NOT"
        self.add(f"{change}_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)

    def changes(self, budget: Budget, *, harmless: bool = True) -> list[tuple[str, str]]:
        """Changes and their paths from the top, such as ``#/properties/a``; not necessarily all."""
        told: list[tuple[str, str]] = []
        characters = 0
        # Places are linked from below, so that a path is only written out where something is told of it.
        stack: list[tuple[Iterator[tuple[str, str | Found]], _Place | None]] = [(iter(self.parts), None)]
        while stack and len(told) < MAX_CHANGES and characters < MAX_CHARACTERS:
            parts, place = stack[-1]
            part = next(parts, None)
            if part is None:
                stack.pop()
                continue
            budget.spend()
            path, change = part
            here = _Place(place, path) if path else place
            if isinstance(change, Found):
                if harmless or not change.compatible:
                    stack.append((iter(change.parts), here))
            elif harmless or change not in HARMLESS:
                told.append((change, _written(here)))
                characters += len(told[-1][1])
        return told


class _Place:
    __slots__ = ("above", "step")

    def __init__(self, above: _Place | None, step: str) -> None:
        self.above = above
        self.step = step


def _written(place: _Place | None) -> str:
    steps = []
    while place is not None:
        steps.append(place.step)
        place = place.above
    return "#/" + "/".join(reversed(steps))
