"""Comparison of logical types, with the limits of an engine and with each other (Confluent 8.4)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

from registry.domain.schemas.contract import Budget

from . import limits
from .engines import Engine, is_collection_with_default, stored_in_iceberg
from .findings import Finding, inside
from .types import Array, Field, Kind, Leaf, Map, Struct, Type, name_of


def limit_findings(root: Type, engine: Engine, budget: Budget) -> list[Finding]:
    """Return the limits that a type exceeds, in the order of the fields; each struct counts once.

    Raises :class:`.contract.Exhausted`.
    """
    return [*_Walk(engine, budget).run(root)]


class _Left:
    """Marks the end of a struct's contents."""

    def __init__(self, struct: Struct) -> None:
        self.struct: Final = struct


class _Walk:
    def __init__(self, engine: Engine, budget: Budget) -> None:
        self._limits: Final = (limits.sizes, *engine.limits)
        self._budget = budget
        self._seen: set[int] = set()
        # Structs that contain the present part.
        self._around: set[int] = set()

    def run(self, root: Type) -> Iterator[Finding]:
        todo: list[tuple[Type | _Left, str, int]] = [(root, "", 0)]
        while todo:
            part, path, depth = todo.pop()
            self._budget.spend()
            if isinstance(part, _Left):
                self._around.discard(id(part.struct))
                continue
            if isinstance(part.shape, Struct):
                if id(part.shape) in self._around:
                    yield _cycle(part.shape, path)
                if id(part.shape) in self._seen:
                    continue
                self._seen.add(id(part.shape))
                self._around.add(id(part.shape))
                todo.append((_Left(part.shape), "", 0))
            for limit in self._limits:
                yield from (Finding(rule, path, text) for rule, text in limit(part, depth))
            todo += reversed([*_contents(part, path, depth)])


def _contents(part: Type, path: str, depth: int) -> Iterator[tuple[Type, str, int]]:
    match part.shape:
        case Array(element):
            yield element, f"{path}[]", depth
        case Map(key, value):
            yield key, f"{path}{{key}}", depth
            yield value, f"{path}{{}}", depth
        case Struct() as struct:
            yield from ((each.type, inside(path, each.name), depth + 1) for each in struct.fields)
        case Leaf():
            return


def _cycle(struct: Struct, path: str) -> Finding:
    name = struct.name.rpartition(".")[2] if struct.name else "union"
    text = f"named type '{name}' refers to itself, and cannot be represented by a non-recursive type system"
    return Finding("CYCLIC_TYPE", path, text)


_TYPE_CHANGED: Final = "type changed from %s to %s"
# The counts of a multiset, where it is stored as a map.
_COUNT: Final = Type(Leaf(Kind.INT))

# Equal columns that cost a step.
_EQUAL_PER_STEP: Final = 10

# A finding, or a pair that is still to be compared, with its path.
_Step: TypeAlias = Finding | tuple[Type, Type, str]


def change_findings(old: Type, new: Type, engine: Engine, budget: Budget) -> list[Finding]:
    """Return what an engine does not allow of the change from ``old`` to ``new``.

    Fields are matched by name. Each pair of structs counts once. Raises :class:`.contract.Exhausted`.
    """
    return _Comparison(engine, budget).run(old, new)


class _Comparison:
    """One comparison. Pairs that are still to be compared wait in a list, so nesting takes no stack."""

    def __init__(self, engine: Engine, budget: Budget) -> None:
        self._engine = engine
        self._budget = budget
        self._seen: set[tuple[int, int]] = set()
        self._todo: list[_Step] = []

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

    def _steps(self, old: Type, new: Type, path: str) -> Iterator[_Step]:
        before, after = self._storage_shape(old), self._storage_shape(new)
        match before, after:
            case Leaf(), Leaf():
                reason = self._engine.leaf_rule(before, after)
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
        if self._engine.counts_multisets and isinstance(shape, Array) and shape.is_multiset:
            return Map(shape.element, _COUNT)
        return shape

    def _map(self, old: Map, new: Map, path: str) -> Iterator[_Step]:
        before, after = old.key.shape, new.key.shape
        if not self._engine.keeps_keys:
            yield from self._child(old.key, new.key, f"{path}{{key}}")
        elif stored_in_iceberg(before) != stored_in_iceberg(after):
            text = f"map key type changed from {name_of(before)} to {name_of(after)}"
            yield Finding("MAP_KEY_TYPE_MISMATCH", path, text)
        yield from self._child(old.value, new.value, f"{path}{{}}")

    def _child(self, old: Type, new: Type, path: str) -> Iterator[_Step]:
        if self._engine.element_not_null and old.nullable and not new.nullable:
            yield Finding("NULLABLE_TO_NON_NULLABLE", path, self._engine.element_not_null)
        yield old, new, path

    def _fields(self, old: Struct, new: Struct, path: str) -> Iterator[_Step]:
        before = {each.name: each for each in old.fields}
        renamed = _renames(old, new) if self._engine.sees_renames else {}
        self._budget.spend(len(new.fields) // _EQUAL_PER_STEP)
        if path and self._engine.replaced and before.keys().isdisjoint(each.name for each in new.fields):
            yield Finding("ALL_FIELDS_REPLACED", path, self._engine.replaced)
        for each in new.fields:
            known = before.get(each.name)
            # Most columns stay as they are. Columns with parts are compared part by part.
            if known == each and isinstance(each.type.shape, Leaf):
                continue
            where = inside(path, each.name)
            if known is not None:
                yield from self._field(known, each, where)
            elif (former := renamed.get(each.name)) is not None:
                text = f"field was named '{former}', and columns are matched by name"
                yield Finding("FIELD_RENAMED", where, text)
            elif (text_added := self._addition(each, path)) is not None:
                yield Finding("REQUIRED_FIELD_ADDED", where, text_added)
        yield from self._deletions(old, {each.name for each in new.fields} | {*renamed.values()}, path)
        if self._engine.reordered:
            yield from (
                Finding("FIELD_REORDERED", inside(path, name), self._engine.reordered)
                for name in _moves(old, new)
            )

    def _addition(self, field: Field, path: str) -> str | None:
        if path and self._engine.added_inside and not field.type.nullable:
            return self._engine.added_inside
        return self._engine.added(field)

    def _deletions(self, old: Struct, kept: Collection[str], path: str) -> Iterator[Finding]:
        for each in old.fields:
            if each.name in kept:
                continue
            if self._engine.deleted:
                yield Finding("FIELD_DELETED", inside(path, each.name), self._engine.deleted)
            elif self._engine.required_deleted and not each.type.nullable:
                yield Finding(
                    "REQUIRED_FIELD_DELETED", inside(path, each.name), self._engine.required_deleted
                )

    def _field(self, old: Field, new: Field, path: str) -> Iterator[_Step]:
        engine = self._engine
        if new.type.nullable:
            pass
        elif old.type.nullable:
            if not (engine.exempts_collections and is_collection_with_default(new)):
                yield Finding("NULLABLE_TO_NON_NULLABLE", path, engine.not_null)
        elif engine.default_removed and old.has_value and not new.has_value:
            yield Finding("NON_NULLABLE_DEFAULT_REMOVED", path, engine.default_removed)
        yield old.type, new.type, path


def _renames(old: Struct, new: Struct) -> dict[str, str]:
    """Return the former names of added fields that are earlier ones by alias or number."""
    known = {each.name for each in old.fields}
    present = {each.name for each in new.fields}
    gone = {each.name: each for each in old.fields if each.name not in present}
    numbers = {each.number: each.name for each in gone.values() if each.number}
    found: dict[str, str] = {}
    for each in new.fields:
        if each.name in known:
            continue
        former = next((alias for alias in each.aliases if alias in gone), numbers.get(each.number))
        if former is not None:
            found[each.name] = former
    return found


def _moves(old: Struct, new: Struct) -> Iterator[str]:
    """Yield the common fields that stand behind one that they preceded."""
    places = {each.name: place for place, each in enumerate(old.fields)}
    last = -1
    for each in new.fields:
        place = places.get(each.name, last)
        if place < last:
            yield each.name
        last = place
