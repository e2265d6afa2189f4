"""Decoding of payloads with a schema, for tests."""

from __future__ import annotations

import json
from typing import Any

from registry.cli.decoding.frame import Decoded, Frame, Options, SchemaName
from registry.cli.decoding.message import MessageDecoder, WriterSchema
from registry.domain.schemas import Dependency

PLAIN = Options()


def decoded(
    type: str,
    schema: Any,
    payload: bytes,
    options: Options = PLAIN,
    *,
    position: bytes | None = None,
    dependencies: tuple[Dependency, ...] = (),
) -> Decoded:
    """Decode a payload; a schema that is no text is printed as JSON."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    decoder = MessageDecoder(WriterSchema(type, text, dependencies), options)
    return decoder.decode(Frame(SchemaName(1), position, payload))
