"""Comparison of two logical types by the rules of an engine (Confluent 8.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from registry.domain.schemas.contract import Budget

from .findings import Finding, inside
from .modes import Mode, has_default_container, stored_in_iceberg
from .types import Array, Field, Kind, Leaf, Map, Struct, Type, name_of

_TYPE_CHANGED: Final = "type changed from %s to %s"
# The counts of a multiset, where it is stored as a map.
_COUNT: Final = Type(Leaf(Kind.INT))


def findings(old: Type, new: Type, mode: Mode, budget: Budget) -> list[Finding]:
    """Return what an engine does not allow of the change from ``old`` to ``new``.

    Fields are matched by name. Each pair of structs counts once. Raises :class:`.contract.Exhausted`.
    """
    return _Comparison(mode, budget).run(old, new)


class _Comparison:
    """One comparison. Pairs that are still to be compared wait in a list, so nesting takes no stack."""

    def __init__(self, mode: Mode, budget: Budget) -> None:
        self._mode = mode
        self._budget = budget
        self._seen: set[tuple[int, int]] = set()
        self._todo: list[Finding | tuple[Type, Type, str]] = []

    def run(self, old: Type, new: Type) -> list[Finding]:
        found: list[Finding] = []
        self._todo.append((old, new, ""))
        while self._todo:
            step = self._todo.pop()
            self._budget.spend()
            if isinstance(step, Finding):
                found.append(step)
            else:
                # The next steps in their order: the list is a stack.
                self._todo += reversed([*self._steps(*step)])
        return found

    def _steps(self, old: Type, new: Type, path: str) -> Iterator[Finding | tuple[Type, Type, str]]:
        before, after = self._storage_shape(old), self._storage_shape(new)
        match before, after:
            case Leaf(), Leaf():
                reason = self._mode.leaf_rule(before, after)
                if reason is not None:
                    yield Finding("UNSUPPORTED_TYPE_CHANGE", path, _TYPE_CHANGED % (before, after) + reason)
            case Struct(), Struct():
                pair = id(before), id(after)
                if pair not in self._seen:
                    self._seen.add(pair)
                    yield from self._fields(before, after, path)
            case Array(), Array() if before.is_multiset == after.is_multiset:
                yield from self._child(before.element, after.element, f"{path}[]")
            case Map(), Map():
                yield from self._map(before, after, path)
            case _:
                yield Finding("TYPE_MISMATCH", path, _TYPE_CHANGED % (name_of(old.shape), name_of(new.shape)))

    def _storage_shape(self, type: Type) -> Leaf | Array | Map | Struct:
        shape = type.shape
        if self._mode.is_iceberg and isinstance(shape, Array) and shape.is_multiset:
            return Map(shape.element, _COUNT)
        return shape

    def _map(self, old: Map, new: Map, path: str) -> Iterator[Finding | tuple[Type, Type, str]]:
        before, after = old.key.shape, new.key.shape
        if not self._mode.keeps_fields:
            yield from self._child(old.key, new.key, f"{path}{{key}}")
        elif stored_in_iceberg(before) != stored_in_iceberg(after):
            text = f"map key type changed from {name_of(before)} to {name_of(after)}"
            yield Finding("MAP_KEY_TYPE_MISMATCH", path, text)
        yield from self._child(old.value, new.value, f"{path}{{}}")

    def _child(self, old: Type, new: Type, path: str) -> Iterator[Finding | tuple[Type, Type, str]]:
        if self._mode.element_not_null and old.nullable and not new.nullable:
            yield Finding("NULLABLE_TO_NON_NULLABLE", path, self._mode.element_not_null)
        yield old, new, path

    def _fields(self, old: Struct, new: Struct, path: str) -> Iterator[Finding | tuple[Type, Type, str]]:
        before = {each.name: each for each in old.fields}
        for each in new.fields:
            where = inside(path, each.name)
            known = before.get(each.name)
            if known is not None:
                yield from self._field(known, each, where)
            elif (text := self._mode.added(each)) is not None:
                yield Finding("REQUIRED_FIELD_ADDED", where, text)
        if self._mode.keeps_fields:
            yield from _deletions(old, new, path)
            yield from _reorderings(old, new, path)

    def _field(self, old: Field, new: Field, path: str) -> Iterator[Finding | tuple[Type, Type, str]]:
        mode = self._mode
        if old.type.nullable and not new.type.nullable:
            if not (mode.is_iceberg and has_default_container(new)):
                yield Finding("NULLABLE_TO_NON_NULLABLE", path, mode.not_null)
        elif (
            mode.default_removed
            and not old.type.nullable
            and old.has_value
            and not new.has_value
            and not new.type.nullable
        ):
            yield Finding("NON_NULLABLE_DEFAULT_REMOVED", path, mode.default_removed)
        yield old.type, new.type, path


def _deletions(old: Struct, new: Struct, path: str) -> Iterator[Finding]:
    kept = {each.name for each in new.fields}
    for each in old.fields:
        if each.name not in kept:
            text = "field present in the original schema is missing from the update"
            yield Finding("FIELD_DELETED", inside(path, each.name), text)


def _reorderings(old: Struct, new: Struct, path: str) -> Iterator[Finding]:
    """Yield a finding for each common field that stands behind one that it preceded."""
    places = {each.name: place for place, each in enumerate(old.fields)}
    last = -1
    for each in new.fields:
        place = places.get(each.name)
        if place is None:
            continue
        if place < last:
            text = "field moved ahead of a field that preceded it in the original schema"
            yield Finding("FIELD_REORDERED", inside(path, each.name), text)
        last = place
