"""The result of decoding a message, and the choices about it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


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
