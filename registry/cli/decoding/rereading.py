"""Reading of messages with another schema than the one that they were written with."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from registry.domain.schemas import FORMATS, InvalidSchema

from .frame import CannotDecode
from .message import Read, WriterSchema

# A recursive schema may ask for more.
_LEVELS: Final = "it is nested too deeply"


class Reader(NamedTuple):
    """The schema that messages are to be read with."""

    schema: WriterSchema
    # Longest comparison of a message with a JSON schema.
    validate_s: float = 5.0

    def reads(self, writer: WriterSchema) -> Read:
        """Return the function that reads the messages of a writer. Raises :class:`CannotDecode`."""
        if writer.type != self.schema.type:
            raise CannotDecode(
                f"the message has a schema of the type {writer.type}, the new one is {self.schema.type}"
            )
        try:
            read = _module(self.schema.type).rereader(self.schema, writer, self.validate_s)
        except InvalidSchema as error:
            raise CannotDecode(f"the schema cannot be used: {error}") from None
        except RecursionError:
            raise CannotDecode(f"the schema cannot be used: {_LEVELS}") from None
        return partial(_read, read)


def _module(type_: str) -> Any:
    # Each format's libraries are loaded only if it occurs.
    return import_module(f"{__package__}.{FORMATS[type_].about.decoder}")


def _read(read: Read, data: bytes) -> object:
    try:
        return read(data)
    except RecursionError:
        raise CannotDecode(f"the message cannot be read: {_LEVELS}") from None
