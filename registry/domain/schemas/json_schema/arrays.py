"""Changes to the items of an array. As for objects, they depend on how open it is."""

from __future__ import annotations

from registry.domain.schemas.trampoline import Walk

from .change_set import ChangeSet, NodeComparison
from .model import Array, Node
from .objects import unevaluated
from .scalars import limit


def compare(comparison: NodeComparison, old: Array, new: Array, found: ChangeSet) -> Walk[None]:
    """Compare two arrays in Confluent's order."""
    if old.all_items is not None or new.all_items is not None:
        found.include((yield comparison.compare(old.all_items, new.all_items)), "items")
    yield _first_items(comparison, old, new, found)
    yield _additional(comparison, old, new, found)
    yield unevaluated(
        comparison, old.unevaluated, new.unevaluated, "UNEVALUATED_ITEMS", "unevaluatedItems", found
    )
    limit(found, old.max_items, new.max_items, "MAX_ITEMS", "maxItems")
    limit(found, old.min_items, new.min_items, "MIN_ITEMS", "minItems")
    if old.unique != new.unique:
        found.add("UNIQUE_ITEMS_REMOVED" if old.unique else "UNIQUE_ITEMS_ADDED", "uniqueItems")
    limit(found, old.max_contains, new.max_contains, "MAX_CONTAINS", "maxContains")
    limit(found, old.min_contains, new.min_contains, "MIN_CONTAINS", "minContains")


def _first_items(comparison: NodeComparison, old: Array, new: Array, found: ChangeSet) -> Walk[None]:
    both = min(len(old.items), len(new.items))
    for index in range(both):
        found.include((yield comparison.compare(old.items[index], new.items[index])), f"items/{index}")
    for index, before in enumerate(old.items[both:], both):
        yield _compare_removed(comparison, before, new, f"items/{index}", found)
    for index, after in enumerate(new.items[both:], both):
        yield _compare_added(comparison, old, after, f"items/{index}", found)


def _compare_removed(
    comparison: NodeComparison, before: Node, new: Array, path: str, found: ChangeSet
) -> Walk[None]:
    covering = _covering(new)
    if _is_open(new):
        found.add("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
    elif covering is not None:
        inner: ChangeSet = yield comparison.compare(before, covering)
        found.include_covered(inner, "ITEM_REMOVED", path)
    elif before.kind == "false":
        found.add("ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
    else:
        found.add("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)


def _compare_added(
    comparison: NodeComparison, old: Array, after: Node, path: str, found: ChangeSet
) -> Walk[None]:
    covering = _covering(old)
    if _is_open(old):
        kind = "ITEM_WITH_EMPTY_SCHEMA" if after.kind == "empty" else "ITEM"
        found.add(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path)
    elif covering is not None:
        inner: ChangeSet = yield comparison.compare(covering, after)
        found.include_covered(inner, "ITEM_ADDED", path)
    else:
        found.add("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path)


def _is_open(node: Array) -> bool:
    return (
        node.permits_additional
        and node.additional is None
        and (node.unevaluated is None or node.unevaluated.kind == "empty")
    )


def _covering(node: Array) -> Node | None:
    """Return the schema of the items after the listed ones, or None."""
    if node.additional is not None or not node.permits_additional:
        return node.additional
    rest = node.unevaluated
    return None if rest is None or rest.kind in ("empty", "false") else rest


def _additional(comparison: NodeComparison, old: Array, new: Array, found: ChangeSet) -> Walk[None]:
    path = "additionalItems"
    if old.permits_additional != new.permits_additional:
        found.add("ADDITIONAL_ITEMS_ADDED" if new.permits_additional else "ADDITIONAL_ITEMS_REMOVED", path)
    elif old.additional is None and new.additional is not None:
        found.add("ADDITIONAL_ITEMS_NARROWED", path)
    elif old.additional is not None and new.additional is None:
        found.add("ADDITIONAL_ITEMS_EXTENDED", path)
    elif old.additional is not None:
        found.include((yield comparison.compare(old.additional, new.additional)), path)
