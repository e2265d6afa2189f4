"""Schemas as they are compared: the result of Confluent's parsers, the same for all drafts.

Keywords of several families side by side form an ``allOf`` of parts, several types an ``anyOf``. A ``$ref``
leads to the only node of its target, so a recursive schema is a cyclic graph. Nodes have identity, and do not
change once their schema is loaded.
"""

from __future__ import annotations

from typing import Any, Final

from registry.domain.schemas.json_text import Json

# The default of a schema without one.
MISSING: Final[Any] = object()


class Node:
    """Any schema; used itself for types without keywords of their own, such as ``null``."""

    __slots__ = ("default", "description", "id", "is_bytes", "kind", "raw", "title")

    def __init__(self, kind: str) -> None:
        # ``string``, ``number``, ``boolean``, ``null``, ``object``, ``array``, ``enum``, ``const``, ``not``,
        # ``conditional``, ``combined``, ``reference``, ``empty`` (``true`` too) or ``false``.
        self.kind: Final = kind
        self.id: Json = None
        self.title: Json = None
        self.description: Json = None
        self.default: Json = MISSING
        # True for bytes in Kafka Connect (``connect.type``).
        self.is_bytes = False
        # The JSON of the schema.
        self.raw: Json = MISSING


class String(Node):
    """The limits of a string."""

    __slots__ = ("max_length", "min_length", "pattern")

    def __init__(self) -> None:
        super().__init__("string")
        self.max_length: int | None = None
        self.min_length: int | None = None
        self.pattern: str | None = None


class Number(Node):
    """The limits of a number; draft 04's exclusive limits are not compared."""

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
    """``enum`` and ``const``: the values as texts, equal for equal values."""

    __slots__ = ("values",)

    def __init__(self, kind: str, values: frozenset[str]) -> None:
        super().__init__(kind)
        self.values: Final = values


class Not(Node):
    """A negated schema."""

    __slots__ = ("inner",)

    def __init__(self) -> None:
        super().__init__("not")
        self.inner: Node


class Combined(Node):
    """``allOf``, ``anyOf`` and ``oneOf``, explicit or implied; combined branches come first."""

    __slots__ = ("branches", "criterion", "keys")

    def __init__(self, criterion: str) -> None:
        super().__init__("combined")
        self.criterion: Final = criterion
        self.branches: list[Node] = []
        # A key per branch, the same for branches that are written alike.
        self.keys: list[Any] = []


class Reference(Node):
    """A ``$ref``."""

    __slots__ = ("copies", "name", "target")

    def __init__(self) -> None:
        super().__init__("reference")
        # The reference as written.
        self.name = ""
        # True if Confluent's parser makes one more schema of the target, which all references to it share.
        self.copies = False
        self.target: Node


class Object(Node):
    """The limits of an object."""

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
    """The limits of an array."""

    __slots__ = (
        "additional", "all_items", "items", "max_contains", "max_items", "min_contains", "min_items",
        "permits_additional", "unevaluated", "unique",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__("array")
        # The schema of every item.
        self.all_items: Node | None = None
        # The schemas of the first items, in order.
        self.items: list[Node] = []
        self.permits_additional = True
        self.additional: Node | None = None
        self.unevaluated: Node | None = None
        self.max_items: int | None = None
        self.min_items: int | None = None
        self.max_contains: Json = None
        self.min_contains: Json = None
        self.unique = False
