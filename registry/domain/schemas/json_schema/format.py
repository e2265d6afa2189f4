"""The JSON schema type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import orjson

from registry.domain.schemas.comparing import Comparing, Side
from registry.domain.schemas.contract import (
    GLANCE_MAX,
    About,
    Budget,
    Change,
    Dependency,
    Difference,
    Fingerprints,
    InvalidSchema,
    Links,
    Schema,
    SchemaField,
    Tagged,
    Unreadable,
    digest,
)
from registry.domain.schemas.json_text import Json
from registry.domain.schemas.lint import Element
from registry.domain.schemas.tags import changes

from . import named_parts
from .named_parts import elements
from .text import print_json, read, sort_members

if TYPE_CHECKING:
    from registry.domain.schemas.logical.types import Script, Type

    from .model import Node

# What cannot be a schema, in the words of Confluent 8.4; all others are numbers.
_ROOTS: Final[dict[type, str]] = {str: "STRING", list: "ARRAY", type(None): "NULL"}
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


class JsonSchema:
    """A JSON schema. Its model is built on demand, as in Confluent's server."""

    __slots__ = ("_dependencies", "_logical", "_node", "_normalized", "canonical", "value")

    def __init__(self, value: Json, dependencies: Sequence[Dependency]) -> None:
        self.value: Final = value
        self._dependencies = dependencies
        # The text as Jackson prints it: compact, members in their original order.
        self.canonical: Final = print_json(value)
        self._normalized: str | None = None
        self._node: Node | None = None
        self._logical: Type | None = None

    @property
    def normalized(self) -> str:
        """The canonical text with the members of all objects sorted."""
        if self._normalized is None:
            self._normalized = print_json(sort_members(self.value))
        return self._normalized

    def node(self) -> Node:
        """The model. Raises :class:`InvalidSchema` for an invalid schema."""
        if self._node is None:
            from .drafts import draft_of  # noqa: PLC0415 (its libraries are for this schema type only)
            from .loader import load  # noqa: PLC0415

            refers = 'ef":' in self.canonical  # $ref, $dynamicRef, $recursiveRef
            self._node = load(self.value, draft_of(self.value), self._dependencies, refers=refers)
        return self._node

    def equivalent(self, other: Schema) -> bool:
        """Return true if the canonical texts are equal; the order of members matters (Confluent 8.x)."""
        return isinstance(other, JsonSchema) and self.canonical == other.canonical

    def fingerprints(self) -> Fingerprints:
        """Return digests of the canonical text."""
        own = digest([self.canonical])
        return Fingerprints(own, own)

    def text_in(self, format: str) -> str:
        """Return the canonical text, the only format (Confluent 8.x)."""
        return self.canonical

    def field_names(self) -> frozenset[str]:
        """Return the names of the top-level properties."""
        properties = self.value.get("properties") if type(self.value) is dict else None
        return frozenset(properties if type(properties) is dict else ())

    def check(self) -> None:
        """Raise :class:`InvalidSchema` if the value is not a valid schema of its draft."""
        self.node()

    def check_fields(self) -> None:
        """Refuse top-level properties that begin with ``$$``."""
        for name in sorted(self.field_names()):
            if name.startswith("$$"):
                raise InvalidSchema(f"#/properties/{name}: Field names cannot start with $$ prefix")

    def elements(self) -> Iterator[Element]:
        """Yield objects and properties."""
        return elements(self.value)

    def tags(self) -> list[Tagged]:
        """Return the tagged objects and properties."""
        return named_parts.list_tagged(self.value)

    def retag(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        """Return the canonical text with tags, as the last keyword if there were none."""
        value = read(self.canonical)
        named_parts.change(value, changes(add, remove, also))
        return print_json(value)

    def logical(self, budget: Budget) -> Type:
        """Return the logical type; objects are structs of their properties, unless Connect says map."""
        if self._logical is None:
            from . import logical  # noqa: PLC0415 (only for policies that ask)

            self._logical = logical.read(self.node(), budget)
        return self._logical


class JsonFormat(Comparing[JsonSchema]):
    """JSON Schema, drafts 04, 06, 07, 2019-09 and 2020-12."""

    __slots__ = ()
    name: Final = "JSON"
    about: Final = About(
        "JSON Schema",
        ".json",
        language="json",
        sample='{\n  "type": "object",\n  "properties": {\n    "id": { "type": "integer" }\n  }\n}\n',
        decoder="json_schema",
    )
    weight = 4

    def parse(self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False) -> JsonSchema:
        """Parse an object or a boolean; only a new schema must be valid."""
        try:
            value = read(text)
        except InvalidSchema:
            raise Unreadable("Invalid JSON schema") from None  # in the words of Confluent 8.3.1
        if type(value) is not dict and type(value) is not bool:
            kind = _ROOTS.get(type(value), "NUMBER")
            raise InvalidSchema(
                f"Invalid JSON schema: expected an object or boolean at the root, found {kind}"
            )
        schema = JsonSchema(value, tuple(dependencies))
        if new:
            schema.check()
        return schema

    def from_logical(
        self, script: Script, root: str, dependencies: Sequence[Dependency], budget: Budget
    ) -> str:
        """Return the normalized text for what DDL declares."""
        from .from_logical import write  # noqa: PLC0415 (only for registrations of DDL)

        return self.parse(write(script, root, dependencies, budget), dependencies, new=True).normalized

    def outline(self, text: str) -> Fingerprints | None:
        """Return digests made from the JSON of the text."""
        return outline(text)

    def may_normalize_alike(self, one: bytes, other: bytes) -> bool:
        """Return true if both texts are of one length: only the order of members changes."""
        return len(one) == len(other)

    def links(self, text: str) -> Links:
        """Return the URIs in the text."""
        from .documents import links  # noqa: PLC0415 (registrations do without)

        return links(text)

    def fields(self, text: str) -> Iterator[SchemaField]:
        """Yield the types and fields of the text."""
        from .fields import fields  # noqa: PLC0415 (registrations do without)

        return fields(text)

    def own(self, schema: Schema) -> JsonSchema | None:
        """Return the schema if it is of this class, else None."""
        return schema if isinstance(schema, JsonSchema) else None

    def compare(
        self, writer: JsonSchema, reader: JsonSchema, reader_is: Side, budget: Budget, policy: str
    ) -> list[Difference]:
        """Return Confluent's incompatible changes from writer to reader, in its order."""
        from .compatibility import differences  # noqa: PLC0415

        return differences(writer.node(), reader.node(), reader_is, budget, policy)

    def explain(
        self,
        writer: JsonSchema,
        reader: JsonSchema,
        reader_is: Side,
        budget: Budget,
        policy: str,
        *,
        lines: bool,
    ) -> list[Change]:
        """Return all changes that Confluent reports."""
        from . import explaining  # noqa: PLC0415

        old, new = (explaining.Side(each.node(), each.value) for each in (writer, reader))
        return explaining.changes(old, new, reader_is, budget, policy, lines=lines)


def outline(text: str) -> Fingerprints | None:
    """Return digests of the strings in the text, in their order, or None if that takes the parser.

    They are comparable with a schema's fingerprints. Equal canonical texts have equal outlines. Numbers are
    left out, because they have many spellings.
    """
    if len(text) > GLANCE_MAX:
        return None
    try:
        strings = _STRING.findall(orjson.dumps(orjson.loads(text)).decode())
    except (ValueError, TypeError):
        return None
    own = digest(["".join(strings)])
    return Fingerprints(own, own)
