"""The AVRO schema type, and the named parts of its schemas, for lint rules and tags."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from registry.domain.schemas import tags
from registry.domain.schemas.comparing import Comparing, Side
from registry.domain.schemas.contract import (
    About,
    Budget,
    Change,
    Dependency,
    Difference,
    Entity,
    Fingerprints,
    InvalidSchema,
    Links,
    Schema,
    SchemaField,
    SearchPart,
    Tagged,
    Unreadable,
)
from registry.domain.schemas.lint import Element
from registry.domain.schemas.tags import changes

from .canonical import canonical_text
from .compatibility import differences
from .equality import equivalent, fingerprints
from .model import MISSING, Array, Enum, Field, Fixed, Map, Node, Record, Union, type_name
from .normal import normal_form
from .outline import outline
from .parser import Parser

if TYPE_CHECKING:
    from registry.domain.schemas.logical.types import Script, Type


def elements(node: Node, known: Collection[str]) -> Iterator[Element]:
    """Yield each type once, then its fields, then their types, without the types that are ``known``."""
    if isinstance(node, Record | Enum | Fixed):
        yield Element("schema", "", node.name.full, namespace=node.name.space is not None)
    seen = set(known)
    waiting: list[Node | tuple[str, Field]] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            path, field = each
            yield _field(f"{path}.{field.name}", field)
            waiting.append(field.type)
        elif isinstance(each, Union):
            waiting.extend(reversed(each.branches))
        elif isinstance(each, Array):
            waiting.append(each.items)
        elif isinstance(each, Map):
            waiting.append(each.values)
        elif isinstance(each, Record | Enum | Fixed) and each.name.full not in seen:
            seen.add(each.name.full)
            yield from _type(each)
            if isinstance(each, Record):
                waiting.extend((each.name.full, field) for field in reversed(each.fields))


def _field(path: str, field: Field) -> Element:
    return Element("field", path, field.name, doc=bool(field.doc), default=field.default is not MISSING)


def _type(each: Record | Enum | Fixed) -> Iterator[Element]:
    path, name = each.name.full, each.name.simple
    if not isinstance(each, Enum):
        yield Element("type", path, name, doc=bool(each.doc))
        return
    yield Element("enum", path, name, doc=bool(each.doc), default=each.default is not None)
    for symbol in each.symbols:
        yield Element("symbol", f"{path}.{symbol}", symbol)


def tagged_entities(node: Node) -> list[Tagged]:
    """Return the tagged entities in the order of the text."""
    return tags.collect_tagged(_entities(node), _read)


def change(node: Node, wanted: tags.Changes) -> None:
    """Change the tags of records and fields in ``node``, which must not be shared.

    Raises :class:`~.contract.InvalidSchema` for a path that does not exist.
    """
    tags.give(_entities(node), wanted, _read, _write)


def _read(each: Record | Field) -> object:
    return (each.props or {}).get(tags.NAME)


def _write(each: Record | Field, names: list[str]) -> None:
    props = dict(each.props or {})
    if names:
        props[tags.NAME] = names
    else:
        props.pop(tags.NAME, None)
    each.props = props or None


def _entities(node: Node) -> Iterator[tuple[Entity, Record | Field]]:
    """Yield each record once, then its fields, then their contents."""
    seen: set[str] = set()
    waiting: list[Node | tuple[str, Field]] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            path, field = each
            yield Entity(f"{path}.{field.name}", tags.FIELD), field
            waiting.append(field.type)
        elif isinstance(each, Union):
            waiting.extend(reversed(each.branches))
        elif isinstance(each, Array):
            waiting.append(each.items)
        elif isinstance(each, Map):
            waiting.append(each.values)
        elif isinstance(each, Record) and each.name.full not in seen:
            name = each.name.full
            seen.add(name)
            yield Entity(name, tags.RECORD), each
            waiting.extend((name, field) for field in reversed(each.fields))


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

    def text_in(self, format: str) -> str:
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
        return tagged_entities(self.node)

    def retag(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        """Return the canonical text with tags among the properties."""
        node = _read_again(self.canonical, self._dependencies)
        change(node, changes(add, remove, also))
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
        """Return true if both texts have as many names, of types and fields."""
        return one.count(_NAME) == other.count(_NAME)

    def links(self, text: str) -> Links:
        """Return the full names in the text."""
        from .outline import links  # noqa: PLC0415 (registrations do without)

        return links(text)

    def fields(self, text: str) -> Iterator[SchemaField]:
        """Yield the types and fields of the text."""
        from .fields import fields  # noqa: PLC0415 (registrations do without)

        return fields(text)

    def search_parts(self, text: str) -> Iterator[SearchPart]:
        """Yield what a search reads of them, in half of the time."""
        from .fields import search_parts  # noqa: PLC0415 (registrations do without)

        return search_parts(text)

    def own(self, schema: Schema) -> AvroSchema | None:
        """Return the schema if it is of this class, else None."""
        return schema if isinstance(schema, AvroSchema) else None

    def compare(
        self, writer: AvroSchema, reader: AvroSchema, reader_is: Side, budget: Budget, policy: str
    ) -> list[Difference]:
        """Return Java's incompatibilities in Java's order, whatever the policy."""
        return differences(reader.node, writer.node, reader_is, budget)

    def explain(
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
