"""Reading the first message of a Protobuf schema as a logical type (Confluent 8.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from registry.domain.schemas.contract import Budget
from registry.domain.schemas.logical.reading import (
    NotLogical,
    bytes_of,
    check_depth,
    integer,
    leaf_of_lengths,
    notes_of,
    scale_of,
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

from .model import EnumType, Field, File, Group, MapType, Message, OneOf, Option, Value, Word
from .names import Declared, Names, inside

_INT, _BIGINT = Leaf(Kind.INT), Leaf(Kind.BIGINT)
_SCALARS: Final[Mapping[str, Leaf]] = {
    "bool": Leaf(Kind.BOOLEAN),
    "float": Leaf(Kind.FLOAT),
    "double": Leaf(Kind.DOUBLE),
    "string": STRING,
    "bytes": BYTES,
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _INT),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64"), _BIGINT),
    **dict.fromkeys(("uint64", "fixed64"), _BIGINT._replace(is_unsigned=True)),
}
_SMALL: Final[Mapping[str, Leaf]] = {"int8": Leaf(Kind.TINYINT), "int16": Leaf(Kind.SMALLINT)}
_WRAPPED: Final[Mapping[str, str]] = {
    "DoubleValue": "double",
    "FloatValue": "float",
    "Int64Value": "int64",
    "UInt64Value": "uint64",
    "Int32Value": "int32",
    "UInt32Value": "uint32",
    "BoolValue": "bool",
    "StringValue": "string",
    "BytesValue": "bytes",
}
# Messages that stand for one value; the size is the precision if ``flink.precision`` does not say it.
_VALUES: Final[Mapping[str, Leaf]] = {
    "google.type.Date": Leaf(Kind.DATE),
    "google.type.TimeOfDay": Leaf(Kind.TIME, 9),
    "google.protobuf.Timestamp": Leaf(Kind.TIMESTAMP_LTZ, 9),
    "confluent.type.Decimal": Leaf(Kind.DECIMAL, 10),
    "confluent.type.Variant": VARIANT,
    **{f"google.protobuf.{name}": _SCALARS[scalar] for name, scalar in _WRAPPED.items()},
}
_WITH_PRECISION: Final = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
# Parameters that are part of a type.
_HIDDEN: Final = ("logical.", "flink.", "connect.")
_HIDDEN_NAMES: Final = frozenset({"precision", "scale"})
# Characters of a scope that cost a step.
_SCOPE_PER_STEP: Final = 20
# The fields through which the messages of any JSON lead back to themselves.
_CYCLES: Final[Mapping[str, str]] = {
    "google.protobuf.Struct": "fields.value.struct_value",
    "google.protobuf.Value": "struct_value.fields.value",
    "google.protobuf.ListValue": "values.list_value",
}


def read(file: File, names: Names, budget: Budget) -> Type:
    """Return the logical type of the first message.

    Raises :class:`.logical.reading.NotLogical`, and :class:`.contract.Exhausted`.
    """
    first = next(file.messages(), None)
    if first is None:
        raise NotLogical("The schema declares no message")
    declared = names.types[inside(file.package, first.name)]
    return run(_Reader(names, budget).root(declared, file.package))


class _Reader:
    def __init__(self, names: Names, budget: Budget) -> None:
        self._names = names
        self._budget = budget
        self._structs: dict[str, Struct] = {}
        self._enums: dict[str, Leaf] = {}

    def root(self, declared: Declared, package: str) -> Walk[Type]:
        struct: Struct = yield self._message(declared, 0)
        struct.namespace = package
        return Type(struct)

    def _message(self, declared: Declared, depth: int) -> Walk[Struct]:
        check_depth(depth)
        known = self._structs.get(declared.full_name)
        if known is not None:
            return known
        message = declared.type
        assert isinstance(message, Message)
        struct = Struct(declared.full_name, _meta(message.options, "message_meta").notes())
        self._structs[declared.full_name] = struct
        for field in message.fields:
            plain = _plain_field(field)
            struct.fields.append(plain or (yield self._field(field, declared.full_name, depth)))
        self._budget.spend(len(message.fields))
        for group in message.groups:
            struct.fields.append((yield self._group(group, declared.full_name, depth)))
        for oneof in message.oneofs:
            struct.fields.append((yield self._oneof(oneof, declared.full_name, depth)))
        return struct

    def _group(self, group: Group, scope: str, depth: int) -> Walk[LogicalField]:
        """Return the field of a group, whose name protobuf takes in lower case."""
        struct = Struct(inside(scope, group.name))
        for each in group.fields:
            struct.fields.append((yield self._field(each, scope, depth + 1)))
        name = group.name.lower()
        if group.label == "repeated":
            return LogicalField(name, Type(LogicalArray(Type(struct))), [], number=group.tag)
        return LogicalField(name, Type(struct, group.label != "required"), number=group.tag)

    def _oneof(self, oneof: OneOf, scope: str, depth: int) -> Walk[LogicalField]:
        union = Struct(is_union=True)
        for each in oneof.fields:
            branch: LogicalField = yield self._field(each, scope, depth + 1)
            union.fields.append(_branch(branch))
        for group in oneof.groups:
            branch = yield self._group(group, scope, depth + 1)
            union.fields.append(_branch(branch))
        return LogicalField(oneof.name, Type(union, nullable=True))

    def _field(self, field: Field, scope: str, depth: int) -> Walk[LogicalField]:
        self._budget.spend()
        meta = _meta(field.options)
        found: LogicalField = yield self._column(field, scope, meta.params, depth)
        notes = meta.notes()
        return found if notes is NO_NOTES else found._replace(notes=notes)

    def _column(self, field: Field, scope: str, params: Mapping[str, str], depth: int) -> Walk[LogicalField]:
        shape: Shape
        if isinstance(field.type, MapType):
            key = Type(_SCALARS.get(field.type.key, STRING))
            value: Shape = yield self._type_of(field, field.type.value, scope, {}, depth)
            return LogicalField(field.name, Type(LogicalMap(key, Type(value))), {}, number=field.tag)
        if params.get("flink.wrapped") == "true":
            found: LogicalField = yield self._unwrap(field, scope, depth)
            return found
        shape = yield self._type_of(field, field.type, scope, params, depth)
        if field.label == "repeated":
            entry = _entry(field, shape, params)
            return LogicalField(field.name, Type(entry or LogicalArray(Type(shape))), [], number=field.tag)
        # Messages are nullable; scalars and enums are not.
        is_message = field.type not in _SCALARS and not (isinstance(shape, Leaf) and shape.kind is Kind.ENUM)
        nullable = field.label == "optional" or (is_message and params.get("flink.notNull") != "true")
        nullable = nullable and field.label != "required"
        default = bytes_of(shape, params.get("logical.default", MISSING))
        return LogicalField(field.name, Type(shape, nullable), default, number=field.tag)

    def _unwrap(self, field: Field, scope: str, depth: int) -> Walk[LogicalField]:
        """Return the field of a wrapper message, whose only field ``value`` holds what one field cannot."""
        assert isinstance(field.type, str)
        outer: Struct | Leaf = yield self._type_of(field, field.type, scope, {}, depth)
        if not isinstance(outer, Struct) or len(outer.fields) != 1:
            raise NotLogical(f"flink.wrapped needs a message with one field: {field.name}")
        inner = outer.fields[0].type
        if field.label == "repeated":
            return LogicalField(field.name, Type(LogicalArray(inner)), [], number=field.tag)
        return LogicalField(field.name, inner._replace(nullable=True), number=field.tag)

    def _type_of(
        self, field: Field, name: str, scope: str, params: Mapping[str, str], depth: int
    ) -> Walk[Shape]:
        if name in _SCALARS:
            return _scalar(name, params)
        # A name is looked up in every scope around it.
        self._budget.spend(1 + len(scope) // _SCOPE_PER_STEP)
        declared = self._names.type(name, scope)
        if declared is None:
            raise NotLogical(f"Could not resolve type: {name}")
        if isinstance(declared.type, EnumType):
            return self._enum(declared.full_name, declared.type)
        if declared.full_name in _CYCLES:
            raise NotLogical(
                "Cyclic schemas are not supported.\n"
                f"Found a cycle in the field: {field.name}.{_CYCLES[declared.full_name]}"
            )
        if declared.full_name in _VALUES:
            return _value(declared.full_name, params)
        found: Struct = yield self._message(declared, depth + 1)
        return found

    def _enum(self, full_name: str, declared: EnumType) -> Leaf:
        found = self._enums.get(full_name)
        if found is None:
            symbols = tuple(each.name for each in declared.constants)
            notes = (
                _meta(declared.options, "enum_meta").notes(),
                *(_meta(each.options, "enum_value_meta").notes() for each in declared.constants),
            )
            about = notes if any(each is not NO_NOTES for each in notes) else ()
            found = self._enums[full_name] = Leaf(Kind.ENUM, symbols=symbols, name=full_name, notes=about)
        return found


def _plain_field(field: Field) -> LogicalField | None:
    """Return a scalar without options, as most fields are; else None."""
    if field.options or field.label == "repeated" or not isinstance(field.type, str):
        return None
    leaf = _SCALARS.get(field.type)
    if leaf is None:
        return None
    return LogicalField(field.name, Type(leaf, field.label == "optional"), number=field.tag)


def _branch(field: LogicalField) -> LogicalField:
    return LogicalField(
        field.name, field.type._replace(nullable=True), number=field.number, notes=field.notes
    )


def _scalar(name: str, params: Mapping[str, str]) -> Leaf:
    least, most = integer(params.get("flink.minLength")), integer(params.get("flink.maxLength"))
    match name:
        case "int32":
            return _SMALL.get(params.get("connect.type", ""), _INT)
        case "string":
            return leaf_of_lengths(Kind.CHAR, Kind.VARCHAR, least, most)
        case "bytes":
            return leaf_of_lengths(Kind.BINARY, Kind.VARBINARY, least, most)
    return _SCALARS[name]


def _value(full_name: str, params: Mapping[str, str]) -> Leaf:
    leaf = _VALUES[full_name]
    if leaf.kind is Kind.DECIMAL:
        precision = integer(params.get("precision"))
        size = leaf.size if precision is None else precision
        return leaf._replace(size=size, scale=scale_of(params.get("scale")))
    if leaf.kind is Kind.TIMESTAMP_LTZ and params.get("flink.type") == "timestamp":
        leaf = leaf._replace(kind=Kind.TIMESTAMP)
    precision = integer(params.get("flink.precision"))
    return leaf if precision is None or leaf.kind not in _WITH_PRECISION else leaf._replace(size=precision)


def _entry(field: Field, shape: Shape, params: Mapping[str, str]) -> Shape | None:
    """Return the map or multiset that a repeated message of entries stands for."""
    if not isinstance(shape, Struct) or not shape.name.rpartition(".")[2].lower().endswith("entry"):
        return None
    if [each.name for each in shape.fields] != ["key", "value"]:
        return None
    key, value = (each.type for each in shape.fields)
    if params.get("flink.type") == "multiset":
        return LogicalArray(key, is_multiset=True)
    return LogicalMap(key, value)


class _Meta(NamedTuple):
    """The content of Confluent's option on a part."""

    doc: str
    tags: Sequence[str]
    params: Mapping[str, str]

    def notes(self) -> Notes:
        """Return it without the parameters that are part of a type."""
        own = {
            key: value
            for key, value in self.params.items()
            if not key.startswith(_HIDDEN) and key not in _HIDDEN_NAMES
        }
        return notes_of(self.doc, self.tags, own)


_NOTHING: Final = _Meta("", (), {})


def _meta(options: Iterable[Option], name: str = "field_meta") -> _Meta:
    if not options:
        return _NOTHING
    doc = ""
    tags: tuple[str, ...] = ()
    params: dict[str, str] = {}
    for option in options:
        if option.name.rpartition(".")[2] != name:
            continue
        value = option.value
        members = {value.name: value.value} if isinstance(value, Option) else value
        if isinstance(members, Mapping):
            doc = _plain(members.get("doc", doc))
            params |= dict(_pairs(members.get("params")))
            tags = tuple(map(_plain, _items(members.get("tags", tags))))
    return _Meta(doc, tags, params)


def _pairs(listed: Any) -> Iterable[tuple[str, str]]:
    for each in _items(listed):
        if isinstance(each, Mapping):
            yield _plain(each.get("key", "")), _plain(each.get("value", ""))


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _plain(value: Value) -> str:
    return value.text if isinstance(value, Word) else str(value)
