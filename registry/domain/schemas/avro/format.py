"""The AVRO schema type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from registry.domain.schemas.comparing import Comparing, Side
from registry.domain.schemas.contract import (
    About,
    Budget,
    Change,
    Dependency,
    Difference,
    Fingerprints,
    InvalidSchema,
    Links,
    Schema,
    Tagged,
    Unreadable,
)
from registry.domain.schemas.lint import Element
from registry.domain.schemas.tags import changes

from . import named_parts
from .canonical import canonical_text
from .compatibility import differences
from .equality import equivalent, fingerprints
from .model import Node, Record, type_name
from .named_parts import elements
from .normal import normal_form
from .outline import outline
from .parser import Parser

if TYPE_CHECKING:
    from registry.domain.schemas.logical.types import Type

_NAME: Final = rb"\"name\":"  # as in a JSON string


class AvroSchema:
    """A parsed Avro schema; its texts are made on demand."""

    __slots__ = ("_canonical", "_dependencies", "_known", "_logical", "_normalized", "node")

    def __init__(self, node: Node, known: frozenset[str], dependencies: Sequence[Dependency] = ()) -> None:
        """``known``: full names that the dependencies define; the texts refer to those by name."""
        self.node: Final = node
        self._known = known
        self._dependencies = dependencies
        self._canonical: str | None = None
        self._normalized: str | None = None
        self._logical: Type | None = None

    @property
    def canonical(self) -> str:
        """The text of Java's ``toString``."""
        if self._canonical is None:
            self._canonical = canonical_text(self.node, self._known)
        return self._canonical

    @property
    def normalized(self) -> str:
        """The text of the normal form."""
        if self._normalized is None:
            self._normalized = canonical_text(normal_form(self.node), self._known)
        return self._normalized

    def equivalent(self, other: Schema) -> bool:
        """Return true if the schemas are equal, including docs, aliases and enum defaults."""
        return isinstance(other, AvroSchema) and equivalent(self.node, other.node)

    def fingerprints(self) -> Fingerprints:
        """Return digests of what :meth:`equivalent` compares."""
        return fingerprints(self.node, self._known)

    def formatted(self, format: str) -> str:
        """Return the text; for ``resolved``, with the dependencies' types defined at their first use."""
        if format.strip().lower() == "resolved" and self._known:
            return canonical_text(self.node, ())
        return self.canonical

    def field_names(self) -> frozenset[str]:
        """Return the fields of a record; empty for all other types."""
        return frozenset([field.name for field in self.node.fields] if type(self.node) is Record else ())

    def check(self) -> None:
        """Do nothing: a text that can be read is a valid Avro schema."""

    def check_fields(self) -> None:
        """Do nothing: there are no additional rules for Avro."""

    def elements(self) -> Iterator[Element]:
        """Yield types, fields and symbols, without those of dependencies."""
        return elements(self.node, self._known)

    def tags(self) -> list[Tagged]:
        """Return the tagged records and fields."""
        return named_parts.tagged(self.node)

    def retag(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        """Return the canonical text with tags among the properties."""
        node = _read_again(self.canonical, self._dependencies)
        named_parts.change(node, changes(add, remove, also))
        return canonical_text(node, self._known)

    def logical(self, budget: Budget) -> Type:
        """Return the logical type; records are structs, unions with null nullable."""
        if self._logical is None:
            from . import logical  # noqa: PLC0415 (only for policies that ask)

            self._logical = logical.read(self.node, budget)
        return self._logical


def _read_again(text: str, dependencies: Sequence[Dependency]) -> Node:
    parser = Parser()
    for each in dependencies:
        parser.read(each.text, strict=False)
    return parser.read(text, strict=False)


class AvroFormat(Comparing[AvroSchema]):
    """Avro 1.12 as Java has it: parser, ``toString`` and ``SchemaCompatibility``."""

    __slots__ = ()
    name: Final = "AVRO"
    about: Final = About(
        "Avro",
        ".avsc",
        language="json",
        sample=(
            '{\n  "type": "record",\n  "name": "Order",\n  "fields": [\n'
            '    { "name": "id", "type": "long" }\n  ]\n}\n'
        ),
        decoder="avro",
        resolves=True,
        shows_unreadable=True,
    )

    def parse(self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False) -> AvroSchema:
        """Parse ``text``; dependencies are read as stored schemas, even if the schema is new."""
        parser = Parser()
        try:
            known = frozenset([type_name(parser.read(item.text, strict=False)) for item in dependencies])
            node = parser.read(text, strict=new)
        except InvalidSchema as error:
            # Java's parser also enforces the rules for names and defaults.
            raise Unreadable(str(error)) from None
        return AvroSchema(node, known, tuple(dependencies))

    def outline(self, text: str) -> Fingerprints | None:
        """Return digests made from the JSON of the text."""
        return outline(text)

    def may_normalize_alike(self, one: bytes, other: bytes) -> bool:
        """Return true if both texts have as many names, of types and fields."""
        return one.count(_NAME) == other.count(_NAME)

    def links(self, text: str) -> Links:
        """Return the full names in the text."""
        from .outline import links  # noqa: PLC0415 (registrations do without)

        return links(text)

    def own(self, schema: Schema) -> AvroSchema | None:
        """Return the schema if it is of this class, else None."""
        return schema if isinstance(schema, AvroSchema) else None

    def compared(
        self, writer: AvroSchema, reader: AvroSchema, reader_is: Side, budget: Budget, policy: str
    ) -> list[Difference]:
        """Return Java's incompatibilities in Java's order, whatever the policy."""
        return differences(reader.node, writer.node, reader_is, budget)

    def explained(
        self,
        writer: AvroSchema,
        reader: AvroSchema,
        reader_is: Side,
        budget: Budget,
        policy: str,
        *,
        lines: bool,
    ) -> list[Change]:
        """Return the same with explanations, and harmless changes."""
        from . import explaining  # noqa: PLC0415 (registrations do without)

        old, new = (explaining.Side(each.node, each.canonical, lines=lines) for each in (writer, reader))
        return explaining.changes(old, new, reader_is, budget)
