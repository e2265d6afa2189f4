"""Logical types: the columns of a table in a lake or an engine, the same for all schema formats.

Confluent 8.4 reads every schema into such a type for ``compatibilityPolicy: LOGICAL``. Types form a graph: a
struct that is used twice is one object, and a recursive schema is a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

# The length of a string or binary that has no bound.
UNBOUNDED: Final = 2_147_483_647

# The default of a field without one; ``None`` is the default ``null``.
MISSING: Final[Any] = object()


class Kind(StrEnum):
    """The types without parts, in the words of SQL."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    ENUM = "ENUM"


class Notes(NamedTuple):
    """Facts about a part of a schema, apart from its type."""

    comment: str = ""
    tags: tuple[str, ...] = ()
    # Names and values.
    params: tuple[tuple[str, str], ...] = ()


NO_NOTES: Final = Notes()


class Leaf(NamedTuple):
    """A type without parts."""

    kind: Kind
    # The length in characters or bytes, or the precision in digits; None for kinds that have none.
    size: int | None = None
    # The digits after the point of a decimal; None: not said.
    scale: int | None = None
    # The symbols of an enum.
    symbols: tuple[str, ...] = ()
    # True for integers of 64 bits without a sign, which count as signed otherwise.
    is_unsigned: bool = False
    # Full name of an enum; empty if it has none.
    name: str = ""
    # On an enum, then on each of its symbols; empty: there are none.
    notes: tuple[Notes, ...] = ()

    def __str__(self) -> str:
        if self.size is None:
            return self.kind.value
        return (
            f"{self.kind}({self.size})" if self.scale is None else f"{self.kind}({self.size}, {self.scale})"
        )


class Array(NamedTuple):
    """An array, or a multiset of elements that may repeat."""

    element: Type
    is_multiset: bool = False


class Map(NamedTuple):
    """A map."""

    key: Type
    value: Type


class Struct:
    """Fields in order, or the branches of a union: fields of which one is set.

    The fields are filled in after the struct was made, because they may lead back to it.
    """

    __slots__ = ("fields", "is_union", "name", "namespace", "notes")

    def __init__(self, name: str = "", notes: Notes = NO_NOTES, *, is_union: bool = False) -> None:
        # Full name of a named type; empty for others.
        self.name: Final = name
        self.notes = notes
        # Of the types of its file (Protobuf); empty for others.
        self.namespace = ""
        self.is_union: Final = is_union
        self.fields: list[Field] = []


Shape: TypeAlias = Leaf | Array | Map | Struct


class Type(NamedTuple):
    """A type and whether its values may be null."""

    shape: Shape
    nullable: bool = False

    def __str__(self) -> str:
        return name_of(self.shape)


class Field(NamedTuple):
    """A field of a struct or a branch of a union."""

    name: str
    type: Type
    # A JSON value, in which dates and decimals are texts as in SQL, or bytes; ``MISSING`` if it has none.
    default: Any = MISSING
    # Its former names (Avro), and its number (Protobuf).
    aliases: tuple[str, ...] = ()
    number: int = 0
    notes: Notes = NO_NOTES

    @property
    def has_value(self) -> bool:
        """True if the default is a value other than null."""
        return self.default is not MISSING and self.default is not None


class External(Struct):
    """A type of another schema, known by its name only."""

    __slots__ = ()


class Script(NamedTuple):
    """The declarations of a text in DDL."""

    root: Type
    # By full name, in their order.
    declared: Mapping[str, Struct | Leaf]
    namespace: str
    # The URIs of external types that have one.
    imports: Mapping[str, str]


STRING: Final = Leaf(Kind.VARCHAR, UNBOUNDED)
BYTES: Final = Leaf(Kind.VARBINARY, UNBOUNDED)
VARIANT: Final = Leaf(Kind.VARIANT)


def name_of(shape: Shape) -> str:
    """Return the name of a type in messages."""
    match shape:
        case Leaf():
            return str(shape)
        case Array():
            return "MULTISET" if shape.is_multiset else "ARRAY"
        case Map():
            return "MAP"
        case Struct():
            return "UNION" if shape.is_union else "STRUCT"


def parent_of(name: str, declared: Mapping[str, object]) -> str:
    """Return the declared type that a type is nested in; empty if there is none."""
    before = name.rpartition(".")[0]
    while before and before not in declared:
        before = before.rpartition(".")[0]
    return before
