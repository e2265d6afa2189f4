"""The changes found between two schemas, shared where the same pair is met again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from registry.domain.schemas.contract import Budget
from registry.domain.schemas.trampoline import Walk

from .changes import HARMLESS
from .model import Node

# LocatedChange at most: schemas that share parts can differ in exponentially many places.
MAX_CHANGES: Final = 1000

# Of all paths located together.
MAX_CHARACTERS: Final = 1_000_000

Pair = tuple[Node | None, Node | None]


class LocatedChange(NamedTuple):
    """One change, and the pair it was found between."""

    change: str
    # From the top, such as ``#/properties/a``.
    path: str
    harmless: bool
    # The pair of nodes that it lies in with the path below it, and likewise those that this pair lies in, the
    # nearest first.
    pairs: tuple[tuple[Pair, str], ...]


class Found:
    """Changes by their path below the pair compared, in the order in which they were found."""

    __slots__ = ("_harmless", "compatible", "pair", "parts")

    def __init__(
        self,
        harmless: frozenset[str] = HARMLESS,
        pair: Pair = (None, None),
        *,
        compatible: bool = True,
    ) -> None:
        """``harmless``: kinds of change that do no harm; ``pair``: the old and the new node."""
        self.parts: list[tuple[str, str | Found]] = []
        # Whether all are harmless.
        self.compatible = compatible
        self.pair = pair
        self._harmless = harmless

    def add(self, change: str, path: str = "") -> None:
        """One change, at ``path`` below here."""
        self.parts.append((path, change))
        if change not in self._harmless:
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
        return [(each.change, each.path) for each in self.located(budget, harmless=harmless)]

    def located(self, budget: Budget, *, harmless: bool = True) -> list[LocatedChange]:
        """Return the same, each with where it was found."""
        located: list[LocatedChange] = []
        characters = 0
        # Places are linked from below, so that a path is only written out where something is told of it.
        stack: list[tuple[Iterator[tuple[str, str | Found]], _PairPath]] = [
            (iter(self.parts), _PairPath(None, "", self.pair))
        ]
        while stack and len(located) < MAX_CHANGES and characters < MAX_CHARACTERS:
            parts, above = stack[-1]
            part = next(parts, None)
            if part is None:
                stack.pop()
                continue
            budget.spend()
            path, change = part
            if isinstance(change, Found):
                if harmless or not change.compatible:
                    stack.append((iter(change.parts), _PairPath(above, path, change.pair)))
            elif harmless or change not in self._harmless:
                steps = above.path(path)
                located.append(LocatedChange(change, steps, change in self._harmless, above.pairs(path)))
                characters += len(steps)
        return located


class NodeComparison(Protocol):
    """The comparison of two schemas, as the comparisons of objects and arrays use it for their parts."""

    @property
    def budget(self) -> Budget:
        """The work that the comparison may still do."""
        ...

    def compare(self, old: Node | None, new: Node | None) -> Walk[Found]:
        """Return the changes from ``old`` to ``new``; either may be absent."""
        ...


# How far up a part is sought that a branch or a truth value does not show by itself.
_PAIRS_MAX: Final = 4


class _PairPath:
    """A pair that is being told of: where it was met, and below what path."""

    __slots__ = ("above", "pair", "step")

    def __init__(self, above: _PairPath | None, step: str, pair: Pair) -> None:
        self.above = above
        self.step = step
        self.pair = pair

    def path(self, last: str) -> str:
        """Return the path of what lies at ``last`` below here."""
        steps = [last] if last else []
        current: _PairPath | None = self
        while current is not None:
            if current.step:
                steps.append(current.step)
            current = current.above
        return "#/" + "/".join(reversed(steps))

    def pairs(self, last: str) -> tuple[tuple[Pair, str], ...]:
        """As in :class:`LocatedChange`."""
        found: list[tuple[Pair, str]] = []
        current: _PairPath | None = self
        while current is not None and len(found) < _PAIRS_MAX:
            found.append((current.pair, last))
            last, current = current.step, current.above
        return tuple(found)
