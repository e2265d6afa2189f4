"""Decoding of a message's payload with the schema that it was written with."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from registry.domain.schemas import FORMATS, InvalidSchema, Schema

from .decoded import Decoded, Options, printable_json
from .errors import CannotDecode
from .frame import Frame
from .writer_schema import WriterSchema


class MessageDecoder:
    """Decodes messages that were written with one schema."""

    def __init__(self, schema: WriterSchema, options: Options = Options()) -> None:  # noqa: B008 (immutable)
        """Raise :class:`CannotDecode` if the schema cannot be used."""
        try:
            parsed = FORMATS[schema.type].parse(schema.text, schema.dependencies)
            self._decode = _decoder(parsed, schema, options)
        except InvalidSchema as error:
            raise CannotDecode(f"the schema cannot be used: {error}") from None
        except RecursionError:
            raise CannotDecode("the schema cannot be used: it is nested too deeply") from None

    def decode(self, frame: Frame) -> Decoded:
        """Return the message as JSON. Raises :class:`CannotDecode`."""
        try:
            found = self._decode(frame)
            return found._replace(json=printable_json(found.json))
        except RecursionError:
            raise CannotDecode("the message is nested too deeply") from None


def _decoder(parsed: Schema, schema: WriterSchema, options: Options) -> Callable[[Frame], Decoded]:
    # Each format's libraries are loaded only if it occurs.
    module = import_module(f"{__package__}.{FORMATS[schema.type].about.decoder}")
    make: Callable[..., Callable[[Frame], Decoded]] = module.decoder
    return make(parsed, schema.dependencies, options)
