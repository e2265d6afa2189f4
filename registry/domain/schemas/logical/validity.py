"""The logical types that an engine can hold at all (Confluent 8.4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from registry.domain.schemas.contract import Budget

from .findings import Finding, inside
from .modes import MICROSECONDS, Mode
from .types import Array, Kind, Leaf, Map, Shape, Struct, Type

_DIGITS_MAX: Final = 38
_LENGTH_MIN: Final = {Kind.CHAR: 1, Kind.BINARY: 1, Kind.VARCHAR: 0, Kind.VARBINARY: 0}


def findings(root: Type, mode: Mode, budget: Budget) -> list[Finding]:
    """Return what an engine cannot hold, in the order of the fields; each struct counts once.

    Raises :class:`.contract.Exhausted`.
    """
    found: list[Finding] = []
    seen: set[int] = set()
    # Structs that lead to the present one.
    open_structs: set[int] = set()
    todo: list[tuple[Shape | None, str, int]] = [(root.shape, "", 0)]
    while todo:
        shape, path, struct_id = todo.pop()
        budget.spend()
        if shape is None:
            open_structs.discard(struct_id)
        elif isinstance(shape, Leaf):
            found += _of_leaf(shape, path, mode)
        elif isinstance(shape, Struct):
            if id(shape) in open_structs:
                found.append(_cycle(shape, path))
            if id(shape) in seen:
                continue
            seen.add(id(shape))
            open_structs.add(id(shape))
            found += _of_struct(shape, path, mode)
            todo.append((None, "", id(shape)))
            todo += [(each.type.shape, inside(path, each.name), 0) for each in reversed(shape.fields)]
        else:
            todo += [(each, where, 0) for each, where in reversed([*_contents(shape, path)])]
    return found


def _contents(shape: Array | Map, path: str) -> Iterator[tuple[Shape, str]]:
    if isinstance(shape, Array):
        yield shape.element.shape, f"{path}[]"
    else:
        yield shape.key.shape, f"{path}{{key}}"
        yield shape.value.shape, f"{path}{{}}"


def _cycle(struct: Struct, path: str) -> Finding:
    name = struct.name.rpartition(".")[2] if struct.name else "union"
    text = f"named type '{name}' refers to itself, and cannot be represented by a non-recursive type system"
    return Finding("CYCLIC_TYPE", path, text)


def _of_struct(struct: Struct, path: str, mode: Mode) -> Iterator[Finding]:
    if not mode.is_iceberg:
        return
    if not struct.fields:
        kind = "union" if struct.is_union else "struct"
        yield Finding("EMPTY_STRUCT", path, f"a {kind} must have at least one field")
    alike: dict[str, list[str]] = defaultdict(list)
    for each in struct.fields:
        alike[each.name.lower()].append(each.name)
    for names in alike.values():
        for other in names[1:]:
            text = (
                f"field names '{names[0]}' and '{other}' differ only in case, which Iceberg's "
                "case-insensitive name index cannot distinguish"
            )
            yield Finding("FIELD_NAME_CASE_COLLISION", path, text)


def _of_leaf(leaf: Leaf, path: str, mode: Mode) -> Iterator[Finding]:
    size = 0 if leaf.size is None else leaf.size
    if leaf.kind is Kind.DECIMAL:
        yield from _of_decimal(size, leaf.scale or 0, path)
    elif leaf.kind in _LENGTH_MIN and size < _LENGTH_MIN[leaf.kind]:
        text = f"{leaf.kind} length {size} is below the minimum of {_LENGTH_MIN[leaf.kind]}"
        yield Finding("LENGTH_OUT_OF_RANGE", path, text)
    elif mode.lacks_v3_types and leaf.kind is Kind.VARIANT:
        text = "VARIANT needs Iceberg's variant type, which arrived in format-version 3"
        yield Finding("UNREPRESENTABLE_TYPE", path, text)
    elif mode.lacks_v3_types and leaf.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) and size > MICROSECONDS:
        text = f"{leaf} needs Iceberg's nanosecond timestamp types, which arrived in format-version 3"
        yield Finding("UNREPRESENTABLE_TYPE", path, text)


def _of_decimal(precision: int, scale: int, path: str) -> Iterator[Finding]:
    if not 1 <= precision <= _DIGITS_MAX:
        text = f"DECIMAL precision {precision} is outside the supported range 1 to {_DIGITS_MAX}"
        yield Finding("PRECISION_OUT_OF_RANGE", path, text)
    if not 0 <= scale <= precision:
        text = f"DECIMAL scale {scale} is outside the supported range 0 to the precision {precision}"
        yield Finding("SCALE_OUT_OF_RANGE", path, text)
