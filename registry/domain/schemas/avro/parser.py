"""From JSON to the model, by the rules of Java Avro 1.12's ``Schema.Parser``.

One parser reads the dependencies and then the schema into one table of names. A type enters the table when it
is complete; a name used before that, even the type's own, stays :class:`Unresolved` until the end of the
text.
"""

from __future__ import annotations

from typing import Final

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_text import print_json
from registry.domain.schemas.trampoline import Walk, run

from . import attributes
from .attributes import (
    accept_any_name,
    alias_texts,
    check_lenient,
    check_namespace,
    check_strict,
    check_unique_fields,
    field_order,
    has_wide_integer,
    java_double,
    make_name,
    refuse,
    refuse_field,
    text_attribute,
)
from .canonical import canonical_text
from .equality import same_definition
from .linking import DefaultChecks, link
from .model import (
    CONTAINERS,
    MISSING,
    PAIRS,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Name,
    Named,
    Node,
    Primitive,
    Record,
    Union,
    Unresolved,
    type_name,
)

RESERVED: Final = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
ENUM_RESERVED: Final = RESERVED | {"default"}
FIELD_RESERVED: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})
RECORDS: Final = frozenset({"record", "error"})
_INNER: Final = {"array": "items", "map": "values"}
_FLOATING: Final = frozenset({"float", "double"})
_MAX_FIXED: Final = 2**31 - 1 - 8


class _NotExact(Exception):
    """Raised if the fast JSON parser lost digits of a number: read the text again, exactly."""


class Parser:
    """Reads texts into one table of names; ``known`` grows with every text."""

    __slots__ = ("_check_name", "_checks", "_equal", "_exact", "_fresh", "_strict", "_unresolved", "known")

    def __init__(self) -> None:
        self.known: dict[str, Named] = {}
        self._start(strict=False, exact=False)

    def read(self, text: str, *, strict: bool) -> Node:
        """Return the schema in ``text``; ``strict`` as for new schemas. Raises :class:`InvalidSchema`."""
        known = dict(self.known) if self.known else None
        self._start(strict, exact=False)
        try:
            return self._schema(attributes.read(text))
        except _NotExact:
            self.known = known or {}
            self._start(strict, exact=True)
            return self._schema(attributes.read_exactly(text))

    def _start(self, strict: bool, exact: bool) -> None:
        self._strict = strict
        self._checks = DefaultChecks() if strict else None
        self._check_name = check_strict if strict else check_lenient
        self._exact = exact
        self._fresh: list[Named] = []
        self._unresolved = False
        self._equal: set[tuple[int, int]] = set()

    def _schema(self, value: Json) -> Node:
        node = self._leaf(value, None)
        if node is None:
            node = run(self._walk_into(value, None))
        if self._unresolved:
            node = link(node, self._fresh, self.known, self._checks)
        if isinstance(node, (Record, Enum, Fixed)):
            return self.known[node.name.full]
        return node

    def _leaf(self, value: Json, space: str | None) -> Node | None:
        """Return the node of a value without definitions inside, else None."""
        if type(value) is str:
            return PRIMITIVES.get(value) or self._find(value, space)
        if type(value) is list:
            return self._plain_union(value, space)
        if type(value) is not dict:
            raise InvalidSchema(f"Schema not yet supported: {print_json(value)}")
        kind = value.get("type")
        if type(kind) is not str:
            refuse("No type", value)
        if kind in PRIMITIVES:
            props = self._props(value, RESERVED)
            return Primitive(kind, props) if props else PRIMITIVES[kind]
        if kind in _INNER:
            return self._plain_container(value, kind, space)
        if kind in RECORDS:
            return None
        if kind == "enum":
            return self._enum(value, space)
        if kind == "fixed":
            return self._parse_fixed(value, space)
        return self._find(kind, space)

    def _plain_union(self, value: list[Json], space: str | None) -> Union | None:
        """Return the union of a list of names; None if the list holds anything else."""
        for item in value:
            if type(item) is not str:
                return None
        shared = PAIRS.get((value[0], value[1])) if len(value) == 2 else None
        return shared or self._union([self._find(item, space) for item in value])

    def _plain_container(self, value: dict[str, Json], kind: str, space: str | None) -> Array | Map | None:
        """Return the array or map of what a name stands for; None if anything else is inside."""
        inner = value.get(_INNER[kind], MISSING)
        if inner is MISSING:
            refuse(f"{kind.capitalize()} has no {_INNER[kind]} type", value)
        if type(inner) is not str:
            return None
        shared = CONTAINERS.get((kind, inner)) if len(value) == 2 else None
        return shared or self._container(value, kind, self._find(inner, space))

    def _walk_into(self, value: Json, space: str | None) -> Walk[Node]:
        """Return the walk through a value with definitions inside."""
        if type(value) is list:
            return self._nested_union(value, space)
        kind = value["type"]
        return self._record(value, space) if kind in RECORDS else self._nested_container(value, kind, space)

    def _nested_union(self, value: list[Json], space: str | None) -> Walk[Node]:
        branches: list[Node] = []
        for item in value:
            branch = self._leaf(item, space) or (yield self._walk_into(item, space))
            branches.append(branch)
        return self._union(branches)

    def _nested_container(self, value: dict[str, Json], kind: str, space: str | None) -> Walk[Node]:
        inner = value[_INNER[kind]]
        node: Node = self._leaf(inner, space) or (yield self._walk_into(inner, space))
        return self._container(value, kind, node)

    def _container(self, value: dict[str, Json], kind: str, inner: Node) -> Array | Map:
        props = self._container_props(value)
        return Array(inner, props) if kind == "array" else Map(inner, props)

    def _find(self, name: str, space: str | None) -> Node:
        primitive = PRIMITIVES.get(name)
        if primitive is not None:
            return primitive
        full = name if space is None or "." in name else f"{space}.{name}"
        node = self.known.get(full) or self.known.get(name)
        if node is None:
            self._unresolved = True
            return Unresolved(full)
        return node

    def _union(self, branches: list[Node]) -> Union:
        seen = set()
        for branch in branches:
            if type(branch) is Unresolved:
                continue
            if type(branch) is Union:
                raise InvalidSchema(f"Nested union: {canonical_text(Union(branches), ())}")
            name = type_name(branch)
            if name in seen:
                raise InvalidSchema(f"Duplicate in union:{name}")
            seen.add(name)
        return Union(branches)

    def _record(self, value: dict[str, Json], space: str | None) -> Walk[Node]:
        name = self._name(value, space)
        doc = text_attribute(value, "doc")
        raw_fields = value.get("fields")
        if type(raw_fields) is not list:
            refuse("Record has no fields", value)
        fields: list[Field] = []
        inner = name.space
        for raw in raw_fields:
            try:
                own, kind = raw["name"], raw["type"]
            except (KeyError, TypeError):
                refuse_field(raw)
            if type(own) is not str:
                refuse_field(raw)
            node: Node | None = PRIMITIVES.get(kind) if type(kind) is str else None
            if node is None:
                node = self._leaf(kind, inner) or (yield self._walk_into(kind, inner))
            if not (own.isidentifier() and own.isascii()):
                self._check_name(own)
            # Most fields have nothing else.
            fields.append(Field(own, node) if len(raw) == 2 else self._field(own, node, raw))
        check_unique_fields(fields, name)
        record = Record(
            name, doc, fields, self._aliases(value, inner), self._container_props(value),
            is_error=value["type"] == "error",
        )  # fmt: skip
        self._define(record)
        return record

    def _field(self, name: str, node: Node, raw: dict[str, Json]) -> Field:
        doc, default = raw.get("doc"), raw.get("default", MISSING)
        if default is not MISSING:
            default = self._default(name, node, default)
        order = field_order(raw["order"]) if "order" in raw else "ascending"
        aliases = tuple(dict.fromkeys(alias_texts(raw))) if "aliases" in raw else ()
        props = None if FIELD_RESERVED.issuperset(raw) else self._props(raw, FIELD_RESERVED)
        return Field(name, node, doc if type(doc) is str else None, default, order, aliases, props)

    def _default(self, name: str, node: Node, default: Json) -> Json:
        """Return a field's default after checking it, with a number in place of its text."""
        if default is not None:
            if type(default) is str and node.kind in _FLOATING:
                default = java_double(default)
            self._check_exact(default)
        if self._checks:
            self._checks.check(name, node, default)
        return default

    def _enum(self, value: dict[str, Json], space: str | None) -> Enum:
        name = self._name(value, space)
        doc = text_attribute(value, "doc")
        symbols = value.get("symbols")
        if type(symbols) is not list:
            refuse("Enum has no symbols", value)
        seen = set()
        for symbol in symbols:
            self._check_name(symbol)
            if symbol in seen:
                raise InvalidSchema(f"Duplicate enum symbol: {symbol}")
            seen.add(symbol)
        default = text_attribute(value, "default")
        if default is not None and default not in seen:
            listed = ", ".join(symbols)
            raise InvalidSchema(f"The Enum Default: {default} is not in the enum symbol set: [{listed}]")
        props = self._props(value, ENUM_RESERVED)
        enum = Enum(name, doc, symbols, default, self._aliases(value, name.space), props)
        self._define(enum)
        return enum

    def _parse_fixed(self, value: dict[str, Json], space: str | None) -> Fixed:
        name = self._name(value, space)
        doc = text_attribute(value, "doc")
        size = value.get("size")
        if type(size) is not int or not -(2**31) <= size < 2**31:
            refuse("Invalid or no size", value)
        if size < 0:
            raise InvalidSchema(f"Malformed data. Length is negative: {size}")
        if size > _MAX_FIXED:
            raise InvalidSchema(f"Cannot read arrays longer than {_MAX_FIXED} bytes in Java library")
        props = self._props(value, RESERVED)
        fixed = Fixed(name, doc, size, self._aliases(value, name.space), props)
        self._define(fixed)
        return fixed

    def _define(self, node: Named) -> None:
        name = node.name
        if self._strict and name.space is not None:
            check_namespace(name)
        earlier = self.known.get(name.full)
        if earlier is None:
            self.known[name.full] = node
            self._fresh.append(node)
        elif not same_definition(earlier, node, self._equal):
            raise InvalidSchema(f"Can't redefine: {name.full}")

    def _name(self, value: dict[str, Json], space: str | None) -> Name:
        own = value.get("namespace")
        text = value.get("name")
        if type(text) is not str:
            refuse("No name in schema", value)
        name = make_name(text, own if type(own) is str else space, self._check_name)
        if name.full in PRIMITIVES:
            raise InvalidSchema(f"Schemas may not be named after primitives: {name.full}")
        return name

    def _aliases(self, value: dict[str, Json], space: str | None) -> tuple[Name, ...]:
        if "aliases" not in value:
            return ()
        check = check_strict if self._strict else accept_any_name
        names = (make_name(text, space, check) for text in alias_texts(value))
        return tuple({name.full: name for name in names}.values())

    def _props(self, value: dict[str, Json], reserved: frozenset[str]) -> dict[str, Json] | None:
        if reserved.issuperset(value):
            return None
        props = {}
        for key, item in value.items():
            if key not in reserved:
                if type(item) is not str:
                    self._check_exact(item)
                props[key] = item
        return props

    def _container_props(self, value: dict[str, Json]) -> dict[str, Json] | None:
        """Return the properties of a record, array or map; Java cannot keep integers beyond 64 bits there."""
        props = self._props(value, RESERVED)
        if props and has_wide_integer(props):
            raise InvalidSchema("Can't set a property to an integer beyond 64 bits")
        return props

    def _check_exact(self, value: Json) -> None:
        if not self._exact and not attributes.is_exact(value):
            raise _NotExact
