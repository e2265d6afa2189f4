"""Messages in Protobuf's encoding, as Protobuf's own JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from registry.domain.schemas import Dependency, Schema
from registry.domain.schemas.protobuf.names import message_at
from registry.domain.schemas.protobuf.schema import ProtobufSchema

from .frame import CannotDecode, Decoded, Frame, Options, json_line, read_position
from .message import Read, WriterSchema, parse_schema


def decoder(schema: Schema, _: Sequence[Dependency], options: Options) -> Callable[[Frame], Decoded]:
    """Return the function that decodes messages written with ``schema``."""
    assert isinstance(schema, ProtobufSchema)
    pool = schema.pool()

    def class_at(position: Sequence[int]) -> type[Message]:
        name = message_at(schema.file, position)
        if name is None:
            at = ".".join(map(str, position))
            raise CannotDecode(f"the schema has no message at the position {at} that the message names")
        return GetMessageClass(pool.FindMessageTypeByName(name))

    def decode(frame: Frame) -> Decoded:
        if frame.position is None:
            position, data = read_position(frame.payload)
        else:
            position, data = read_position(frame.position)[0], frame.payload
        message = class_at(position)()
        name = message.DESCRIPTOR.full_name
        try:
            message.ParseFromString(data)
            value = MessageToDict(message, always_print_fields_with_no_presence=True, descriptor_pool=pool)
        except DecodeError as error:
            raise CannotDecode(f"the message is not of the type {name} of its schema: {error}") from None
        except (JsonError, TypeError, ValueError) as error:
            # For example an Any with a type that the schema does not know.
            raise CannotDecode(f"the {name} cannot be shown as JSON: {error}") from None
        unknown = len(UnknownFieldSet(message))
        return Decoded(json_line(value), (f"{unknown} fields are not in the schema",) if unknown else ())

    return decode


def rereader(reader: WriterSchema, writer: WriterSchema, validate_s: float) -> Read:
    """Return what reads messages of ``writer`` as those of ``reader``; raises :class:`CannotDecode`."""
    wrote, pool = parse_schema(writer), parse_schema(reader).pool()
    known: dict[tuple[int, ...], type[Message]] = {}

    def find(position: tuple[int, ...]) -> type[Message]:
        if position not in known:
            name = message_at(wrote.file, position)
            if name is None:
                raise CannotDecode(
                    f"its schema has no message at the position {'.'.join(map(str, position))}"
                )
            try:
                known[position] = GetMessageClass(pool.FindMessageTypeByName(name))
            except KeyError:
                raise CannotDecode(f"the new schema has no message {name}") from None
        return known[position]

    def read(data: bytes) -> object:
        position, payload = read_position(data)
        message: Any = find((*position,))()
        name = message.DESCRIPTOR.full_name
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            raise CannotDecode(f"the message is not of the type {name}: {error}") from None
        if missing := message.FindInitializationErrors():
            raise CannotDecode(f"the message lacks fields that {name} requires: {', '.join(missing)}")
        return message

    return read
