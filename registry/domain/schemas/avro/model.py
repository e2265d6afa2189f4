"""The model of an Avro schema: what Java's ``org.apache.avro.Schema`` holds, and nothing else."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

# A JSON value: None, bool, int, float, str, list, dict.
Json: TypeAlias = Any


class _Missing:
    """The default of a field without one; ``null`` is a default like any other."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Primitive:
    """``null`` … ``string``, with properties. ``text`` is its canonical text, if known."""

    __slots__ = ("kind", "props", "text")

    def __init__(self, kind: str, props: dict[str, Json] | None, text: str | None = None) -> None:
        self.kind = kind
        self.props = props
        self.text = text


class Array:
    """An array of ``items``."""

    __slots__ = ("items", "props")
    kind: Final = "array"
    text: Final = None

    def __init__(self, items: Node, props: dict[str, Json] | None) -> None:
        self.items = items
        self.props = props


class Map:
    """A map from strings to ``values``."""

    __slots__ = ("props", "values")
    kind: Final = "map"
    text: Final = None

    def __init__(self, values: Node, props: dict[str, Json] | None) -> None:
        self.values = values
        self.props = props


class Union:
    """A union. ``text`` is its canonical text, if known."""

    __slots__ = ("branches", "text")
    kind: Final = "union"

    def __init__(self, branches: list[Node], text: str | None = None) -> None:
        self.branches = branches
        self.text = text


class Name:
    """A full name in two parts; ``space`` is None for the null namespace."""

    __slots__ = ("full", "simple", "space")

    def __init__(self, simple: str, space: str | None) -> None:
        self.simple = simple
        self.space = space
        self.full = simple if space is None else f"{space}.{simple}"


class Field:
    """A field of a record; ``default`` is MISSING if it has none, ``order`` is as in Java."""

    __slots__ = ("aliases", "default", "doc", "name", "order", "props", "type")

    def __init__(
        self,
        name: str,
        type: Node,
        doc: str | None,
        default: Json,
        order: str = "ascending",
        aliases: tuple[str, ...] = (),
        props: dict[str, Json] | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.doc = doc
        self.default = default
        self.order = order
        self.aliases = aliases
        self.props = props


class Record:
    """A record, or an error if ``is_error``."""

    __slots__ = ("aliases", "doc", "fields", "is_error", "name", "props")
    kind: Final = "record"
    text: Final = None

    def __init__(
        self,
        name: Name,
        doc: str | None,
        fields: list[Field],
        aliases: tuple[Name, ...],
        props: dict[str, Json] | None,
        is_error: bool,
    ) -> None:
        self.name = name
        self.doc = doc
        self.fields = fields
        self.aliases = aliases
        self.props = props
        self.is_error = is_error


class Enum:
    """An enum; ``default`` is None if it has none."""

    __slots__ = ("aliases", "default", "doc", "name", "props", "symbols")
    kind: Final = "enum"
    text: Final = None

    def __init__(
        self,
        name: Name,
        doc: str | None,
        symbols: list[str],
        default: str | None,
        aliases: tuple[Name, ...],
        props: dict[str, Json] | None,
    ) -> None:
        self.name = name
        self.doc = doc
        self.symbols = symbols
        self.default = default
        self.aliases = aliases
        self.props = props


class Fixed:
    """A fixed of ``size`` bytes."""

    __slots__ = ("aliases", "doc", "name", "props", "size")
    kind: Final = "fixed"
    text: Final = None

    def __init__(
        self,
        name: Name,
        doc: str | None,
        size: int,
        aliases: tuple[Name, ...],
        props: dict[str, Json] | None,
    ) -> None:
        self.name = name
        self.doc = doc
        self.size = size
        self.aliases = aliases
        self.props = props


class Unresolved:
    """A name that was used before its definition, which replaces it later."""

    __slots__ = ("full",)
    kind: Final = "record"
    text: Final = None

    def __init__(self, full: str) -> None:
        self.full = full


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

TYPE_NAMES: Final = frozenset(PRIMITIVES) | {"record", "enum", "array", "map", "union", "fixed"}


def type_name(node: Node) -> str:
    """Return the name of a branch within a union: its full name or the name of its type."""
    if type(node) is Record or type(node) is Enum or type(node) is Fixed:
        return node.name.full
    return node.kind
