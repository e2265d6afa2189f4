"""Pairs of column types, and the verdicts of a target on the change from one to the other."""

from __future__ import annotations

from itertools import permutations

from registry.domain.schemas import Budget
from registry.domain.schemas.logical import comparing
from registry.domain.schemas.logical.engines import TARGETS
from registry.domain.schemas.logical.types import BYTES, STRING, Field, Kind, Leaf, Struct, Type

Pair = tuple[Leaf, Leaf]

DECIMALS = [
    Leaf(Kind.DECIMAL, *size)
    for size in ((9, 0), (10, 0), (10, 2), (12, 2), (12, 3), (12, 4), (20, 0), (22, 2))
]
LEAVES = [
    *(
        Leaf(kind)
        for kind in (
            Kind.BOOLEAN,
            Kind.TINYINT,
            Kind.SMALLINT,
            Kind.INT,
            Kind.BIGINT,
            Kind.FLOAT,
            Kind.DOUBLE,
        )
    ),
    *DECIMALS,
    STRING,
    BYTES,
    Leaf(Kind.DATE),
    *(Leaf(Kind.TIMESTAMP, precision) for precision in (3, 6, 9)),
    Leaf(Kind.TIMESTAMP_LTZ, 6),
]
PAIRS: list[Pair] = list(permutations(LEAVES, 2))

# The greatest value of a type as SQL, so that a change that loses something shows.
_VALUES = {
    Kind.BOOLEAN: "true",
    Kind.TINYINT: "127",
    Kind.SMALLINT: "32767",
    Kind.INT: "2147483647",
    Kind.BIGINT: "9223372036854775807",
    Kind.FLOAT: "1.1",
    Kind.DOUBLE: "1.1",
    Kind.VARCHAR: "'a'",
    Kind.VARBINARY: "'a'",
    Kind.CHAR: "'a'",
    Kind.BINARY: "'a'",
    Kind.ENUM: "'a'",
    Kind.VARIANT: "1",
    Kind.TIME: "'03:04:05'",
    Kind.DATE: "'2020-01-02'",
}
_MOMENT = "2020-01-02 03:04:05.123456789"
_WITHOUT_FRACTION = len("2020-01-02 03:04:05.")


def value_of(leaf: Leaf) -> str:
    """Return the greatest value of a type as SQL."""
    size, scale = leaf.size or 0, leaf.scale or 0
    if leaf.kind is Kind.DECIMAL:
        return f"'{'9' * (size - scale)}{'.' if scale else ''}{'9' * scale}'"
    if leaf.symbols:
        return f"'{leaf.symbols[-1]}'"
    if leaf.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return f"'{_MOMENT[: _WITHOUT_FRACTION + size]}'"
    return _VALUES[leaf.kind]


def may_become(target: str, old: Leaf, new: Leaf) -> bool:
    """Return true if the target allows a column to change from one type to the other."""
    return not comparing.change_findings(_table(old), _table(new), TARGETS[target], Budget())


def _table(leaf: Leaf) -> Type:
    struct = Struct()
    struct.fields.append(Field("x", Type(leaf, nullable=True)))
    return Type(struct)
