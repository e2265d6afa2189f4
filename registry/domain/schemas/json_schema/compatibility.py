"""Compatibility of JSON schemas: whether data of the old schema is valid under the new one.

Changes lead from old to new, in Confluent's order (Confluent 8.4). A pair that recurs inside itself is
assumed to be compatible. If it turns out not to be, everything is compared again until nothing changes, and
the pair's changes of the last pass are repeated where it recurs. In a pass each pair is compared only once.
Since 2019-09, a schema in its place and as the target of a ``$ref`` count as two (json-sKema), so where a
reference leads back to an enclosing schema, its changes are repeated once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.domain.schemas.contract import STRICT, Budget, Difference
from registry.domain.schemas.trampoline import Walk, run

from . import containers, scalars
from .change_set import ChangeSet
from .changes import difference, harmless_under
from .model import MISSING, Array, Combined, Node, Not, Number, Object, Reference, String, Values
from .text import same_value

_NOBODY: Final = (None, None)
_NOTHING: Final = ChangeSet()
_SUMS: Final = ("anyOf", "oneOf")
# The types of nodes that contain no others.
_LEAVES: Final = frozenset({Node, String, Number, Values})

_Pair = tuple[int, int]


def differences(
    old: Node, new: Node, reader_is: str, budget: Budget, policy: str = STRICT
) -> list[Difference]:
    """Return why data of ``old`` may be invalid under ``new``. Raises :class:`~.contract.Exhausted`."""
    found = compare(old, new, budget, policy)
    if found.compatible:
        return []
    reasons = found.changes(budget, harmless=False) or [("TYPE_CHANGED", "#/")]
    return [difference(change, path, reader_is) for change, path in reasons]


def compare(old: Node, new: Node, budget: Budget, policy: str = STRICT) -> ChangeSet:
    """Return all changes, harmless ones too."""
    incompatible: dict[_Pair, ChangeSet] = {}
    harmless = harmless_under(policy)
    while True:
        comparison = Comparison(incompatible, budget, harmless)
        found = run(comparison.compare(old, new))
        recurring = comparison.recurring()
        if recurring.keys() <= incompatible.keys():
            return found
        incompatible |= recurring


class Comparison:
    """One pass of the comparison."""

    __slots__ = ("_found", "_harmless", "_incompatible", "_recurring", "budget")

    def __init__(
        self, incompatible: Mapping[_Pair, ChangeSet], budget: Budget, harmless: frozenset[str]
    ) -> None:
        """``incompatible``: recurring pairs that earlier passes found so, with their changes.

        ``harmless``: kinds of change that do no harm.
        """
        self.budget: Final = budget
        self._harmless = harmless
        self._incompatible = incompatible
        self._found: dict[_Pair, ChangeSet | None] = {}
        self._recurring: set[_Pair] = set()

    def recurring(self) -> dict[_Pair, ChangeSet]:
        """Return the pairs that recur inside themselves and are not compatible, with their changes."""
        found = ((pair, self._found[pair]) for pair in self._recurring)
        return {pair: changes for pair, changes in found if changes is not None and not changes.compatible}

    def compare(self, old: Node | None, new: Node | None) -> Walk[ChangeSet]:
        """Return the changes from ``old`` to ``new``; either may be absent."""
        self.budget.spend()
        if old is None or new is None:
            found = ChangeSet(self._harmless, (old, new))
            if old is not new:
                found.add("SCHEMA_ADDED" if old is None else "SCHEMA_REMOVED")
            return found
        pair = (_identity(old), _identity(new))
        old, new = _target(old), _target(new)
        if pair in self._found:
            known = self._found[pair]
            if known is not None:
                return known
            self._recurring.add(pair)
            return self._incompatible.get(pair, _NOTHING)
        self._found[pair] = None
        judged: ChangeSet = yield self._judge(old, new)
        if judged.pair == _NOBODY:
            judged.pair = (old, new)
        self._found[pair] = judged
        return judged

    def _judge(self, old: Node, new: Node) -> Walk[ChangeSet]:
        if isinstance(new, Combined) and not isinstance(old, Combined):
            widened: ChangeSet | None = yield self._into_branch(old, new)
            if widened is not None:
                return widened
        elif isinstance(old, Combined) and not isinstance(new, Combined):
            widened = yield self._out_of_branch(old, new)
            if widened is not None:
                return widened
        found = self._judge_alone(old, new)
        if old.kind != new.kind:
            return found
        if isinstance(old, Combined) and isinstance(new, Combined):
            yield self._compare_combined(old, new, found)
        elif isinstance(old, Not) and isinstance(new, Not):
            inner: ChangeSet = yield self.compare(new.inner, old.inner)
            found.add("NOT_TYPE_NARROWED" if inner.compatible else "NOT_TYPE_EXTENDED", "not")
        elif isinstance(old, Object) and isinstance(new, Object):
            yield containers.compare_objects(self, old, new, found)
        elif isinstance(old, Array) and isinstance(new, Array):
            yield containers.compare_arrays(self, old, new, found)
        return found

    def compare_leaves(self, old: Node | None, new: Node | None) -> ChangeSet | None:
        """Return the changes between two schemas that contain no others; ``None`` for any other pair."""
        if old is None or new is None or type(old) not in _LEAVES or type(new) not in _LEAVES:
            return None
        self.budget.spend()
        return self._judge_alone(old, new)

    def _judge_alone(self, old: Node, new: Node) -> ChangeSet:
        """Return the changes except those of the schemas inside."""
        found = ChangeSet(self._harmless, (old, new))
        if old.kind != new.kind:
            if old.kind != "false" and new.kind != "empty" and not (old.is_bytes and new.is_bytes):
                found.add("TYPE_CHANGED")
            return found
        _notes(old, new, found)
        if isinstance(old, String) and isinstance(new, String):
            scalars.strings(old, new, found)
        elif isinstance(old, Number) and isinstance(new, Number):
            scalars.numbers(old, new, found)
        elif isinstance(old, Values) and isinstance(new, Values):
            scalars.values(old, new, found)
        return found

    def _into_branch(self, old: Node, new: Combined) -> Walk[ChangeSet | None]:
        """Return the changes if ``old`` becomes one of several branches: the first that accepts its data."""
        alone = len(new.branches) == 1
        for branch in new.branches if alone or new.criterion in _SUMS else ():
            inner: ChangeSet = yield self.compare(old, branch)
            if inner.compatible:
                return inner if alone else self._with(inner, "SUM_TYPE_EXTENDED")
        return None

    def _out_of_branch(self, old: Combined, new: Node) -> Walk[ChangeSet | None]:
        """Return the changes if only one branch of ``old`` remains: the first whose data ``new`` accepts."""
        alone = len(old.branches) == 1
        for branch in old.branches if alone or old.criterion == "allOf" else ():
            inner: ChangeSet = yield self.compare(branch, new)
            if inner.compatible:
                return inner if alone else self._with(inner, "PRODUCT_TYPE_NARROWED")
        return None

    def _with(self, inner: ChangeSet, change: str) -> ChangeSet:
        found = ChangeSet(self._harmless)
        found.include(inner)
        found.add(change)
        return found

    def _compare_combined(self, old: Combined, new: Combined, found: ChangeSet) -> Walk[None]:
        if old.criterion != new.criterion:
            if not _is_widened(old, new):
                found.add("COMBINED_TYPE_CHANGED")
                return
            found.add("COMBINED_TYPE_EXTENDED")
        before, after = _distinct(old), _distinct(new)
        if len(before) < len(after):
            found.add("PRODUCT_TYPE_EXTENDED" if new.criterion == "allOf" else "SUM_TYPE_EXTENDED")
        elif len(before) > len(after):
            found.add("SUM_TYPE_NARROWED" if old.criterion in _SUMS else "PRODUCT_TYPE_NARROWED")
        smaller = min(len(before), len(after))
        # Most branches are unchanged. If their pairs suffice, the others are not compared: recursive unions
        # of hundreds of types have too many pairs.
        edges: list[dict[int, ChangeSet]] = [{} for _ in before]
        tried = _pair_branches(before, after)
        for index, other in tried.items():
            inner: ChangeSet = yield self.compare(before[index], after[other])
            if inner.compatible:
                edges[index][other] = inner
        if sum(map(len, edges)) < smaller:
            for index, branch in enumerate(before):
                for other, candidate in enumerate(after):
                    if tried.get(index) != other:
                        inner = yield self.compare(branch, candidate)
                        if inner.compatible:
                            edges[index][other] = inner
        partners = largest_matching([sorted(suitable) for suitable in edges], self.budget)
        for index, partner in enumerate(partners):
            if partner >= 0:
                found.include(edges[index][partner], f"{old.criterion}/{index}")
        if len(before) - partners.count(-1) < smaller:
            found.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED")


def _pair_branches(before: list[Node], after: list[Node]) -> dict[int, int]:
    """Return for each old branch its likely new one, by name, else by position; none twice."""
    named = {_label(branch): index for index, branch in reversed(list(enumerate(after)))}
    likely = {index: named.pop(_label(branch), -1) for index, branch in enumerate(before)}
    taken = set(likely.values())
    for index in range(min(len(before), len(after))):
        if likely[index] < 0 and index not in taken:
            likely[index] = index
    return {index: other for index, other in likely.items() if other >= 0}


def _label(node: Node) -> tuple[Any, ...]:
    return ("reference", node.name) if isinstance(node, Reference) else (node.kind, node.title)


def _identity(node: Node) -> int:
    """Return a number for each schema of Confluent's model; see :attr:`.model.Reference.copies`."""
    if not isinstance(node, Reference):
        return id(node)
    return -id(node.target) if node.copies else id(node.target)


def _target(node: Node) -> Node:
    return node.target if isinstance(node, Reference) else node


def _notes(old: Node, new: Node, found: ChangeSet) -> None:
    if old.id != new.id:
        found.add("ID_CHANGED")
    if old.title != new.title:
        found.add("TITLE_CHANGED")
    if old.description != new.description:
        found.add("DESCRIPTION_CHANGED")
    before, after = old.default, new.default
    if before is MISSING or after is MISSING:
        if before is not after:
            found.add("DEFAULT_CHANGED")
    elif not same_value(before, after):
        found.add("DEFAULT_CHANGED")


def _is_widened(old: Combined, new: Combined) -> bool:
    one_before, one_after = len(old.branches) == 1, len(new.branches) == 1
    return (
        new.criterion == "anyOf"
        or (one_before and one_after)
        or (one_before and new.criterion == "oneOf")
        or (one_after and old.criterion == "allOf")
    )


def _distinct(node: Combined) -> list[Node]:
    """Return the branches without duplicates."""
    distinct: dict[Any, Node] = {}
    for key, branch in zip(node.keys, node.branches, strict=True):
        distinct.setdefault(key, branch)
    return list(distinct.values())


def largest_matching(edges: Sequence[Sequence[int]], budget: Budget) -> list[int]:
    """Return each left vertex's partner, -1 for none; ``edges[left]`` lists the possible ones."""
    partner = [-1] * len(edges)
    taken: dict[int, int] = {}
    for left in range(len(edges)):
        _find_partner(left, edges, partner, taken, budget)
    return partner


def _find_partner(
    start: int, edges: Sequence[Sequence[int]], partner: list[int], taken: dict[int, int], budget: Budget
) -> None:
    """Find a partner for ``start`` by an augmenting path, breadth first."""
    came_from: dict[int, int] = {}
    queue = [start]
    for left in queue:
        for right in edges[left]:
            budget.spend()
            if right in came_from:
                continue
            came_from[right] = left
            holder = taken.get(right)
            if holder is not None:
                queue.append(holder)
                continue
            while True:
                mover = came_from[right]
                freed, partner[mover] = partner[mover], right
                taken[right] = mover
                if mover == start:
                    return
                right = freed  # noqa: PLW2901 (the mover's former partner goes to who wanted it)
