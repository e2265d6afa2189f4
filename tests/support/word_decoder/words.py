"""Decoder of messages of the words format; installed among the decoders of the product."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from registry.cli.decoding.frame import CannotDecode, Decoded, Frame, Options
from registry.domain.schemas import Dependency, Schema


def decoder(schema: Schema, _: Sequence[Dependency], options: Options) -> Callable[[Frame], Decoded]:
    """Return the function that decodes a word of the schema."""
    known = schema.field_names()

    def decode(frame: Frame) -> Decoded:
        word = frame.payload.decode()
        if word not in known:
            raise CannotDecode(f"{word} is not a word of the schema")
        return Decoded(json.dumps(word))

    return decode
