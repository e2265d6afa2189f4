"""Reading a JSON schema as a logical type (Confluent 8.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from registry.domain.schemas.contract import Budget
from registry.domain.schemas.json_text import Json, print_json
from registry.domain.schemas.logical.reading import (
    NotLogical,
    bytes_of,
    check_depth,
    enum_notes,
    integer,
    leaf_of_lengths,
    named_notes,
    notes_of,
    scale_of,
)
from registry.domain.schemas.logical.types import (
    MISSING,
    NO_NOTES,
    VARIANT,
    Field,
    Kind,
    Leaf,
    Notes,
    Shape,
    Struct,
    Type,
)
from registry.domain.schemas.logical.types import Array as LogicalArray
from registry.domain.schemas.logical.types import Map as LogicalMap
from registry.domain.schemas.trampoline import Walk, run

from .model import MISSING as NO_DEFAULT
from .model import Array, Combined, Node, Number, Object, Reference, String, Values
from .text import name_at

_CONNECT: Final = "org.apache.kafka.connect.data."
# The numbers of Kafka Connect, by ``connect.type``.
_NUMBERS: Final[Mapping[Json, Leaf]] = {
    "int8": Leaf(Kind.TINYINT),
    "int16": Leaf(Kind.SMALLINT),
    "int32": Leaf(Kind.INT),
    "int64": Leaf(Kind.BIGINT),
    "float32": Leaf(Kind.FLOAT),
    "float64": Leaf(Kind.DOUBLE),
}
# By title; the size is the precision if ``flink.precision`` does not say it.
_TITLED: Final[Mapping[Json, Leaf]] = {
    f"{_CONNECT}Date": Leaf(Kind.DATE),
    f"{_CONNECT}Time": Leaf(Kind.TIME, 3),
    f"{_CONNECT}Timestamp": Leaf(Kind.TIMESTAMP_LTZ, 3),
}
_DECIMAL_PRECISION_DEFAULT: Final = 10
_UNSUPPORTED: Final[Mapping[str, str]] = {
    "const": "Unsupported JSON schema type org.everit.json.schema.ConstSchema",
    "not": "Unsupported JSON schema type org.everit.json.schema.NotSchema",
    "false": "Unsupported JSON schema type org.everit.json.schema.FalseSchema",
    "null": "Unsupported JSON schema type org.everit.json.schema.NullSchema",
    "conditional": "JSON Schema if/then/else and `not` are not supported: a property declared only under a "
    "condition has no column to be read into, so its values would be silently dropped",
}


def read(node: Node, budget: Budget) -> Type:
    """Return the logical type of a schema.

    Raises :class:`.logical.reading.NotLogical`, and :class:`.contract.Exhausted`.
    """
    return run(_Reader(budget).type(node, 0))


class _Reader:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._structs: dict[int, Struct] = {}
        self._enums: dict[int, Leaf] = {}

    def type(self, node: Node, depth: int) -> Walk[Type]:
        self._budget.spend()
        check_depth(depth)
        node, name = _target(node)
        if isinstance(node, Combined):
            found: Type = yield self._combination(node, depth, name)
            return found
        return Type((yield self._shape(node, depth, name)))

    def _shape(self, node: Node, depth: int, name: str) -> Walk[Shape]:
        found: Shape
        match node:
            case Number():
                found = _number(node)
            case Array():
                found = yield self._array(node, depth)
            case Object():
                found = yield self._object(node, [node], depth, name)
            case Values(kind="enum"):
                found = self._enum(node, name)
            case _:
                found = _leaf(node)
        return found

    def _enum(self, node: Node, name: str) -> Leaf:
        if id(node) not in self._enums:
            symbols = _symbols(_members(node).get("enum"))
            notes = enum_notes(_notes(node), _members(node).get("confluent:enum"), len(symbols))
            self._enums[id(node)] = Leaf(Kind.ENUM, symbols=symbols, name=name, notes=notes)
        return self._enums[id(node)]

    def _combination(self, node: Combined, depth: int, name: str) -> Walk[Type]:
        found: Type
        # A combination may be referred to from many places.
        self._budget.spend(len(node.branches))
        if node.criterion == "allOf":
            found = yield self._all_of(node, depth, name)
            return found
        branches = [each for each in node.branches if _target(each)[0].kind != "null"]
        nullable = len(branches) < len(node.branches)
        if len(branches) == 1:
            found = yield self.type(branches[0], depth + 1)
            return found._replace(nullable=found.nullable or nullable)
        if not branches:
            raise NotLogical(_UNSUPPORTED["null"])
        if (known := self._structs.get(id(node))) is not None:
            return Type(known, nullable)
        struct = self._structs[id(node)] = Struct(is_union=True)
        for (branch_name, notes), each in zip(_branch_names(node, branches), branches, strict=True):
            found = yield self.type(each, depth + 1)
            struct.fields.append(Field(branch_name, found._replace(nullable=True), notes=notes))
        return Type(struct, nullable)

    def _all_of(self, node: Combined, depth: int, name: str) -> Walk[Type]:
        """Return the type of an ``allOf``: its objects as one, else the part that says most."""
        parts = [*_parts(node)]
        self._budget.spend(len(parts))
        for each in parts:
            if each.kind in ("conditional", "not"):
                raise NotLogical(_UNSUPPORTED["conditional"])
        objects = [each for each in parts if isinstance(each, Object)]
        if objects:
            return Type((yield self._object(node, objects, depth, name)))
        chosen = (
            [each for each in parts if each.kind == "enum"]
            or [each for each in parts if isinstance(each, Combined)]
            or [each for each in parts if each.kind != "empty"]
            or [Node("empty")]
        )
        found: Type = yield self.type(chosen[0], depth + 1)
        return found

    def _object(self, node: Node, parts: Sequence[Object], depth: int, name: str) -> Walk[Shape]:
        raw = _members(parts[0])
        if raw.get("connect.type") == "map":
            return (yield self._map(parts[0], depth))  # type: ignore[no-any-return]
        if (known := self._structs.get(id(node))) is not None:
            return known
        struct = self._structs[id(node)] = Struct(name, _notes(node))
        required = frozenset(each for part in parts for each in part.required)
        properties = {named: each for part in parts for named, each in part.properties.items()}
        if properties:
            check_depth(depth + 1)
        for named in sorted(properties, key=lambda named: (_index(properties[named]), named)):
            part = properties[named]
            found: Type
            # Most properties have no parts.
            if isinstance(part, String | Number):
                self._budget.spend()
                found = Type(_number(part) if isinstance(part, Number) else _leaf(part))
            else:
                found = yield self.type(part, depth + 1)
            nullable = found.nullable or named not in required
            default = MISSING if part.default is NO_DEFAULT else bytes_of(found.shape, part.default)
            struct.fields.append(Field(named, Type(found.shape, nullable), default, notes=_notes(part)))
        return struct

    def _map(self, node: Object, depth: int) -> Walk[Shape]:
        raw = _members(node)
        length = integer(raw.get("logical.key.length"))
        is_fixed = raw.get("logical.key.type") == "CHAR"
        key = Type(leaf_of_lengths(Kind.CHAR, Kind.VARCHAR, length if is_fixed else None, length))
        if raw.get("flink.type") == "multiset":
            return LogicalArray(key, is_multiset=True)
        value = node.additional if node.additional is not None else Node("empty")
        return LogicalMap(key, (yield self.type(value, depth + 1)))

    def _array(self, node: Array, depth: int) -> Walk[Shape]:
        if node.items:
            raise NotLogical(
                "JSON tuples (i.e. arrays that contain items of different types) are not supported"
            )
        if node.all_items is None:
            raise NotLogical("Array schema did not specify the items type")
        raw, (entry, _) = _members(node), _target(node.all_items)
        if raw.get("connect.type") == "map" and isinstance(entry, Object):
            parts = entry.properties
            if parts.keys() == {"key", "value"}:
                # Neither has to be required for never being null.
                key: Type = yield self.type(parts["key"], depth + 2)
                value: Type = yield self.type(parts["value"], depth + 2)
                return (
                    LogicalArray(key, is_multiset=True)
                    if raw.get("flink.type") == "multiset"
                    else LogicalMap(key, value)
                )
        return LogicalArray((yield self.type(node.all_items, depth + 1)))


def _target(node: Node) -> tuple[Node, str]:
    """Return the node that a reference leads to, and the name of its definition."""
    if not isinstance(node, Reference):
        return node, ""
    for mark in ("/$defs/", "/definitions/"):
        _, found, name = node.name.rpartition(mark)
        if found and "/" not in name:
            return node.target, name_at(name)
    return node.target, ""


def _parts(node: Combined) -> Iterator[Node]:
    """Yield the parts of an ``allOf`` and of those inside it, references followed."""
    todo, seen = [node], {id(node)}
    while todo:
        for each in todo.pop().branches:
            part, _ = _target(each)
            if not isinstance(part, Combined) or part.criterion != "allOf":
                yield part
            elif id(part) not in seen:
                seen.add(id(part))
                todo.append(part)


def _members(node: Node) -> dict[str, Json]:
    return node.raw if type(node.raw) is dict else {}


def _index(node: Node) -> float:
    found = integer(_members(node).get("connect.index"))
    return float("inf") if found is None else found


def _notes(node: Node) -> Notes:
    raw = _members(node)
    return notes_of(node.description, raw.get("confluent:tags"), raw.get("confluent:params"))


def _leaf(node: Node) -> Leaf:
    raw = _members(node)
    match node.kind:
        case "empty":
            return VARIANT
        case "boolean":
            return Leaf(Kind.BOOLEAN)
        case "string":
            if node.is_bytes:
                return _number(node)
            return leaf_of_lengths(
                Kind.CHAR, Kind.VARCHAR, integer(raw.get("minLength")), integer(raw.get("maxLength"))
            )
    raise NotLogical(_UNSUPPORTED[node.kind])


def _symbols(values: Json) -> tuple[str, ...]:
    """Return the values of an ``enum``, those that are no texts as JSON writes them."""
    listed = values if type(values) is list else []
    return tuple(each if type(each) is str else print_json(each) for each in listed if each is not None)


def _number(node: Node) -> Leaf:
    raw = _members(node)
    title, connect = raw.get("title"), raw.get("connect.type")
    precision = integer(raw.get("flink.precision"))
    if connect == "bytes":
        if title == f"{_CONNECT}Decimal":
            return _decimal(raw)
        least, most = integer(raw.get("flink.minLength")), integer(raw.get("flink.maxLength"))
        return leaf_of_lengths(Kind.BINARY, Kind.VARBINARY, least, most)
    if raw.get("flink.type") == "timestamp":
        return Leaf(Kind.TIMESTAMP, 3 if precision is None else precision)
    if type(title) is str and title in _TITLED:
        leaf = _TITLED[title]
        return leaf if leaf.size is None or precision is None else leaf._replace(size=precision)
    if type(connect) is str and connect in _NUMBERS:
        return _NUMBERS[connect]
    is_integer = isinstance(node, Number) and node.is_integer
    return Leaf(Kind.BIGINT if is_integer else Kind.DOUBLE)


def _decimal(raw: dict[str, Json]) -> Leaf:
    found: Any = raw.get("connect.parameters")
    parameters = found if type(found) is dict else {}
    precision = integer(parameters.get("connect.decimal.precision"))
    size = _DECIMAL_PRECISION_DEFAULT if precision is None else precision
    return Leaf(Kind.DECIMAL, size, scale_of(parameters.get("scale")))


def _branch_names(node: Combined, branches: Sequence[Node]) -> Sequence[tuple[str, Notes]]:
    given = named_notes(_members(node).get("confluent:union"), len(branches))
    if given is not None:
        return given
    titles = [_members(_target(each)[0]).get("title") for each in branches]
    return [
        (each if type(each) is str else f"connect_union_field_{position}", NO_NOTES)
        for position, each in enumerate(titles)
    ]
