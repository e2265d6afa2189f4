"""Messages in Avro's binary encoding.

The plain form is for people and for programs that know nothing of Avro: the value of a union without its
type, bytes in Base64, logical types as text. Avro's JSON encoding is what Avro's own tools read and print.

The ``avro`` package reads the binary values. Its parser of schemas is stricter than the registry, for example
with names that are used before their definition, so the registry's own model of the schema leads the way.
"""

from __future__ import annotations

import struct
import uuid
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, Final

from avro.errors import AvroException
from avro.io import BinaryDecoder

from registry.domain.schemas import Dependency, Schema
from registry.domain.schemas.avro.format import AvroSchema
from registry.domain.schemas.avro.model import (
    Array,
    Enum,
    Fixed,
    Json,
    Map,
    Node,
    Primitive,
    Record,
    Union,
    type_name,
)

from .frame import CannotDecode, Decoded, Frame, Options, json_line
from .message import Read, WriterSchema, resolved_text

# Digits of a fraction of a second, by the end of the type's name.
_FRACTIONS: Final = {"millis": 3, "micros": 6, "nanos": 9}
_DAY_S: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION_BYTES: Final = 12
_UUID_BYTES: Final = 16
# Longer numbers take long to convert; no database has decimals of so many digits.
_DECIMAL_BYTES_MAX: Final = 1024
_SCALE_MAX: Final = 10_000

Props = Mapping[str, Any]


def logical_value(props: Props, value: Any) -> Any:
    """Return the value of a logical type as JSON; ``props`` are the properties of the type."""
    name = props["logicalType"]
    if not isinstance(name, str):
        return value
    base, _, fraction = name.rpartition("-")
    if base in _OF_FRACTIONS and fraction in _FRACTIONS and isinstance(value, int):
        return _OF_FRACTIONS[base](value, _FRACTIONS[fraction])
    convert = _OTHERS.get(name)
    return value if convert is None else convert(props, value)


def _decimal(props: Props, value: Any) -> Any:
    scale = props.get("scale", 0)
    if not isinstance(value, bytes) or not 0 < len(value) <= _DECIMAL_BYTES_MAX:
        return value
    if not isinstance(scale, int) or not 0 <= scale <= _SCALE_MAX:
        return value
    unscaled = int.from_bytes(value, signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def _date(props: Props, value: Any) -> Any:
    moment = _moment(value * _DAY_S) if isinstance(value, int) else None
    return value if moment is None else f"{moment:%Y-%m-%d}".rjust(10, "0")


def _uuid(props: Props, value: Any) -> Any:
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) and len(value) == _UUID_BYTES else value


def _duration(props: Props, value: Any) -> Any:
    if not isinstance(value, bytes) or len(value) != _DURATION_BYTES:
        return value
    numbers = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    return dict(zip(("months", "days", "millis"), numbers, strict=True))


def _time(value: int, digits: int) -> str | int:
    seconds, fraction = divmod(value, 10**digits)
    if not 0 <= seconds < _DAY_S:
        return value
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:0{digits}}"


def _local_timestamp(value: int, digits: int) -> str | int:
    seconds, fraction = divmod(value, 10**digits)
    moment = _moment(seconds)
    if moment is None:
        return value
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{fraction:0{digits}}"


def _timestamp(value: int, digits: int) -> str | int:
    local = _local_timestamp(value, digits)
    return f"{local}Z" if isinstance(local, str) else local


def _moment(seconds: int) -> datetime | None:
    """Return the moment so many seconds after the epoch; None if it is not in the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


_OF_FRACTIONS: Final[dict[str, Callable[[int, int], str | int]]] = {
    "time": _time,
    "timestamp": _timestamp,
    "local-timestamp": _local_timestamp,
}
_OTHERS: Final[dict[str, Callable[[Props, Any], Any]]] = {
    "decimal": _decimal,
    "date": _date,
    "uuid": _uuid,
    "duration": _duration,
}


# Bounds of one message: values of arrays may take no bytes, and records may hold themselves.
_VALUES_MAX: Final = 2_000_000
_DEPTH_MAX: Final = 200

_FLOAT: Final = struct.Struct("<f")


def decoder(schema: Schema, _: Sequence[Dependency], options: Options) -> Callable[[Frame], Decoded]:
    """Return the function that decodes messages written with ``schema``."""
    assert isinstance(schema, AvroSchema)
    node = schema.node

    def decode(frame: Frame) -> Decoded:
        if _is_raw(node, frame.payload):
            return Decoded(json_line(_bytes(frame.payload, options)))
        source = BytesIO(frame.payload)
        reader = _Reader(source, options)
        try:
            value = reader.value(node, 0)
        except (AvroException, UnicodeDecodeError) as error:
            raise CannotDecode(
                f"the message does not fit its schema, near byte {source.tell()} of its payload: {error}"
            ) from None
        left = len(frame.payload) - source.tell()
        return Decoded(json_line(value), (f"{left} bytes follow the message",) if left else ())

    return decode


def _is_raw(node: Node, payload: bytes) -> bool:
    """Return true for bytes as Confluent's serializer for Java writes them: without their length."""
    if node.kind != "bytes":
        return False
    try:
        source = BytesIO(payload)
        BinaryDecoder(source).read_bytes()
    except AvroException:
        return True
    return source.tell() != len(payload)


class _Reader:
    """Reads one message."""

    def __init__(self, source: BytesIO, options: Options) -> None:
        self._binary = BinaryDecoder(source)
        self._options = options
        self._left = _VALUES_MAX

    def value(self, node: Node, depth: int) -> Json:
        """Return the next value. Raises :class:`CannotDecode` and errors of the package."""
        if depth > _DEPTH_MAX:
            raise CannotDecode(f"the message is nested more than {_DEPTH_MAX} levels deep")
        self._spend(1)
        match node:
            case Record():
                return {field.name: self.value(field.type, depth + 1) for field in node.fields}
            case Union():
                return self._union(node, depth)
            case Array():
                items: list[Json] = []
                for count in self._blocks():
                    items += [self.value(node.items, depth + 1) for _ in range(count)]
                return items
            case Map():
                pairs: dict[str, Json] = {}
                for count in self._blocks():
                    for _ in range(count):
                        key = self._binary.read_utf8()
                        pairs[key] = self.value(node.values, depth + 1)
                return pairs
            case Enum():
                return self._symbol(node)
            case Fixed():
                return self._convert(node, self._binary.read(node.size))
            case Primitive():
                return self._convert(node, self._primitive(node.kind))
            case _:
                raise AssertionError("the parser resolves all names")

    def _spend(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise CannotDecode(f"the message has more than {_VALUES_MAX} values")

    def _blocks(self) -> Any:
        """Yield the numbers of items in the blocks of an array or a map."""
        while (count := self._binary.read_long()) != 0:
            if count < 0:
                count = -count
                self._binary.read_long()  # the block's size in bytes
            if count > self._left:
                self._spend(count)
            yield count

    def _union(self, node: Union, depth: int) -> Json:
        index = self._binary.read_long()
        if not 0 <= index < len(node.branches):
            raise CannotDecode(
                f"the message does not fit its schema: it chooses type {index} of a union of "
                f"{len(node.branches)}"
            )
        branch = node.branches[index]
        value = self.value(branch, depth + 1)
        wrapped = self._options.avro_json and branch.kind != "null"
        return {type_name(branch): value} if wrapped else value

    def _symbol(self, node: Enum) -> str:
        index = self._binary.read_int()
        if not 0 <= index < len(node.symbols):
            raise CannotDecode(
                f"the message does not fit its schema: it chooses symbol {index} of {len(node.symbols)} of "
                f"the enum {node.name.full}"
            )
        return node.symbols[index]

    def _primitive(self, kind: str) -> Json:
        match kind:
            case "null":
                return None
            case "boolean":
                return self._binary.read_boolean()
            case "int" | "long":
                return self._binary.read_long()
            case "float":
                return _shortest(self._binary.read_float())
            case "double":
                return _finite(self._binary.read_double())
            case "bytes":
                return self._binary.read_bytes()
            case _:
                return self._binary.read_utf8()

    def _convert(self, node: Primitive | Fixed, value: Json) -> Json:
        """Return the value in the chosen form."""
        if not self._options.avro_json and node.props and "logicalType" in node.props:
            value = logical_value(node.props, value)
        return _bytes(value, self._options) if isinstance(value, bytes) else value


def _bytes(value: bytes, options: Options) -> str:
    return value.decode("latin-1") if options.avro_json else b64encode(value).decode()


def _finite(value: float) -> float | str:
    """Return the number, or its name in Avro's and Protobuf's JSON, which has no such numbers."""
    if value != value:  # noqa: PLR0124 (true for NaN alone)
        return "NaN"
    return value if abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"


def _shortest(value: float) -> float | str:
    """Return the number with as few digits as distinguish it among numbers of 32 bits."""
    if value - value != 0:
        return _finite(value)
    return next(
        (short for digits in range(1, 9)
         if (short := float(f"{value:.{digits}g}")) == value or _same_float(short, value)),
        value,
    )  # fmt: skip


def _same_float(one: float, other: float) -> bool:
    try:
        return _FLOAT.pack(one) == _FLOAT.pack(other)
    except OverflowError:
        return False


def rereader(reader: WriterSchema, writer: WriterSchema, validate_s: float) -> Read:
    """Return what reads messages of ``writer`` with ``reader``; raises :class:`CannotDecode`."""
    # Its package imports PySpark, which may not be installed.
    from registrar.spark.avro_resolution import Resolver  # noqa: PLC0415
    from registrar.spark.framing import Malformed  # noqa: PLC0415

    try:
        resolver = Resolver(resolved_text(writer), resolved_text(reader), checks=True)
    except Malformed as error:
        raise CannotDecode(str(error)) from None

    def read(data: bytes) -> object:
        try:
            return resolver.resolve(data)
        except Malformed as error:
            raise CannotDecode(str(error)) from None

    return read
