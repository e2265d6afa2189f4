"""The declarations of a ``.proto`` text, in their order and without comments.

Declarations are tuples, because there are many. Values of options are not: there a tuple is a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

# The highest number of a field, ``max`` in a range.
TAG_MAX: Final = 536_870_911

# Types without a declaration.
SCALARS: Final = frozenset(
    {"double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"}
    | {"fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"}
)


@dataclass(frozen=True, slots=True)
class Word:
    """A value without quotes: a number, true, false, or the name of an enum constant."""

    text: str

    @property
    def is_number(self) -> bool:
        """True if it starts like a number, which is all that the parser checks."""
        return self.text[:1] == "-" or self.text[:1].isdecimal()


@dataclass(frozen=True, slots=True)
class Option:
    """``name = value``; for ``(a).b = v``, ``b = v`` is the value of ``a``."""

    name: str
    value: Value
    # True if the name was in parentheses.
    custom: bool = False


# A string, a word, a nested option, a message in braces, or a list.
Value: TypeAlias = str | Word | Option | Mapping[str, "Value"] | tuple["Value", ...]

# A reserved name, or a range of numbers, reserved or open for extensions.
Span: TypeAlias = str | int | tuple[int, int]


class MapType(NamedTuple):
    """``map<key, value>``."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


FieldType: TypeAlias = str | MapType


class Field(NamedTuple):
    """A field of a message, a oneof or an extension."""

    # ``required``, ``optional``, ``repeated`` or empty.
    label: str
    type: FieldType
    name: str
    tag: int
    default: str | None = None
    json_name: str | None = None
    options: tuple[Option, ...] = ()


class Group(NamedTuple):
    """A field of proto2 that declares its message inline."""

    label: str
    name: str
    tag: int
    fields: tuple[Field, ...]


class OneOf(NamedTuple):
    """Fields of which at most one is set."""

    name: str
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    options: tuple[Option, ...]


class Extend(NamedTuple):
    """Fields that extend a message from outside."""

    name: str
    fields: tuple[Field, ...]


class Constant(NamedTuple):
    """A constant of an enum."""

    name: str
    tag: int
    options: tuple[Option, ...]


class EnumType(NamedTuple):
    """An enum."""

    name: str
    constants: tuple[Constant, ...]
    options: tuple[Option, ...]
    reserved: tuple[tuple[Span, ...], ...]


class Message(NamedTuple):
    """A message; ``extensions`` and ``reserved`` hold one entry per statement."""

    name: str
    fields: tuple[Field, ...]
    oneofs: tuple[OneOf, ...]
    groups: tuple[Group, ...]
    types: tuple[Message | EnumType, ...]
    extends: tuple[Extend, ...]
    extensions: tuple[tuple[Span, ...], ...]
    reserved: tuple[tuple[Span, ...], ...]
    options: tuple[Option, ...]

    def all_fields(self) -> Iterator[Field]:
        """Yield the fields of the message itself, then those of its oneofs."""
        yield from self.fields
        for oneof in self.oneofs:
            yield from oneof.fields

    def all_groups(self) -> Iterator[Group]:
        """Yield the groups of the message itself, then those of its oneofs."""
        yield from self.groups
        for oneof in self.oneofs:
            yield from oneof.groups

    def map_type(self) -> MapType | None:
        """The map type of a message that stands for a map's entries; ``None`` for all others."""
        if not self.options or not any(
            option.name == "map_entry" and option.value == Word("true") for option in self.options
        ):
            return None
        named = {field.name: field.type for field in self.fields}
        return MapType(str(named["key"]), str(named["value"])) if {"key", "value"} <= named.keys() else None


class Rpc(NamedTuple):
    """A method of a service."""

    name: str
    request: str
    response: str
    request_streams: bool
    response_streams: bool
    options: tuple[Option, ...]


class Service(NamedTuple):
    """A service."""

    name: str
    rpcs: tuple[Rpc, ...]
    options: tuple[Option, ...]


class File(NamedTuple):
    """A whole file. ``syntax`` is empty if the text has none."""

    syntax: str
    package: str
    imports: tuple[str, ...]
    public_imports: tuple[str, ...]
    options: tuple[Option, ...]
    types: tuple[Message | EnumType, ...]
    extends: tuple[Extend, ...]
    services: tuple[Service, ...]

    def messages(self) -> Iterator[Message]:
        """Yield the top-level messages."""
        return (each for each in self.types if isinstance(each, Message))
