"""Changes between Protobuf schemas, and Confluent's words for the incompatible ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from .model import Constant, EnumType, Field, File, Message, OneOf

# The changes that make old data unreadable, in Confluent's words; all others are compatible.
_SENTENCES: Final[Mapping[str, str]] = {
    "PACKAGE_CHANGED": "The package at {path} in the {reader} schema does not match the package in the"
    " {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema is missing a MESSAGE type at path {path} in the {writer} schema",
    "FIELD_KIND_CHANGED": "The type of a field at path {path} in the {reader} schema does not match the"
    " {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path {path} in the {reader} schema does not"
    " match its kind in the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path {path} in the {reader} schema does not"
    " match its type in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path {path} in the {reader} schema does"
    " not match its label in the {writer} schema",
    "REQUIRED_FIELD_ADDED": "A required field  at path {path} in the {reader} schema is missing in the"
    " {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema is missing a required field at path: {path} in the"
    " {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema is missing a oneof field at path {path} in the {writer}"
    " schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path {path} in the {reader} schema"
    " are outside a oneof in the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path {path} in the {reader} schema is outside"
    " an existing oneof in the {writer} schema",
}


Declaration = File | Message | EnumType | Constant | OneOf | Field


class Item(NamedTuple):
    """A declaration, and the full name of the message or enum around it, or of itself."""

    scope: str
    declared: Declaration


class Change(NamedTuple):
    """One change, and its path ``#/Outer/Inner/oneof/number``."""

    type: str
    path: str
    old: Item | None = None
    new: Item | None = None

    @property
    def compatible(self) -> bool:
        """True if data written before stays readable."""
        return self.type not in _SENTENCES


def message(change: Change, reader_is: Literal["new", "old"]) -> str:
    """Return an incompatible change in Confluent's words."""
    writer_is = "old" if reader_is == "new" else "new"
    path = f"'{change.path}'"
    sentence = _SENTENCES[change.type].format(path=path, reader=reader_is, writer=writer_is)
    return f'{{errorType:"{change.type}", description:"{sentence}"}}'
