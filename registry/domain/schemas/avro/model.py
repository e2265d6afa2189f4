"""The model of an Avro schema: what Java's ``org.apache.avro.Schema`` holds, and nothing else."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeAlias

import msgspec

# A JSON value: None, bool, int, float, str, list, dict.
Json: TypeAlias = Any


class _Missing:
    """The default of a field without one; ``null`` is a default like any other."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class _Part(msgspec.Struct, eq=False):
    """A part of a schema; each is equal to itself only."""


class Primitive(_Part):
    """``null`` … ``string``, with properties."""

    kind: str
    props: dict[str, Json] | None
    # The canonical text, if known.
    text: str | None = None


class Array(_Part):
    """An array of ``items``."""

    kind: ClassVar[str] = "array"
    items: Node
    props: dict[str, Json] | None
    # The canonical text, if known.
    text: str | None = None


class Map(_Part):
    """A map from strings to ``values``."""

    kind: ClassVar[str] = "map"
    values: Node
    props: dict[str, Json] | None
    # The canonical text, if known.
    text: str | None = None


class Union(_Part):
    """A union."""

    kind: ClassVar[str] = "union"
    branches: list[Node]
    # The canonical text, if known.
    text: str | None = None


class Name:
    """A full name in two parts; ``space`` is None for the null namespace."""

    __slots__ = ("full", "simple", "space")

    def __init__(self, simple: str, space: str | None) -> None:
        self.simple = simple
        self.space = space
        self.full = simple if space is None else f"{space}.{simple}"


class Field(_Part):
    """A field of a record; ``default`` is MISSING if it has none, ``order`` is as in Java."""

    name: str
    type: Node
    doc: str | None = None
    default: Json = MISSING
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    props: dict[str, Json] | None = None


class Record(_Part):
    """A record, or an error if ``is_error``."""

    kind: ClassVar[str] = "record"
    text: ClassVar[None] = None
    name: Name
    doc: str | None
    fields: list[Field]
    aliases: tuple[Name, ...]
    props: dict[str, Json] | None
    is_error: bool


class Enum(_Part):
    """An enum; ``default`` is None if it has none."""

    kind: ClassVar[str] = "enum"
    text: ClassVar[None] = None
    name: Name
    doc: str | None
    symbols: list[str]
    default: str | None
    aliases: tuple[Name, ...]
    props: dict[str, Json] | None


class Fixed(_Part):
    """A fixed of ``size`` bytes."""

    kind: ClassVar[str] = "fixed"
    text: ClassVar[None] = None
    name: Name
    doc: str | None
    size: int
    aliases: tuple[Name, ...]
    props: dict[str, Json] | None


class Unresolved(_Part):
    """A name that was used before its definition, which replaces it later."""

    kind: ClassVar[str] = "record"
    text: ClassVar[None] = None
    full: str


Named: TypeAlias = Record | Enum | Fixed
Node: TypeAlias = Primitive | Array | Map | Union | Record | Enum | Fixed | Unresolved

_KINDS: Final = ("string", "bytes", "int", "long", "float", "double", "boolean", "null")
# The primitives without properties: shared by all schemas, so they can be compared by identity.
PRIMITIVES: Final[dict[str, Primitive]] = {kind: Primitive(kind, None, f'"{kind}"') for kind in _KINDS}

# The unions of two such primitives, also shared: most nullable fields have one of these.
PAIRS: Final[dict[tuple[str, str], Union]] = {
    (one, other): Union([PRIMITIVES[one], PRIMITIVES[other]], f'["{one}","{other}"]')
    for one in _KINDS
    for other in _KINDS
    if one != other
}
# The arrays and maps of such primitives, also shared, by their kind and that of what is in them.
CONTAINERS: Final[dict[tuple[str, str], Array | Map]] = {
    (kind, inner.kind): made(inner, None, f'{{"type":"{kind}","{key}":{inner.text}}}')
    for kind, key, made in (("array", "items", Array), ("map", "values", Map))
    for inner in PRIMITIVES.values()
}

TYPE_NAMES: Final = frozenset(PRIMITIVES) | {"record", "enum", "array", "map", "union", "fixed"}


def type_name(node: Node) -> str:
    """Return the name of a branch within a union: its full name or the name of its type."""
    if type(node) is Record or type(node) is Enum or type(node) is Fixed:
        return node.name.full
    return node.kind
