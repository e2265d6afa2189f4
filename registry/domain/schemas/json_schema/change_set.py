"""The changes between two schemas, shared if the same pair recurs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from registry.domain.schemas.contract import Budget
from registry.domain.schemas.trampoline import Walk

from .changes import HARMLESS
from .model import Node

# Limit on reported changes: schemas that share parts can differ in exponentially many places.
MAX_CHANGES: Final = 1000

# Limit on the total length of their paths.
MAX_CHARACTERS: Final = 1_000_000

Pair = tuple[Node | None, Node | None]


class LocatedChange(NamedTuple):
    """One change, and the pair that it was found between."""

    change: str
    # From the top, such as ``#/properties/a``.
    path: str
    harmless: bool
    # The pair of nodes that contains it, with the path inside that pair, then the pair that contains this
    # pair, and so on outward.
    pairs: tuple[tuple[Pair, str], ...]


class ChangeSet:
    """Changes by their path inside the compared pair, in the order of discovery."""

    __slots__ = ("_harmless", "compatible", "pair", "parts")

    def __init__(
        self,
        harmless: frozenset[str] = HARMLESS,
        pair: Pair = (None, None),
        *,
        compatible: bool = True,
    ) -> None:
        """``harmless``: kinds of change that do no harm; ``pair``: the old and the new node."""
        self.parts: list[tuple[str, str | ChangeSet]] = []
        # True if all changes are harmless.
        self.compatible = compatible
        self.pair = pair
        self._harmless = harmless

    def add(self, change: str, path: str = "") -> None:
        """Add a change at ``path`` inside this pair."""
        self.parts.append((path, change))
        if change not in self._harmless:
            self.compatible = False

    def include(self, other: ChangeSet, path: str = "") -> None:
        """Add all changes between the parts at ``path``."""
        if other.parts or not other.compatible:
            self.parts.append((path, other))
            self.compatible = self.compatible and other.compatible

    def include_covered(self, other: ChangeSet, change: str, path: str) -> None:
        """Add the changes of a part, and whether an additional schema covers the part."""
        self.include(other, path)
        covered = "IS" if other.compatible else "NOT"
        self.add(f"{change}_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)

    def changes(self, budget: Budget, *, harmless: bool = True) -> list[tuple[str, str]]:
        """Return changes with their paths from the top, such as ``#/properties/a``; possibly not all."""
        return [(each.change, each.path) for each in self.located_changes(budget, harmless=harmless)]

    def located_changes(self, budget: Budget, *, harmless: bool = True) -> list[LocatedChange]:
        """Return the changes with the pairs that contain them."""
        located: list[LocatedChange] = []
        characters = 0
        # Pairs link to those that contain them, so paths are only written out for reported changes.
        stack: list[tuple[Iterator[tuple[str, str | ChangeSet]], _PairPath]] = [
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
            if isinstance(change, ChangeSet):
                if harmless or not change.compatible:
                    stack.append((iter(change.parts), _PairPath(above, path, change.pair)))
            elif harmless or change not in self._harmless:
                steps = above.path(path)
                located.append(LocatedChange(change, steps, change in self._harmless, above.pairs(path)))
                characters += len(steps)
        return located


class NodeComparison(Protocol):
    """The comparison of two schemas as arrays and objects need it for their parts."""

    @property
    def budget(self) -> Budget:
        """The remaining steps of the comparison."""
        ...

    def compare(self, old: Node | None, new: Node | None) -> Walk[ChangeSet]:
        """Return the changes from ``old`` to ``new``; either may be absent."""
        ...

    def compare_leaves(self, old: Node | None, new: Node | None) -> ChangeSet | None:
        """Return the changes between two schemas that contain no others; ``None`` for any other pair."""
        ...


# How many pairs outward to look for a part, because branches and booleans cannot be shown alone.
_PAIRS_MAX: Final = 4


class _PairPath:
    """A pair on the current path, and the step that leads to it from the pair around it."""

    __slots__ = ("above", "pair", "step")

    def __init__(self, above: _PairPath | None, step: str, pair: Pair) -> None:
        self.above = above
        self.step = step
        self.pair = pair

    def path(self, last: str) -> str:
        """Return the path of the part at ``last`` inside this pair."""
        steps = [last] if last else []
        current: _PairPath | None = self
        while current is not None:
            if current.step:
                steps.append(current.step)
            current = current.above
        return "#/" + "/".join(reversed(steps))

    def pairs(self, last: str) -> tuple[tuple[Pair, str], ...]:
        """Return the pairs as in :class:`LocatedChange`."""
        found: list[tuple[Pair, str]] = []
        current: _PairPath | None = self
        while current is not None and len(found) < _PAIRS_MAX:
            found.append((current.pair, last))
            last, current = current.step, current.above
        return tuple(found)
