"""Which types without parts may become which, by engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from .types import UNBOUNDED, Kind, Leaf

# Digits that hold every value of an integer.
_DIGITS: Final[Mapping[Kind, int]] = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}
# The same for readers of Parquet, whose small integers have 32 bits.
_PARQUET_DIGITS: Final[Mapping[Kind, int]] = {
    Kind.TINYINT: 10,
    Kind.SMALLINT: 10,
    Kind.INT: 10,
    Kind.BIGINT: 20,
}
# Digits of which a number holds every integer.
_EXACT_DIGITS: Final[Mapping[Kind, int]] = {
    Kind.TINYINT: 2,
    Kind.SMALLINT: 4,
    Kind.INT: 9,
    Kind.BIGINT: 18,
    Kind.FLOAT: 7,
    Kind.DOUBLE: 15,
}
_INTEGERS: Final = tuple(_DIGITS)
_FLINK_NUMBERS: Final[Mapping[Kind, frozenset[Kind]]] = {
    Kind.TINYINT: frozenset({Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE}),
    Kind.SMALLINT: frozenset({Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE}),
    Kind.INT: frozenset({Kind.BIGINT, Kind.DOUBLE}),
    Kind.FLOAT: frozenset({Kind.DOUBLE}),
}
TIMESTAMPS: Final = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_TEMPORAL: Final = TIMESTAMPS | {Kind.TIME}
_FIXED: Final = frozenset({Kind.CHAR, Kind.BINARY})
_VARYING: Final[Mapping[Kind, Kind]] = {
    Kind.CHAR: Kind.VARCHAR,
    Kind.VARCHAR: Kind.VARCHAR,
    Kind.BINARY: Kind.VARBINARY,
    Kind.VARBINARY: Kind.VARBINARY,
}
_SIZED: Final = frozenset({Kind.DECIMAL, *_VARYING, *_TEMPORAL})
# Precisions that are stored in one unit: milliseconds, microseconds, nanoseconds.
MILLISECONDS, MICROSECONDS, NANOSECONDS = 3, 6, 9

_RANGE: Final = " (target cannot represent the full range of the source)"
_DECIMAL: Final = " (decimal scale must be unchanged and precision may not shrink)"
_DIGITS_LOST: Final = " (digits before or after the point may not shrink)"
_FIXED_LENGTH: Final = " (a fixed-length type cannot change length)"
_FIXED_BINARY: Final = " (fixed-length binary cannot change length)"
_SHORTER: Final = " (length may not shrink)"
_UNIT: Final = " (precision selects the unit of the stored value and cannot change)"
_FINER: Final = " (precision may not shrink)"
_NARROWER: Final = " (rows may hold values that are too large)"
_SYMBOLS: Final = " (rows may hold the symbols that are gone)"


def size_of(leaf: Leaf) -> int:
    """Return the length or precision, 0 if there is none."""
    return 0 if leaf.size is None else leaf.size


def flink(old: Leaf, new: Leaf) -> str | None:
    """Return why Flink refuses a change, "" without a reason; None if it does not."""
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
        return None if size_of(new) >= size_of(old) else _SHORTER
    return ""


def _without_enum(leaf: Leaf) -> Leaf:
    return Leaf(Kind.VARCHAR, UNBOUNDED) if leaf.kind is Kind.ENUM else leaf


def _to_decimal(old: Leaf, new: Leaf) -> str | None:
    scale = new.scale or 0
    if old.kind is Kind.DECIMAL:
        return None if (old.scale or 0) == scale and size_of(new) >= size_of(old) else _DECIMAL
    if old.kind in _DIGITS:
        return None if size_of(new) - scale >= _DIGITS[old.kind] else _RANGE
    return ""


# Integers without loss.
WIDER_INTEGERS: Final = frozenset(
    (narrow, wide) for place, narrow in enumerate(_INTEGERS) for wide in _INTEGERS[place + 1 :]
)
_DOUBLES: Final = frozenset(
    (each, Kind.DOUBLE) for each in (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.FLOAT)
)
_WIDER: Final = WIDER_INTEGERS | {(Kind.FLOAT, Kind.DOUBLE)}
_DATE_TO_TIMESTAMP: Final = (Kind.DATE, Kind.TIMESTAMP)
# The types of texts and bytes without a length, where an engine has no others.
_TEXTS: Final[Mapping[Kind, Kind]] = {
    Kind.CHAR: Kind.VARCHAR,
    Kind.ENUM: Kind.VARCHAR,
    Kind.BINARY: Kind.VARBINARY,
}


class Widening(NamedTuple):
    """The changes that an engine makes without losing a value, as a table."""

    # What the engine stores for a kind, where that is not the kind itself.
    stored: Mapping[Kind, Kind]
    # Changes of what is stored.
    pairs: frozenset[tuple[Kind, Kind]]
    # The digits before the point that a decimal needs to take an integer; empty: it takes none.
    decimal_digits: Mapping[Kind, int] = _DIGITS
    # True if a decimal without digits after the point may become a number that holds it.
    integral_decimals: bool = False
    # True if the scale of a decimal may grow as long as the digits before the point do not shrink.
    scales_grow: bool = True
    # The greatest precision of each unit that timestamps are stored in; empty: the precision may grow freely.
    units: tuple[int, ...] = ()
    # True if an enum is stored as such, so that its symbols may not shrink.
    closed_enums: bool = False
    # True if a number may become a narrower one that is stored alike, although rows may hold greater ones.
    narrows: bool = False

    def refusal(self, old: Leaf, new: Leaf) -> str | None:
        """Return why a change is refused, "" without a reason; None if it is not."""
        before, after = (self.stored.get(each.kind, each.kind) for each in (old, new))
        if before is after and (new.kind, old.kind) in _WIDER and not self.narrows:
            return _NARROWER
        if before is after:
            return self._same_kind(before, old, new)
        if (before, after) in self.pairs:
            return None
        if after is Kind.DECIMAL and before in self.decimal_digits:
            return None if _whole_digits(new) >= self.decimal_digits[before] else _RANGE
        if before is Kind.DECIMAL and self.integral_decimals and not old.scale:
            return None if size_of(old) <= _EXACT_DIGITS.get(after, 0) else ""
        return ""

    def _same_kind(self, kind: Kind, old: Leaf, new: Leaf) -> str | None:
        match kind:
            case Kind.DECIMAL if self.scales_grow:
                shrinks = _whole_digits(new) < _whole_digits(old) or (new.scale or 0) < (old.scale or 0)
                return _DIGITS_LOST if shrinks else None
            case Kind.DECIMAL:
                return _to_decimal(old, new)
            case Kind.BINARY:
                return None if old.size == new.size else _FIXED_BINARY
            case Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ:
                return self._precision(size_of(old), size_of(new))
            case Kind.ENUM if self.closed_enums and not set(old.symbols) <= set(new.symbols):
                return _SYMBOLS
        return None

    def _precision(self, old: int, new: int) -> str | None:
        if self.units:
            return None if _unit(old, self.units) == _unit(new, self.units) else _UNIT
        return None if new >= old else _FINER


def _whole_digits(leaf: Leaf) -> int:
    return size_of(leaf) - (leaf.scale or 0)


def _unit(precision: int, units: tuple[int, ...]) -> int:
    return next((each for each in units if precision <= each), NANOSECONDS)


ICEBERG: Final = Widening(
    {Kind.TINYINT: Kind.INT, Kind.SMALLINT: Kind.INT, Kind.CHAR: Kind.VARCHAR, Kind.ENUM: Kind.VARCHAR},
    frozenset({(Kind.INT, Kind.BIGINT), (Kind.FLOAT, Kind.DOUBLE)}),
    decimal_digits={},
    scales_grow=False,
    units=(MICROSECONDS, NANOSECONDS),
    narrows=True,
)
# Confluent's LOGICAL lets numbers become narrower, a target does not.
ICEBERG_TARGET: Final = ICEBERG._replace(narrows=False)
# Spark's readers of Parquet, and Delta's type widening.
SPARK: Final = Widening(
    _TEXTS,
    WIDER_INTEGERS | _DOUBLES | {_DATE_TO_TIMESTAMP},
    decimal_digits=_PARQUET_DIGITS,
    units=(MICROSECONDS, NANOSECONDS),
)
# Files whose schemas Spark merges.
PARQUET: Final = Widening(
    {Kind.CHAR: Kind.VARCHAR, Kind.ENUM: Kind.VARCHAR},
    frozenset(),
    decimal_digits={},
    scales_grow=False,
    units=(MILLISECONDS, MICROSECONDS, NANOSECONDS),
)
BIGQUERY: Final = Widening(
    {
        **_TEXTS,
        Kind.TINYINT: Kind.BIGINT,
        Kind.SMALLINT: Kind.BIGINT,
        Kind.INT: Kind.BIGINT,
        Kind.FLOAT: Kind.DOUBLE,
    },
    frozenset(),
    units=(MICROSECONDS, NANOSECONDS),
)
_SMALL_FLOATS: Final = {(Kind.TINYINT, Kind.FLOAT), (Kind.SMALLINT, Kind.FLOAT)}
CLICKHOUSE: Final = Widening(
    {Kind.CHAR: Kind.VARCHAR},
    WIDER_INTEGERS | _DOUBLES | _SMALL_FLOATS | {_DATE_TO_TIMESTAMP, (Kind.ENUM, Kind.VARCHAR)},
    integral_decimals=True,
    closed_enums=True,
)
DUCKDB: Final = Widening(
    _TEXTS,
    WIDER_INTEGERS | _DOUBLES | _SMALL_FLOATS | {_DATE_TO_TIMESTAMP},
    integral_decimals=True,
)
