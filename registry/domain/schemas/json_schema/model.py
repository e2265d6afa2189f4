"""Schemas as they are compared: what Confluent's parser makes of them, for all drafts alike.

Keywords of several families beside each other are an ``allOf`` of parts, several types an ``anyOf``; a
``$ref`` leads to the one node of its target, so a recursive schema is a graph with cycles. Nodes are told
apart by identity, and are never changed once their schema is read.
"""

from __future__ import annotations

from typing import Any, Final

from registry.domain.schemas.json_scanner import Json

# In the place of a default that is not there.
MISSING: Final[Any] = object()


class Node:
    """Any schema. On its own: one of the types that have no more to say, such as ``null``."""

    __slots__ = ("default", "description", "id", "is_bytes", "kind", "raw", "title")

    def __init__(self, kind: str) -> None:
        # ``string``, ``number``, ``boolean``, ``null``, ``object``, ``array``, ``enum``, ``const``, ``not``,
        # ``conditional``, ``combined``, ``reference``, ``empty`` (``true`` too) or ``false``.
        self.kind: Final = kind
        self.id: Json = None
        self.title: Json = None
        self.description: Json = None
        self.default: Json = MISSING
        # Whether it stands for bytes in Kafka Connect (``connect.type``).
        self.is_bytes = False
        # The JSON that it was read from.
        self.raw: Json = MISSING


class String(Node):
    """Limits of a text."""

    __slots__ = ("max_length", "min_length", "pattern")

    def __init__(self) -> None:
        super().__init__("string")
        self.max_length: int | None = None
        self.min_length: int | None = None
        self.pattern: str | None = None


class Number(Node):
    """Limits of a number; those of draft 04's exclusive limits are not compared."""

    __slots__ = ("exclusive_maximum", "exclusive_minimum", "is_integer", "maximum", "minimum", "multiple_of")

    def __init__(self, *, is_integer: bool = False) -> None:
        super().__init__("number")
        self.is_integer: Final = is_integer
        self.maximum: Json = None
        self.minimum: Json = None
        self.exclusive_maximum: Json = None
        self.exclusive_minimum: Json = None
        self.multiple_of: Json = None


class Values(Node):
    """``enum`` and ``const``: the values, each as the text that is the same for equal ones."""

    __slots__ = ("values",)

    def __init__(self, kind: str, values: frozenset[str]) -> None:
        super().__init__(kind)
        self.values: Final = values


class Not(Node):
    """What must not match."""

    __slots__ = ("inner",)

    def __init__(self) -> None:
        super().__init__("not")
        self.inner: Node


class Combined(Node):
    """``allOf``, ``anyOf`` and ``oneOf``, written or implied; combined branches come first."""

    __slots__ = ("branches", "criterion", "keys")

    def __init__(self, criterion: str) -> None:
        super().__init__("combined")
        self.criterion: Final = criterion
        self.branches: list[Node] = []
        # For each branch what it shares with the branches that say the same.
        self.keys: list[Any] = []


class Reference(Node):
    """A ``$ref``."""

    __slots__ = ("name", "target")

    def __init__(self) -> None:
        super().__init__("reference")
        # As it is written.
        self.name = ""
        self.target: Node


class Object(Node):
    """Limits of an object."""

    __slots__ = (
        "additional", "dependent_names", "dependent_schemas", "max_properties", "min_properties", "patterns",
        "permits_additional", "properties", "required", "unevaluated",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__("object")
        self.properties: dict[str, Node] = {}
        self.required: frozenset[str] = frozenset()
        self.patterns: dict[str, Node] = {}
        self.permits_additional = True
        self.additional: Node | None = None
        self.unevaluated: Node | None = None
        self.dependent_names: dict[str, frozenset[str]] = {}
        self.dependent_schemas: dict[str, Node] = {}
        self.max_properties: int | None = None
        self.min_properties: int | None = None


class Array(Node):
    """Limits of an array."""

    __slots__ = (
        "additional", "all_items", "items", "max_contains", "max_items", "min_contains", "min_items",
        "permits_additional", "unevaluated", "unique",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__("array")
        # What every item is.
        self.all_items: Node | None = None
        # What the first items are, one by one.
        self.items: list[Node] = []
        self.permits_additional = True
        self.additional: Node | None = None
        self.unevaluated: Node | None = None
        self.max_items: int | None = None
        self.min_items: int | None = None
        self.max_contains: Json = None
        self.min_contains: Json = None
        self.unique = False
