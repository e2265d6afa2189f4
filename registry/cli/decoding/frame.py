"""The wire format of Confluent's serializers, and the result of decoding a message.

The name is in front of the payload, or in a record header of its own; it is an id of 4 bytes after the magic
byte 0, or a GUID of 16 bytes after 1. For Protobuf, the position of the message in its file follows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from typing import Any, Final, NamedTuple


class CannotDecode(ValueError):
    """Raised for a message that is not what its schema says; ``str(error)`` is for the user."""


class Options(NamedTuple):
    """The choices of the user."""

    # Avro as its own JSON encoding has it, instead of the plain form.
    avro_json: bool = False
    # Validate JSON Schema messages against their schema.
    validate: bool = False
    # Longest comparison: some keywords of JSON Schema have no other bound.
    validate_s: float = 5.0


class Decoded(NamedTuple):
    """A message as JSON."""

    # One line.
    json: str
    # Doubts about the message that did not keep it from being decoded.
    warnings: tuple[str, ...] = ()


def printable_json(line: str) -> str:
    """Return a line of JSON with characters escaped that could steer a terminal; its value is the same."""
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in line)


def json_line(value: Any) -> str:
    """Return the JSON of a value in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# A larger message is not decoded. Kafka's own limit is 1 MiB by default.
MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"

_ID, _GUID = 0, 1
_ID_BYTES, _GUID_BYTES = 4, 16
# Messages nest in Protobuf files, so a position has a number for each level.
_LEVELS_MAX = 100
_VARINT_BYTES_MAX = 5

# Record headers as clients return them.
Headers = Iterable[tuple[str, bytes | None]]


class SchemaName(NamedTuple):
    """The name of a schema in a message."""

    # None if the message names it by GUID.
    id: int | None
    # Empty if the message names it by id.
    guid: str = ""

    def __str__(self) -> str:
        return f"GUID {self.guid}" if self.id is None else f"id {self.id}"


class Frame(NamedTuple):
    """A message in the wire format."""

    schema: SchemaName
    # The position of a Protobuf message, if it is in a header; None if it begins the payload.
    position: bytes | None
    payload: bytes


def split_frame(data: bytes, headers: Headers = (), *, key: bool = False) -> Frame:
    """Split a message into the name of its schema and its payload. Raises :class:`CannotDecode`.

    ``key``: the data is the key of its record, so the header for keys counts.
    """
    if len(data) > MESSAGE_BYTES_MAX:
        raise CannotDecode(f"the message has {len(data)} bytes; at most {MESSAGE_BYTES_MAX} are decoded")
    wanted = KEY_HEADER if key else VALUE_HEADER
    # The last one counts, as for Confluent's deserializers: a program that sends a record on may add one.
    *_, header = None, *(value for name, value in headers if name == wanted)
    if header is None:
        schema, payload = _split_name(data, "the message")
        return Frame(schema, None, payload)
    schema, position = _split_name(header, f"the header {wanted}")
    return Frame(schema, position, data)


def _split_name(data: bytes, what: str) -> tuple[SchemaName, bytes]:
    """Return the name at the beginning of ``data``, and the rest."""
    if not data:
        raise CannotDecode(f"{what} is empty")
    if data[0] == _ID and len(data) > _ID_BYTES:
        return SchemaName(int.from_bytes(data[1 : 1 + _ID_BYTES])), data[1 + _ID_BYTES :]
    if data[0] == _GUID and len(data) > _GUID_BYTES:
        guid = str(uuid.UUID(bytes=data[1 : 1 + _GUID_BYTES]))
        return SchemaName(None, guid), data[1 + _GUID_BYTES :]
    if data[0] in (_ID, _GUID):
        raise CannotDecode(f"{what} ends within the name of its schema: it has only {len(data)} bytes")
    raise CannotDecode(
        f"{what} is not in Confluent's wire format: it begins with the byte 0x{data[0]:02x}, not with 0 or 1"
    )


def read_position(data: bytes) -> tuple[list[int], bytes]:
    """Return the position of a Protobuf message in its file, and the rest of ``data``.

    The position has a number for each level of nested messages. Raises :class:`CannotDecode`.
    """
    levels, data = _varint(data)
    if not 0 <= levels <= _LEVELS_MAX:
        raise CannotDecode(f"the position of the Protobuf message has {levels} levels")
    position = []
    for _ in range(levels):
        number, data = _varint(data)
        if number < 0:
            raise CannotDecode(f"the position of the Protobuf message holds the number {number}")
        position.append(number)
    # The first message of the file is abbreviated.
    return position or [0], data


def _varint(data: bytes) -> tuple[int, bytes]:
    value = 0
    for at, byte in enumerate(data[:_VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), data[at + 1 :]
    raise CannotDecode("the message ends within the position of the Protobuf message, or that is not valid")
