"""The engines whose rules ``compatibilityPolicy: LOGICAL`` asks for, as tables (Confluent 8.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from .types import UNBOUNDED, Array, Field, Kind, Leaf, Map, Shape

# Why one leaf may not become another: a reason in brackets, or nothing to add; None: it may.
LeafRule = Callable[[Leaf, Leaf], str | None]

# Digits that hold every value of an integer.
_DIGITS: Final[Mapping[Kind, int]] = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}
_FLINK_NUMBERS: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.TINYINT: frozenset({Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE}),
    Kind.SMALLINT: frozenset({Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE}),
    Kind.INT: frozenset({Kind.BIGINT, Kind.DOUBLE}),
    Kind.FLOAT: frozenset({Kind.DOUBLE}),
}
_TEMPORAL: Final = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_FIXED: Final = frozenset({Kind.CHAR, Kind.BINARY})
_VARYING: Final[Mapping[Kind, Kind]] = {
    Kind.CHAR: Kind.VARCHAR,
    Kind.VARCHAR: Kind.VARCHAR,
    Kind.BINARY: Kind.VARBINARY,
    Kind.VARBINARY: Kind.VARBINARY,
}
# What Iceberg stores for a kind, where that is not the kind itself.
_ICEBERG: Final[Mapping[Kind, Kind]] = {
    Kind.TINYINT: Kind.INT,
    Kind.SMALLINT: Kind.INT,
    Kind.CHAR: Kind.VARCHAR,
    Kind.ENUM: Kind.VARCHAR,
}
_ICEBERG_WIDER: Final = frozenset({(Kind.INT, Kind.BIGINT), (Kind.FLOAT, Kind.DOUBLE)})
# The greatest precision of microseconds; more digits are stored as nanoseconds.
MICROSECONDS: Final = 6

_RANGE: Final = " (target cannot represent the full range of the source)"
_DECIMAL: Final = " (decimal scale must be unchanged and precision may not shrink)"
_FIXED_LENGTH: Final = " (a fixed-length type cannot change length)"
_FIXED_BINARY: Final = " (fixed-length binary cannot change length)"
_SHORTER: Final = " (length may not shrink)"
_UNIT: Final = " (precision selects the unit of the stored value and cannot change)"


class Mode(NamedTuple):
    """The rules of one engine: an engine that lacks a rule allows the change."""

    name: str
    leaf_rule: LeafRule
    # Why rows written before a field was added cannot be read; None if they can.
    added: Callable[[Field], str | None]
    # The text about a field that must not be null any more.
    not_null: str
    # The same for elements, keys and values; empty: allowed.
    element_not_null: str = ""
    # The text about a required field that lost its default; empty: allowed.
    default_removed: str = ""
    # True if fields must stay, in their order, and keys of maps keep their type.
    keeps_fields: bool = False
    # True if a multiset is stored as a map, and a struct needs a field.
    is_iceberg: bool = False
    # True if the engine lacks nanoseconds and variants.
    lacks_v3_types: bool = False


def _flink_leaf(old: Leaf, new: Leaf) -> str | None:
    old, new = _without_enum(old), _without_enum(new)
    if old == new or (old.kind == new.kind and new.kind not in _SIZED):
        return None
    if new.kind in _FLINK_NUMBERS.get(old.kind, ()):
        return None
    if new.kind is Kind.DECIMAL:
        return _to_decimal(old, new)
    if old.kind is new.kind and old.kind in _TEMPORAL:
        return _UNIT
    if old.kind is new.kind and old.kind in _FIXED:
        return _FIXED_LENGTH
    if new.kind is _VARYING.get(old.kind):
        return None if _size(new) >= _size(old) else _SHORTER
    return ""


_SIZED: Final = frozenset({Kind.DECIMAL, *_VARYING, *_TEMPORAL})


def _without_enum(leaf: Leaf) -> Leaf:
    return Leaf(Kind.VARCHAR, UNBOUNDED) if leaf.kind is Kind.ENUM else leaf


def _to_decimal(old: Leaf, new: Leaf) -> str | None:
    scale = new.scale or 0
    if old.kind is Kind.DECIMAL:
        return None if (old.scale or 0) == scale and _size(new) >= _size(old) else _DECIMAL
    if old.kind in _DIGITS:
        return None if _size(new) - scale >= _DIGITS[old.kind] else _RANGE
    return ""


def _size(leaf: Leaf) -> int:
    return 0 if leaf.size is None else leaf.size


def _iceberg_leaf(old: Leaf, new: Leaf) -> str | None:
    before, after = (_ICEBERG.get(each.kind, each.kind) for each in (old, new))
    if before is not after:
        return None if (before, after) in _ICEBERG_WIDER else ""
    if before is Kind.DECIMAL:
        return _to_decimal(old, new)
    if before is Kind.BINARY:
        return None if old.size == new.size else _FIXED_BINARY
    if before in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return None if (_size(old) > MICROSECONDS) == (_size(new) > MICROSECONDS) else _UNIT
    return None


def _added_to_flink(field: Field) -> str | None:
    if field.type.nullable or field.has_value:
        return None
    return (
        "added column is neither nullable nor defaulted, so rows written before it existed "
        "have no value for it"
    )


_NOT_READABLE: Final = (
    "added field is neither nullable nor defaulted, so pre-existing rows have no value for it; "
)


def _added_to_iceberg_v2(field: Field) -> str | None:
    if field.type.nullable or has_default_container(field):
        return None
    return f"{_NOT_READABLE}format-version 2 cannot store a column default"


def _added_to_iceberg_v3(field: Field) -> str | None:
    has_default = field.has_value and field.type.shape != Leaf(Kind.VARIANT)
    if field.type.nullable or has_default:
        return None
    return f"{_NOT_READABLE}a non-null column default would make it readable"


def has_default_container(field: Field) -> bool:
    """Return true for an array, map or multiset with a default, which Protobuf implies."""
    return field.has_value and isinstance(field.type.shape, Array | Map)


def stored_in_iceberg(shape: Shape) -> object:
    """Return what Iceberg sees of the key of a map."""
    if not isinstance(shape, Leaf):
        return type(shape)
    kind = _ICEBERG.get(shape.kind, shape.kind)
    return (kind, shape.size, shape.scale) if kind in (Kind.DECIMAL, Kind.BINARY) else kind


FLINK: Final = Mode(
    "FLINK",
    _flink_leaf,
    _added_to_flink,
    not_null="column was nullable and is now NOT NULL; pre-existing rows may hold nulls",
    element_not_null="container child was nullable and is now NOT NULL; existing collections may hold nulls",
    default_removed="NOT NULL column lost its default; rows that omitted the column have no value to read",
)
ICEBERG_V2: Final = Mode(
    "ICEBERG_V2",
    _iceberg_leaf,
    _added_to_iceberg_v2,
    not_null="field was nullable and is now non-nullable; pre-existing rows may hold nulls",
    keeps_fields=True,
    is_iceberg=True,
    lacks_v3_types=True,
)
ICEBERG_V3: Final = ICEBERG_V2._replace(name="ICEBERG_V3", added=_added_to_iceberg_v3, lacks_v3_types=False)

# Those that LOGICAL asks for, in the order of their messages.
MODES: Final = (FLINK, ICEBERG_V2)
