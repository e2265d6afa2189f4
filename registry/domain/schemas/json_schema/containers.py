"""Changes to the properties of an object and to the items of an array; they depend on how open it is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

from registry.domain.schemas.trampoline import Walk

from .change_set import ChangeSet, NodeComparison
from .model import MISSING, Array, Node, Object
from .scalars import limit

_PATTERN_MAX: Final = 10_000
_MEMORY_MAX: Final = 1 << 20
_LENGTH_MAX: Final = 200
_REPEATS_MAX: Final = 2
_NESTED: Final = re.compile(r"\)[*+{]")
_REPEAT: Final = re.compile(r"[*+]|\{\d+,")


def compare_objects(comparison: NodeComparison, old: Object, new: Object, found: ChangeSet) -> Walk[None]:
    """Compare two objects in Confluent's order: properties of the old schema first, then new ones."""
    comparison.budget.spend(len(old.properties) + len(new.properties))
    _compare_required(old, new, found)
    for name in {**old.properties, **new.properties}:
        # Most properties are leaves, for which a walk would take longer than the comparison.
        leaf = comparison.compare_leaves(old.properties.get(name), new.properties.get(name))
        if leaf is None:
            yield _property(comparison, old, new, name, found)
        else:
            found.include(leaf, f"properties/{name}")
    _dependent_names(old, new, found)
    yield _dependent_schemas(comparison, old, new, found)
    yield _additional(comparison, old, new, "ADDITIONAL_PROPERTIES", "additionalProperties", found)
    yield _compare_unevaluated(
        comparison, old.unevaluated, new.unevaluated, "UNEVALUATED_PROPERTIES", "unevaluatedProperties", found
    )
    limit(found, old.max_properties, new.max_properties, "MAX_PROPERTIES", "maxProperties")
    limit(found, old.min_properties, new.min_properties, "MIN_PROPERTIES", "minProperties")


def _compare_required(old: Object, new: Object, found: ChangeSet) -> None:
    for name in old.properties:
        if name not in new.properties:
            continue
        if name in old.required and name not in new.required:
            found.add("REQUIRED_ATTRIBUTE_REMOVED", f"required/{name}")
        elif name in new.required and name not in old.required:
            kept = new.properties[name].default is not MISSING
            change = "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED" if kept else "REQUIRED_ATTRIBUTE_ADDED"
            found.add(change, f"required/{name}")


def _property(
    comparison: NodeComparison, old: Object, new: Object, name: str, found: ChangeSet
) -> Walk[None]:
    before, after, path = old.properties.get(name), new.properties.get(name), f"properties/{name}"
    if before is None:
        yield _compare_added_property(comparison, old, new, name, found)
    elif after is None:
        yield _compare_removed_property(comparison, before, new, name, found)
    else:
        found.include((yield comparison.compare(before, after)), path)


def _compare_removed_property(
    comparison: NodeComparison, before: Node, new: Object, name: str, found: ChangeSet
) -> Walk[None]:
    path = f"properties/{name}"
    if not new.patterns and _is_open(new):
        found.add("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
        return
    covering = _covering_property(comparison, new, name)
    yield _compare_removed(comparison, before, covering, "PROPERTY", path, found)


def _compare_removed(
    comparison: NodeComparison, before: Node, covering: Node | None, part: str, path: str, found: ChangeSet
) -> Walk[None]:
    """Compare a part that was removed from a closed content model with what still covers it, if anything."""
    if covering is not None:
        inner: ChangeSet = yield comparison.compare(before, covering)
        found.include_covered(inner, f"{part}_REMOVED", path)
    elif before.kind == "false":
        found.add(f"{part}_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
    else:
        found.add(f"{part}_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)


def _compare_added_property(
    comparison: NodeComparison, old: Object, new: Object, name: str, found: ChangeSet
) -> Walk[None]:
    path, after = f"properties/{name}", new.properties[name]
    kind = _addition(new, name)
    if not old.patterns and _is_open(old):
        is_empty = after.kind == "empty"
        change = "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO" if is_empty else f"{kind}_ADDED_TO"
        found.add(f"{change}_OPEN_CONTENT_MODEL", path)
        return
    covering = _covering_property(comparison, old, name)
    if covering is not None:
        inner: ChangeSet = yield comparison.compare(covering, after)
        found.include_covered(inner, "PROPERTY_ADDED", path)
    found.add(f"{kind}_ADDED_TO_UNOPEN_CONTENT_MODEL", path)


def _addition(new: Object, name: str) -> str:
    if name not in new.required:
        return "OPTIONAL_PROPERTY"
    has_default = new.properties[name].default is not MISSING
    return "REQUIRED_PROPERTY_WITH_DEFAULT" if has_default else "REQUIRED_PROPERTY"


def _covering_property(comparison: NodeComparison, node: Object, name: str) -> Node | None:
    """Return the schema of properties that are not listed; None if there is none, as in a closed object."""
    comparison.budget.spend(5 * len(node.patterns))  # patterns may have to be compiled first
    for pattern, schema in node.patterns.items():
        if is_found(pattern, name):
            return schema
    return _covering_rest(node)


def _dependent_names(old: Object, new: Object, found: ChangeSet) -> None:
    for name in {**old.dependent_names, **new.dependent_names}:
        before, after, path = (
            old.dependent_names.get(name),
            new.dependent_names.get(name),
            f"dependencies/{name}",
        )
        if after is None:
            found.add("DEPENDENCY_ARRAY_REMOVED", path)
        elif before is None:
            found.add("DEPENDENCY_ARRAY_ADDED", path)
        elif before < after:
            found.add("DEPENDENCY_ARRAY_EXTENDED", path)
        elif before > after:
            found.add("DEPENDENCY_ARRAY_NARROWED", path)
        elif before != after:
            found.add("DEPENDENCY_ARRAY_CHANGED", path)


def _dependent_schemas(comparison: NodeComparison, old: Object, new: Object, found: ChangeSet) -> Walk[None]:
    for name in {**old.dependent_schemas, **new.dependent_schemas}:
        before, after = old.dependent_schemas.get(name), new.dependent_schemas.get(name)
        path = f"dependencies/{name}"
        if after is None:
            found.add("DEPENDENCY_SCHEMA_REMOVED", path)
        elif before is None:
            found.add("DEPENDENCY_SCHEMA_ADDED", path)
        else:
            found.include((yield comparison.compare(before, after)), path)


def _is_open(node: Object | Array) -> bool:
    """Return true if what is not listed may have any value."""
    return (
        node.permits_additional
        and node.additional is None
        and (node.unevaluated is None or node.unevaluated.kind == "empty")
    )


def _covering_rest(node: Object | Array) -> Node | None:
    """Return the schema of what is not listed; None if there is none, as in a closed object or array."""
    if node.additional is not None or not node.permits_additional:
        return node.additional
    rest = node.unevaluated
    return None if rest is None or rest.kind in ("empty", "false") else rest


def _additional(
    comparison: NodeComparison,
    old: Object | Array,
    new: Object | Array,
    name: str,
    path: str,
    found: ChangeSet,
) -> Walk[None]:
    if old.permits_additional != new.permits_additional:
        found.add(f"{name}_ADDED" if new.permits_additional else f"{name}_REMOVED", path)
    elif old.additional is None and new.additional is not None:
        found.add(f"{name}_NARROWED", path)
    elif old.additional is not None and new.additional is None:
        found.add(f"{name}_EXTENDED", path)
    elif old.additional is not None:
        found.include((yield comparison.compare(old.additional, new.additional)), path)


def _compare_unevaluated(
    comparison: NodeComparison, old: Node | None, new: Node | None, name: str, path: str, found: ChangeSet
) -> Walk[None]:
    """Compare ``unevaluatedProperties`` or ``unevaluatedItems`` by what they permit, else by their schemas.

    Adding ``true`` counts as narrowing (Confluent 8.x).
    """
    if old is None and new is None:
        return
    before, after = _permits(old), _permits(new)
    if (before == "nothing") != (after == "nothing"):
        found.add(f"{name}_ADDED" if before == "nothing" else f"{name}_REMOVED", path)
    elif old is None or (new is not None and before == "everything" and after == "some"):
        found.add(f"{name}_NARROWED", path)
    elif new is None or (before == "some" and after == "everything"):
        found.add(f"{name}_EXTENDED", path)
    else:
        found.include((yield comparison.compare(old, new)), path)


def _permits(node: Node | None) -> str:
    if node is None or node.kind == "empty":
        return "everything"
    return "nothing" if node.kind == "false" else "some"


def is_found(pattern: str, name: str) -> bool:
    """Return true if ``pattern`` matches a part of ``name``; an unsafe pattern matches nothing.

    RE2 does the matching, because it never takes long. Python's own engine handles what RE2 does not support,
    such as lookahead, for short names and patterns with few repetitions.
    """
    if len(pattern) > _PATTERN_MAX:
        return False
    compiled = _compile(pattern)
    if compiled is None or (isinstance(compiled, re.Pattern) and len(name) > _LENGTH_MAX):
        return False
    return compiled.search(name) is not None


@lru_cache(maxsize=64)
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors, options.max_mem = False, _MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error:
        pass
    if _NESTED.search(pattern) or len(_REPEAT.findall(pattern)) > _REPEATS_MAX:
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def compare_arrays(comparison: NodeComparison, old: Array, new: Array, found: ChangeSet) -> Walk[None]:
    """Compare two arrays in Confluent's order."""
    if old.all_items is not None or new.all_items is not None:
        found.include((yield comparison.compare(old.all_items, new.all_items)), "items")
    yield _first_items(comparison, old, new, found)
    yield _additional(comparison, old, new, "ADDITIONAL_ITEMS", "additionalItems", found)
    yield _compare_unevaluated(
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
        yield _compare_removed_item(comparison, before, new, f"items/{index}", found)
    for index, after in enumerate(new.items[both:], both):
        yield _compare_added_item(comparison, old, after, f"items/{index}", found)


def _compare_removed_item(
    comparison: NodeComparison, before: Node, new: Array, path: str, found: ChangeSet
) -> Walk[None]:
    if _is_open(new):
        found.add("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", path)
        return
    yield _compare_removed(comparison, before, _covering_rest(new), "ITEM", path, found)


def _compare_added_item(
    comparison: NodeComparison, old: Array, after: Node, path: str, found: ChangeSet
) -> Walk[None]:
    covering = _covering_rest(old)
    if _is_open(old):
        kind = "ITEM_WITH_EMPTY_SCHEMA" if after.kind == "empty" else "ITEM"
        found.add(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path)
    elif covering is not None:
        inner: ChangeSet = yield comparison.compare(covering, after)
        found.include_covered(inner, "ITEM_ADDED", path)
    else:
        found.add("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path)
