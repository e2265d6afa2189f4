"""The light model of an Avro schema: what Java's ``org.apache.avro.Schema`` knows, and nothing else."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list, dict."""


class _Missing:
    """The default of a field that has none; ``null`` is a default like any other."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Primitive:
    """``null`` … ``string``, with the properties written beside it."""

    __slots__ = ("kind", "props")

    def __init__(self, kind: str, props: dict[str, Json] | None = None) -> None:
        self.kind = kind
        self.props = props


class Array:
    __slots__ = ("items", "props")
    kind: Final = "array"

    def __init__(self, items: Node, props: dict[str, Json] | None) -> None:
        self.items = items
        self.props = props


class Map:
    __slots__ = ("props", "values")
    kind: Final = "map"

    def __init__(self, values: Node, props: dict[str, Json] | None) -> None:
        self.values = values
        self.props = props


class Union:
    __slots__ = ("branches",)
    kind: Final = "union"

    def __init__(self, branches: list[Node]) -> None:
        self.branches = branches


class Name:
    """A full name in its parts; ``space`` is None in the null namespace."""

    __slots__ = ("full", "simple", "space")

    def __init__(self, simple: str, space: str | None) -> None:
        self.simple = simple
        self.space = space
        self.full = simple if space is None else f"{space}.{simple}"


class Field:
    __slots__ = ("aliases", "default", "doc", "name", "order", "props", "type")

    def __init__(
        self,
        name: str,
        type: Node,
        doc: str | None,
        default: Json,
        order: str,
        aliases: tuple[str, ...],
        props: dict[str, Json] | None,
    ) -> None:
        self.name = name
        self.type = type
        self.doc = doc
        self.default = default
        self.order = order
        self.aliases = aliases
        self.props = props


class Record:
    __slots__ = ("aliases", "doc", "fields", "is_error", "name", "props")
    kind: Final = "record"

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
    __slots__ = ("aliases", "default", "doc", "name", "props", "symbols")
    kind: Final = "enum"

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
    __slots__ = ("aliases", "doc", "name", "props", "size")
    kind: Final = "fixed"

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
    """A name that was not defined where it was used: replaced by its definition when the text has been read."""

    __slots__ = ("full",)
    kind: Final = "record"

    def __init__(self, full: str) -> None:
        self.full = full


Named: TypeAlias = Record | Enum | Fixed
Node: TypeAlias = Primitive | Array | Map | Union | Record | Enum | Fixed | Unresolved

PRIMITIVES: Final[dict[str, Primitive]] = {
    kind: Primitive(kind) for kind in ("string", "bytes", "int", "long", "float", "double", "boolean", "null")
}
TYPE_NAMES: Final = frozenset(PRIMITIVES) | {"record", "enum", "array", "map", "union", "fixed"}


def type_name(node: Node) -> str:
    """The name under which a union knows a branch: full name, or name of the type."""
    if isinstance(node, (Record, Enum, Fixed)):
        return node.name.full
    return node.kind
