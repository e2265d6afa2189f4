"""Limits of engines on types, whatever changes: a function for each, over one part of a type."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from .leaf_rules import MICROSECONDS, TIMESTAMPS, size_of
from .types import Array, Kind, Leaf, Map, Struct, Type

# A rule that is broken, and a text.
Fault = tuple[str, str]
# Yields the faults of a part of a type at a depth below the root.
Limit = Callable[[Type, int], Iterator[Fault]]

_NESTING_MAX: Final = 15
_LETTERS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
_PUNCTUATION: Final = re.compile(r"[ ,;{}()\n\t=]")
_DIGITS_MAX: Final = 38
_LENGTH_MIN: Final = {Kind.CHAR: 1, Kind.BINARY: 1, Kind.VARCHAR: 0, Kind.VARBINARY: 0}


def sizes(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse sizes that no engine has (Confluent 8.4)."""
    leaf = type.shape
    if not isinstance(leaf, Leaf):
        return
    size, scale = size_of(leaf), leaf.scale or 0
    if leaf.kind is Kind.DECIMAL:
        if not 1 <= size <= _DIGITS_MAX:
            text = f"DECIMAL precision {size} is outside the supported range 1 to {_DIGITS_MAX}"
            yield "PRECISION_OUT_OF_RANGE", text
        if not 0 <= scale <= size:
            text = f"DECIMAL scale {scale} is outside the supported range 0 to the precision {size}"
            yield "SCALE_OUT_OF_RANGE", text
    elif size < _LENGTH_MIN.get(leaf.kind, 0):
        text = f"{leaf.kind} length {size} is below the minimum of {_LENGTH_MIN[leaf.kind]}"
        yield "LENGTH_OUT_OF_RANGE", text


def needs_fields(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse structs and unions without members."""
    shape = type.shape
    if isinstance(shape, Struct) and not shape.fields:
        yield "EMPTY_STRUCT", f"a {'union' if shape.is_union else 'struct'} must have at least one field"


def ignores_case(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse names that differ only in case."""
    for one, other in _case_collisions(type):
        yield "FIELD_NAME_CASE_COLLISION", f"field names '{one}' and '{other}' differ only in case"


def ignores_case_in_iceberg(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse names that differ only in case, in Confluent's words."""
    for one, other in _case_collisions(type):
        text = (
            f"field names '{one}' and '{other}' differ only in case, which Iceberg's case-insensitive name "
            "index cannot distinguish"
        )
        yield "FIELD_NAME_CASE_COLLISION", text


def _case_collisions(type: Type) -> Iterator[tuple[str, str]]:
    if not isinstance(type.shape, Struct):
        return
    alike: dict[str, list[str]] = defaultdict(list)
    for each in type.shape.fields:
        alike[each.name.lower()].append(each.name)
    for names in alike.values():
        yield from ((names[0], other) for other in names[1:])


def letters_only(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse names of more than ASCII letters, digits and underscores, and longer than 300."""
    for name in _names(type):
        if not _LETTERS.fullmatch(name):
            text = f"field name '{name}' is not made of at most 300 letters, digits and underscores"
            yield "FIELD_NAME_NOT_ALLOWED", text


def no_punctuation(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse blanks and the characters ``,;{}()=`` in names."""
    for name in _names(type):
        if _PUNCTUATION.search(name):
            yield "FIELD_NAME_NOT_ALLOWED", f"field name '{name}' needs column mapping"


def _names(type: Type) -> Iterator[str]:
    if isinstance(type.shape, Struct):
        yield from (each.name for each in type.shape.fields)


def microseconds_only_in_iceberg(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse timestamps finer than microseconds, in Confluent's words."""
    if _is_nanoseconds(type):
        yield (
            "UNREPRESENTABLE_TYPE",
            f"{type} needs Iceberg's nanosecond timestamp types, which arrived in format-version 3",
        )


def microseconds_only(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse timestamps finer than microseconds."""
    if _is_nanoseconds(type):
        yield "UNREPRESENTABLE_TYPE", f"{type} is cut to microseconds"


def _is_nanoseconds(type: Type) -> bool:
    leaf = type.shape
    return isinstance(leaf, Leaf) and leaf.kind in TIMESTAMPS and size_of(leaf) > MICROSECONDS


def no_variant_in_iceberg(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse values of any type, in Confluent's words."""
    if isinstance(type.shape, Leaf) and type.shape.kind is Kind.VARIANT:
        text = "VARIANT needs Iceberg's variant type, which arrived in format-version 3"
        yield "UNREPRESENTABLE_TYPE", text


def no_unsigned(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse unsigned integers of 64 bits."""
    if isinstance(type.shape, Leaf) and type.shape.is_unsigned:
        yield "UNREPRESENTABLE_TYPE", "unsigned integers above 9223372036854775807 become negative"


def no_null_collections(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse arrays and maps that may be null."""
    if type.nullable and isinstance(type.shape, Array | Map):
        yield "NULLABLE_COLLECTION", f"{type} cannot be null; null is stored as an empty one"


def no_null_elements(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse arrays whose elements may be null."""
    if isinstance(type.shape, Array) and type.shape.element.nullable:
        yield "NULLABLE_ELEMENT", f"elements of {type} cannot be null"


def no_arrays_in_arrays(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse arrays of arrays."""
    if isinstance(type.shape, Array) and isinstance(type.shape.element.shape, Array):
        yield "ARRAY_OF_ARRAYS", "elements cannot be arrays; a struct with an array can stand between"


def nesting(type: Type, depth: int) -> Iterator[Fault]:
    """Refuse structs below the 15th level."""
    if depth == _NESTING_MAX + 1 and isinstance(type.shape, Struct):
        yield "NESTED_TOO_DEEPLY", f"structs are nested more than {_NESTING_MAX} levels deep"
