"""Reading an Avro schema as a logical type (Confluent 8.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.domain.schemas.contract import Budget
from registry.domain.schemas.logical.reading import (
    NotLogical,
    check_depth,
    decimal_text,
    enum_notes,
    integer,
    leaf_of_lengths,
    moment_text,
    named_notes,
    notes_of,
    unique_names,
)
from registry.domain.schemas.logical.types import (
    BYTES,
    MISSING,
    NO_NOTES,
    STRING,
    VARIANT,
    Kind,
    Leaf,
    Notes,
    Shape,
    Struct,
    Type,
)
from registry.domain.schemas.logical.types import Array as LogicalArray
from registry.domain.schemas.logical.types import Field as LogicalField
from registry.domain.schemas.logical.types import Map as LogicalMap
from registry.domain.schemas.trampoline import Walk, run

from .model import MISSING as NO_DEFAULT
from .model import Array, Enum, Field, Fixed, Json, Map, Node, Primitive, Record, Union

_LEAVES: Final[Mapping[str, Leaf]] = {
    "boolean": Leaf(Kind.BOOLEAN),
    "int": Leaf(Kind.INT),
    "long": Leaf(Kind.BIGINT),
    "float": Leaf(Kind.FLOAT),
    "double": Leaf(Kind.DOUBLE),
    "string": STRING,
    "bytes": BYTES,
}
_REQUIRED: Final = {kind: Type(leaf) for kind, leaf in _LEAVES.items()}
_NULLABLE: Final = {kind: Type(leaf, nullable=True) for kind, leaf in _LEAVES.items()}
_PAIR: Final = 2
# Integers of fewer bits, by ``connect.type``.
_SMALL: Final[Mapping[Json, Leaf]] = {"int8": Leaf(Kind.TINYINT), "int16": Leaf(Kind.SMALLINT)}
# By base type and logical type; the size is the greatest precision. Others are ignored, as Avro asks for.
_TEMPORAL: Final[Mapping[tuple[str, Json], Leaf]] = {
    ("int", "date"): Leaf(Kind.DATE),
    ("int", "time-millis"): Leaf(Kind.TIME, 3),
    ("long", "time-micros"): Leaf(Kind.TIME, 6),
    ("long", "timestamp-millis"): Leaf(Kind.TIMESTAMP_LTZ, 3),
    ("long", "timestamp-micros"): Leaf(Kind.TIMESTAMP_LTZ, 6),
    ("long", "timestamp-nanos"): Leaf(Kind.TIMESTAMP_LTZ, 9),
    ("long", "local-timestamp-millis"): Leaf(Kind.TIMESTAMP, 3),
    ("long", "local-timestamp-micros"): Leaf(Kind.TIMESTAMP, 6),
    ("long", "local-timestamp-nanos"): Leaf(Kind.TIMESTAMP, 9),
}
_FINEST_TIME: Final = Leaf(Kind.TIME, 6)
_NANOS: Final = 9
_PRECISION_DEFAULT: Final = 10
_BYTES: Final = frozenset({Kind.DECIMAL, Kind.BINARY, Kind.VARBINARY})
_MOMENTS: Final = frozenset({leaf.kind for leaf in _TEMPORAL.values()})


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

    def type(self, node: Node, depth: int, names: Json = None) -> Walk[Type]:
        """Return the type of a node; ``names``: those of a union's branches, from the field that holds it."""
        self._budget.spend()
        check_depth(depth)
        if isinstance(node, Union):
            found: Type = yield self._union(node, depth, names)
            return found
        return Type((yield self._shape(node, depth)))

    def _shape(self, node: Node, depth: int) -> Walk[Shape]:
        found: Shape
        match node:
            case Primitive():
                found = _leaf(node)
            case Fixed():
                found = _decimal(node.props) or Leaf(Kind.BINARY, node.size)
            case Enum():
                found = self._enum(node)
            case Array():
                found = yield self._array(node, depth)
            case Map():
                found = yield self._map(node, depth)
            case Record():
                found = yield self._record(node, depth)
            case _:
                raise NotLogical(f"Standalone {node.kind} type is not supported")
        return found

    def _enum(self, node: Enum) -> Leaf:
        if id(node) not in self._enums:
            notes = enum_notes(_notes(node), (node.props or {}).get("confluent:enum"), len(node.symbols))
            self._enums[id(node)] = Leaf(
                Kind.ENUM, symbols=tuple(node.symbols), name=_full_name(node), notes=notes
            )
        return self._enums[id(node)]

    def _union(self, node: Union, depth: int, names: Json) -> Walk[Type]:
        branches = [each for each in node.branches if each.kind != "null"]
        nullable = len(branches) < len(node.branches)
        if not branches:
            raise NotLogical("Standalone NULL type is not supported")
        if len(branches) == 1:
            return Type((yield self._shape(branches[0], depth)), nullable)
        struct = Struct(is_union=True)
        given = named_notes(names, len(branches))
        if given is None:
            given = [(each, NO_NOTES) for each in unique_names([*map(_branch_names, branches)])]
        for each, (name, notes) in zip(branches, given, strict=True):
            found: Type = yield self.type(each, depth + 1)
            struct.fields.append(LogicalField(name, found._replace(nullable=True), notes=notes))
        return Type(struct, nullable)

    def _array(self, node: Array, depth: int) -> Walk[Shape]:
        element: Type = yield self.type(node.items, depth + 1)
        if _property(node, "logicalType") == "map" and (pair := _entry(element)) is not None:
            is_multiset = _property(node, "flink.type") == "multiset"
            return LogicalArray(pair.key, is_multiset=True) if is_multiset else pair
        return LogicalArray(element)

    def _map(self, node: Map, depth: int) -> Walk[Shape]:
        key = Type(_key(node.props or {}))
        if _property(node, "flink.type") == "multiset":
            return LogicalArray(key, is_multiset=True)
        return LogicalMap(key, (yield self.type(node.values, depth + 1)))

    def _record(self, node: Record, depth: int) -> Walk[Shape]:
        if _property(node, "logicalType") == "variant":
            return VARIANT
        if (known := self._structs.get(id(node))) is not None:
            return known
        struct = self._structs[id(node)] = Struct(_full_name(node), _notes(node))
        if node.fields:
            check_depth(depth + 1)
        for each in node.fields:
            # Most fields have no parts.
            found = _plain(each.type)
            if found is None:
                names = (each.props or {}).get("confluent:union")
                found = yield self.type(each.type, depth + 1, names)
            struct.fields.append(_column(each, found))
        self._budget.spend(len(node.fields))
        return struct


def _plain(node: Node) -> Type | None:
    """Return the type of a primitive without properties, or of one with null; None for all else."""
    if isinstance(node, Union):
        if len(node.branches) == _PAIR:
            for null, other in (node.branches, reversed(node.branches)):
                if null.kind == "null" and isinstance(other, Primitive) and other.props is None:
                    return _NULLABLE.get(other.kind)
        return None
    return _REQUIRED.get(node.kind) if isinstance(node, Primitive) and node.props is None else None


def _column(field: Field, found: Type) -> LogicalField:
    default = field.default
    if default is NO_DEFAULT:
        default = MISSING
    elif default is not None:
        default = _default(field.type, found.shape, default)
    return LogicalField(field.name, found, default, field.aliases, notes=_notes(field))


def _notes(node: Field | Record | Enum) -> Notes:
    if not node.doc and not node.props:
        return NO_NOTES
    props = node.props or {}
    return notes_of(node.doc, props.get("confluent:tags"), props.get("confluent:params"))


def _default(node: Node, leaf: Shape, value: Json) -> Any:
    """Return a default as SQL reads it: Avro writes bytes as Latin-1, dates and times as numbers."""
    if not isinstance(leaf, Leaf):
        return value
    if isinstance(value, str) and leaf.kind in _BYTES:
        raw = value.encode("latin-1", "replace")
        return decimal_text(raw, leaf.scale or 0) if leaf.kind is Kind.DECIMAL else raw
    if isinstance(value, int) and leaf.kind in _MOMENTS:
        first = node.branches[0] if isinstance(node, Union) else node
        assert isinstance(first, Primitive)
        unit = _TEMPORAL[first.kind, (first.props or {})["logicalType"]].size or 0
        return moment_text(leaf, value, unit)
    return value


def _leaf(node: Primitive) -> Leaf:
    props = node.props or {}
    if node.kind == "null":
        raise NotLogical("Standalone NULL type is not supported")
    temporal = _TEMPORAL.get((node.kind, _text(props.get("logicalType"))))
    if temporal is not None:
        return _at_precision(temporal, props)
    match node.kind:
        case "int" if "connect.type" in props:
            return _small(props["connect.type"])
        case "string":
            return _length_type(Kind.CHAR, Kind.VARCHAR, props)
        case "bytes":
            return _decimal(props) or _length_type(Kind.BINARY, Kind.VARBINARY, props)
    return _LEAVES[node.kind]


def _small(named: Json) -> Leaf:
    if type(named) is str and named in _SMALL:
        return _SMALL[named]
    raise NotLogical("Connect type annotation for Avro int field is null")


def _at_precision(leaf: Leaf, props: Mapping[str, Json]) -> Leaf:
    precision = integer(props.get("flink.precision"))
    if precision is None or leaf.size is None:
        return leaf
    # Avro has no nanoseconds of a day: times in microseconds stand for them.
    if precision > (_NANOS if leaf == _FINEST_TIME else leaf.size):
        raise NotLogical(
            f"flink.precision {precision} exceeds the precision carried by Avro logical type "
            f"'{props['logicalType']}' ({leaf.size})"
        )
    return leaf._replace(size=precision)


def _decimal(props: Mapping[str, Json] | None) -> Leaf | None:
    if not props or props.get("logicalType") != "decimal":
        return None
    precision = integer(props.get("precision"))
    return Leaf(
        Kind.DECIMAL, _PRECISION_DEFAULT if precision is None else precision, integer(props.get("scale")) or 0
    )


def _length_type(fixed: Kind, varying: Kind, props: Mapping[str, Json]) -> Leaf:
    return leaf_of_lengths(
        fixed, varying, integer(props.get("flink.minLength")), integer(props.get("flink.maxLength"))
    )


def _key(props: Mapping[str, Json]) -> Leaf:
    length = integer(props.get("logical.key.length"))
    return leaf_of_lengths(
        Kind.CHAR, Kind.VARCHAR, length if props.get("logical.key.type") == "CHAR" else None, length
    )


def _entry(element: Type) -> LogicalMap | None:
    """Return the map whose entries these elements are, if they are fields ``key`` and ``value``."""
    shape = element.shape
    if not isinstance(shape, Struct) or [each.name for each in shape.fields] != ["key", "value"]:
        return None
    key, value = shape.fields
    return LogicalMap(key.type, value.type)


def _full_name(node: Record | Enum) -> str:
    anonymous = (node.props or {}).get("logical.anonymous") == "true"
    return "" if anonymous else node.name.full


def _branch_names(node: Node) -> tuple[str, str]:
    if isinstance(node, Record | Enum | Fixed):
        return node.name.simple, node.name.full.replace(".", "_")
    return node.kind, node.kind


def _property(node: Array | Map | Record, name: str) -> Json:
    return (node.props or {}).get(name)


def _text(value: Json) -> str | None:
    return value if type(value) is str else None
