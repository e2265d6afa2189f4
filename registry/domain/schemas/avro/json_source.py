"""JSON of schema texts, accepting exactly what Avro's parser accepts (Jackson with comments permitted).

orjson does the work. It refuses comments, infinite numbers and blanks after the document, and turns integers
beyond 64 bits into floats; :func:`read_exactly` reads such texts.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_text import Scanner, too_deep

from .model import Json

# Jackson's limit on nested arrays and objects (``StreamReadConstraints``).
MAX_DEPTH: Final = 1000

_BIG: Final = float(2**63)
_BLANKS: Final = "".join(map(chr, range(0x21)))


def read(text: str) -> Json:
    """Return the JSON value of a schema's text. Raises :class:`InvalidSchema`."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return read_exactly(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep()
    return value


def _too_deep() -> InvalidSchema:
    return too_deep(MAX_DEPTH)


def is_exact(value: Json) -> bool:
    """Return false if the value holds a float that orjson may have made from an integer."""
    if type(value) is float:
        return -_BIG < value < _BIG
    if type(value) is not list and type(value) is not dict:
        return True
    todo = [value]
    while todo:
        for item in _children(todo.pop()):
            if type(item) is list or type(item) is dict:
                todo.append(item)
            elif type(item) is float and not -_BIG < item < _BIG:
                return False
    return True


def read_exactly(text: str) -> Json:
    """Read the text token by token: skip comments and keep every digit of integers."""
    scanner = Scanner(text, MAX_DEPTH, _number, comments=True)
    value = scanner.document()
    rest = text[scanner.at :].strip(_BLANKS)
    if rest:
        raise InvalidSchema(f"dangling content after end of schema: {rest[:200]}")
    return value


def _number(token: re.Match[str]) -> int | float:
    digits = token["number"]
    return int(digits) if token["part"] is None and token["power"] is None else float(digits)


def _children(value: Json) -> Any:
    return value.values() if type(value) is dict else value


def _depth(value: Json) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if type(item) is list or type(item) is dict]:
        depth += 1
        level = [child for item in level for child in _children(item)]
    return depth
