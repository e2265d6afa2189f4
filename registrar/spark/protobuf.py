"""Protobuf messages as Spark's rows by an Arrow function, where Spark's package for Protobuf is not loaded.

Types and values are those of ``from_protobuf`` without options: numbers are signed, enums are their names, a
field that is not set is null, and one whose message has no fields is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from .framing import Malformed

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Names of Spark's types.
_TYPES: Final = {
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32), "IntegerType"),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64), "LongType"),
    FieldDescriptor.CPPTYPE_FLOAT: "FloatType",
    FieldDescriptor.CPPTYPE_DOUBLE: "DoubleType",
    FieldDescriptor.CPPTYPE_BOOL: "BooleanType",
    FieldDescriptor.CPPTYPE_ENUM: "StringType",
}
_BITS: Final = {FieldDescriptor.CPPTYPE_UINT32: 32, FieldDescriptor.CPPTYPE_UINT64: 64}

Convert = Callable[[Any], Any]
# A FieldDescriptor: the library has two kinds, in Python and in C.
Field = Any


class MessageType(NamedTuple):
    """A message of Protobuf: the files that describe it, as a ``FileDescriptorSet``, and its full name."""

    descriptors: bytes
    name: str

    def descriptor(self) -> Any:
        """Return the message's descriptor. Raises :class:`.framing.Malformed` for files that do not fit."""
        pool = DescriptorPool()
        try:
            for file in FileDescriptorSet.FromString(self.descriptors).file:
                pool.Add(file)
            return pool.FindMessageTypeByName(self.name)
        except (DecodeError, TypeError, KeyError) as error:
            raise Malformed(f"the schema of {self.name} cannot be used: {error}") from None


def decode(payload: Column, message: MessageType, options: Mapping[str, str]) -> Column:
    """Return a column of messages as rows. Raises :class:`ValueError` for options of Spark's function."""
    strict = _is_strict(options)
    return _function(Reading(message, strict=strict), _row_type(message.descriptor(), ()))(payload)


def encode(column: Column, message: MessageType, options: Mapping[str, str]) -> Column:
    """Return a column of rows as messages."""
    from pyspark.sql.types import BinaryType  # noqa: PLC0415 (workers need none of these)

    _is_strict(options)
    return _function(Writing(message), BinaryType())(column)


def _is_strict(options: Mapping[str, str]) -> bool:
    if others := sorted(options.keys() - {"mode"}):
        raise ValueError(f"{', '.join(others)}: options for Protobuf need Spark's package spark-protobuf")
    return options.get("mode", "FAILFAST") == "FAILFAST"


def _function(call: Callable[[Any], Any], type: DataType) -> Callable[[Column], Column]:
    from pyspark.sql.functions import udf  # noqa: PLC0415

    def registrar_protobuf(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return None if value is None else call(value)

    return udf(registrar_protobuf, type, useArrow=True)


def _row_type(message: Any, around: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415

    if message.full_name in around:
        raise Malformed(
            f"{message.full_name} contains itself, and Spark has no recursive types: read the messages with "
            "a schema that ends somewhere"
        )
    inside = (*around, message.full_name)
    shown = [field for field in message.fields if _has_column(field)]
    return StructType([StructField(field.name, _field_type(field, inside)) for field in shown])


def _has_column(field: Field) -> bool:
    inner = _value_of_map(field) if _is_map(field) else field
    return inner.message_type is None or bool(inner.message_type.fields)


def _field_type(field: Field, around: Sequence[str]) -> DataType:
    from pyspark.sql.types import ArrayType, MapType  # noqa: PLC0415

    if _is_map(field):
        key, value = field.message_type.fields
        return MapType(_type(key, around), _type(value, around))
    return ArrayType(_type(field, around)) if field.is_repeated else _type(field, around)


def _type(field: Field, around: Sequence[str]) -> DataType:
    from pyspark.sql import types  # noqa: PLC0415

    if field.message_type is not None:
        match field.message_type.full_name:
            case "google.protobuf.Timestamp":
                return types.TimestampType()
            case "google.protobuf.Duration":
                return types.DayTimeIntervalType()
            case _:
                return _row_type(field.message_type, around)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return types.BinaryType() if _is_bytes(field) else types.StringType()
    made: DataType = getattr(types, _TYPES[field.cpp_type])()
    return made


def _is_bytes(field: Field) -> bool:
    return bool(field.type == FieldDescriptor.TYPE_BYTES)


def _is_map(field: Field) -> bool:
    return bool(
        field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry
    )


def _value_of_map(field: Field) -> Field:
    return field.message_type.fields_by_name["value"]


class Reading:
    """Makes messages rows; ``strict``: raise what cannot be read, instead of returning ``None``."""

    def __init__(self, message: MessageType, *, strict: bool) -> None:
        self._message, self._strict = message, strict

    def __reduce__(self) -> tuple[Callable[..., Reading], tuple[MessageType, bool]]:
        return _reading, (self._message, self._strict)

    def __call__(self, payload: bytes) -> Any:
        """Return the row. Raises :class:`.framing.Malformed`."""
        try:
            return self._convert(parse(self._class, payload))
        except Malformed:
            if self._strict:
                raise
            return None

    @cached_property
    def _class(self) -> type[Message]:
        return GetMessageClass(self._message.descriptor())

    @cached_property
    def _convert(self) -> Convert:
        return _to_row(self._class.DESCRIPTOR)


def _reading(message: MessageType, strict: bool) -> Reading:
    return Reading(message, strict=strict)


def parse(cls: type[Message], payload: bytes) -> Message:
    """Return a message of a class. Raises :class:`.framing.Malformed`."""
    message = cls()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise Malformed(f"the message is not of the type {cls.DESCRIPTOR.full_name}: {error}") from None
    return message


def _to_row(message: Any) -> Convert:
    from pyspark.sql import Row  # noqa: PLC0415

    fields = [(field.name, _missing(field), _reads(field)) for field in message.fields if _has_column(field)]
    # With names, because Spark hands it to another function of Python as it is.
    row = Row(*(name for name, _, _ in fields))

    def convert(value: Message) -> tuple[Any, ...]:
        found = {field.name: each for field, each in value.ListFields()}
        return row(*(read(found[name]) if name in found else missing() for name, missing, read in fields))

    return convert


def _missing(field: Field) -> Callable[[], Any]:
    if field.is_repeated:
        return dict if _is_map(field) else list
    default = _reads(field)(field.default_value) if field.has_default_value else None
    return lambda: default


def _reads(field: Field) -> Convert:
    if _is_map(field):
        key, own = (_reads_one(each) for each in field.message_type.fields)
        return lambda found: {key(name): own(each) for name, each in found.items()}
    one = _reads_one(field)
    return (lambda found: [one(each) for each in found]) if field.is_repeated else one


def _reads_one(field: Field) -> Convert:
    if field.message_type is not None:
        match field.message_type.full_name:
            case "google.protobuf.Timestamp":
                return lambda each: _EPOCH + timedelta(seconds=each.seconds, microseconds=each.nanos // 1000)
            case "google.protobuf.Duration":
                return lambda each: timedelta(seconds=each.seconds, microseconds=int(each.nanos / 1000))
            case _:
                return _to_row(field.message_type)
    if field.enum_type is not None:
        names = {each.number: each.name for each in field.enum_type.values}
        other = f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_"
        return lambda number: names.get(number, f"{other}{number}")
    if field.cpp_type in _BITS:
        bits = _BITS[field.cpp_type]
        return lambda number: number - (1 << bits) if number >> (bits - 1) else number
    return lambda each: each


class Writing:
    """Makes rows messages."""

    def __init__(self, message: MessageType) -> None:
        self._message = message

    def __reduce__(self) -> tuple[type[Writing], tuple[MessageType]]:
        return Writing, (self._message,)

    def __call__(self, row: Any) -> bytes:
        """Return the message. Raises :class:`.framing.Malformed` for a row that does not fit."""
        message = self._class()
        try:
            _fill(message, row)
            return message.SerializeToString()
        except (TypeError, ValueError, OverflowError) as error:
            raise Malformed(f"the row is not of the type {self._message.name}: {error}") from None

    @cached_property
    def _class(self) -> type[Message]:
        return GetMessageClass(self._message.descriptor())


def _fill(message: Message, row: Any) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.asDict().items():
        if name not in fields:
            raise ValueError(f"{message.DESCRIPTOR.full_name} has no field {name}")
        if value is not None:
            _set(message, fields[name], value)


def _set(message: Message, field: Field, value: Any) -> None:
    target = getattr(message, field.name)
    if _is_map(field):
        inner = _value_of_map(field)
        for key, each in value.items():
            if inner.message_type is not None:
                _fill_message(target[key], each)
            else:
                target[key] = _own_value(inner, each)
    elif field.is_repeated:
        for each in value:
            if field.message_type is not None:
                _fill_message(target.add(), each)
            else:
                target.append(_own_value(field, each))
    elif field.message_type is not None:
        target.SetInParent()
        _fill_message(target, value)
    else:
        setattr(message, field.name, _own_value(field, value))


def _fill_message(message: Any, value: Any) -> None:
    match message.DESCRIPTOR.full_name:
        case "google.protobuf.Timestamp":
            past = value.astimezone(UTC) - _EPOCH
            message.seconds, message.nanos = past // timedelta(seconds=1), past.microseconds * 1000
        case "google.protobuf.Duration":
            message.FromTimedelta(value)
        case _:
            _fill(message, value)


def _own_value(field: Field, value: Any) -> Any:
    if field.enum_type is not None:
        if value not in field.enum_type.values_by_name:
            raise ValueError(f"{field.enum_type.full_name} has no value {value}")
        return field.enum_type.values_by_name[value].number
    if field.cpp_type in _BITS:
        return value % (1 << _BITS[field.cpp_type])
    return bytes(value) if _is_bytes(field) else value
