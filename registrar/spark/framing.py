"""The wire format of Confluent's serializers, and messages that cannot be read.

A message begins with the byte 0 and an id of four bytes, or the byte 1 and a GUID of sixteen. The same bytes
may be the value of a record header instead. For Protobuf, the position of the message in its file follows:
the number of its indexes and the indexes, as zigzag varints; the first message of a file is a single 0.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"

_ID, _GUID = 0, 1
_ID_BYTES, _GUID_BYTES = 5, 17
_VARINT_BYTES_MAX: Final = 5
_LEVELS_MAX: Final = 100


class Malformed(ValueError):
    """Raised for a message that cannot be read, whatever the registry answers; the text says why."""


class Frame(NamedTuple):
    """A message in the wire format: an id, or a GUID and id 0; and what follows it."""

    id: int
    guid: str
    rest: bytes


def prefix_of_id(id: int) -> bytes:
    """Return the first bytes of a message whose schema has this id."""
    return bytes([_ID]) + id.to_bytes(_ID_BYTES - 1)


def prefix_of_guid(guid: str) -> bytes:
    """Return the first bytes of a message whose schema has this GUID."""
    return bytes([_GUID]) + uuid.UUID(guid).bytes


def split(value: bytes) -> Frame:
    """Split a message. Raises :class:`Malformed`."""
    if len(value) >= _ID_BYTES and value[0] == _ID:
        return Frame(int.from_bytes(value[1:_ID_BYTES]), "", value[_ID_BYTES:])
    if len(value) >= _GUID_BYTES and value[0] == _GUID:
        return Frame(0, str(uuid.UUID(bytes=value[1:_GUID_BYTES])), value[_GUID_BYTES:])
    raise Malformed(f"no id of a schema begins the message, but the bytes {value[:_ID_BYTES].hex()}")


def position_prefix(position: Sequence[int]) -> bytes:
    """Return how serializers write the position of a message in its file."""
    if [*position] == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(position), *position))


def split_position(data: bytes) -> tuple[list[int], bytes]:
    """Return the position at the beginning of ``data``, and the rest. Raises :class:`Malformed`."""
    count, data = _read_varint(data)
    if not 0 <= count <= _LEVELS_MAX:
        raise Malformed(f"the position of the Protobuf message has {count} levels")
    position = []
    for _ in range(count):
        number, data = _read_varint(data)
        position.append(number)
    return position or [0], data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _read_varint(data: bytes) -> tuple[int, bytes]:
    value = 0
    for at, byte in enumerate(data[:_VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), data[at + 1 :]
    raise Malformed("the message ends within the position of the Protobuf message")


class Messages(NamedTuple):
    """The messages of a Protobuf file: each full name with its position."""

    positions: dict[str, list[int]]

    @property
    def first(self) -> str:
        """The full name of the first one; raises :class:`Malformed` if there is none."""
        for name in self.positions:
            return name
        raise Malformed("the Protobuf file has no message")


# Numbers of fields in google/protobuf/descriptor.proto.
_FILE_PACKAGE, _FILE_IMPORT, _FILE_MESSAGE = 2, 3, 4
_MESSAGE_NAME, _MESSAGE_NESTED = 1, 3
_DELIMITED: Final = 2
_FIXED: Final = {1: 8, 5: 4}


def messages_in(descriptor: bytes) -> Messages:
    """Return the messages of a file, which is described by a ``FileDescriptorProto``."""
    parts = [*_fields(descriptor)]
    package = next((text.decode() for number, text in parts if number == _FILE_PACKAGE), "")
    positions: dict[str, list[int]] = {}

    def walk(around: str, messages: list[bytes], place: list[int]) -> None:
        for index, message in enumerate(messages):
            inside = [*_fields(message)]
            own = next((text.decode() for number, text in inside if number == _MESSAGE_NAME), "")
            name = f"{around}.{own}" if around else own
            positions[name] = [*place, index]
            walk(name, [each for number, each in inside if number == _MESSAGE_NESTED], [*place, index])

    walk(package, [each for number, each in parts if number == _FILE_MESSAGE], [])
    return Messages(positions)


def imports_in(descriptor: bytes) -> list[str]:
    """Return the imports of a file."""
    return [text.decode() for number, text in _fields(descriptor) if number == _FILE_IMPORT]


def with_name(descriptor: bytes, name: str) -> bytes:
    """Return the descriptor of a file under the name by which others import it: the last name counts."""
    return descriptor + _delimit(1, name.encode())


def descriptor_set(files: Sequence[bytes]) -> bytes:
    """Return the ``FileDescriptorSet`` of these files."""
    return b"".join(_delimit(1, file) for file in files)


def _delimit(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _DELIMITED) + _varint(len(content)) + content


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the content of each delimited field of a Protobuf message."""
    at = 0
    while at < len(data):
        key, at = _read_unsigned(data, at)
        kind = key & 7
        if kind == _DELIMITED:
            size, at = _read_unsigned(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        elif kind == 0:
            _, at = _read_unsigned(data, at)
        else:
            at += _FIXED[kind]


def _read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
