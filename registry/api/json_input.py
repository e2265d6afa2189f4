"""JSON from clients, read as leniently as Jackson reads it for Confluent 8.x, and no more.

Scalars are converted where the meaning is plain (``"5"`` for 5, 5 for ``"5"``); unknown members are ignored;
of equal members the last one counts. What cannot be converted is 400, in Confluent's words as far as known.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import orjson

from registry.domain.errors import BAD_REQUEST, UNPROCESSABLE

from .body_limits import LARGE_BYTES, check_large

T = TypeVar("T")
Reader = Callable[[Any, str], T]
"""Turns a JSON value into what is wanted; the text names the member for the error message."""

# The marks that a body in Unicode may begin with, those of UTF-32 before those of UTF-16, which begin them.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Without a mark: which of the first bytes of JSON, which begins with an ASCII character, are not zero.
_PATTERNS = (
    ((True, False, False, False), "utf-32-le"),
    ((False, False, False, True), "utf-32-be"),
    ((True, False), "utf-16-le"),
    ((False, True), "utf-16-be"),
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def document(body: bytes, name: str = "request") -> dict[str, Any]:
    """The JSON object of a request body; raises 422 for none at all, 400 for anything else.

    ``name``: of the parameter that Confluent's message for none at all names.
    """
    body = _in_utf8(body)
    if not body.strip():
        raise UNPROCESSABLE(f"{name} must not be null (was null)")
    if len(body) > LARGE_BYTES:
        check_large(body)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BAD_REQUEST(f"The body is not valid JSON: {error}") from None
    if value is None:
        raise UNPROCESSABLE(f"{name} must not be null (was null)")
    if not isinstance(value, dict):
        refuse("request", "an object", value)
    return value


def _in_utf8(body: bytes) -> bytes:
    """Return a body in UTF-8, UTF-16 or UTF-32 as UTF-8; no ``charset`` is heeded (Confluent 8.3.1)."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _recoded(body[len(mark) :], encoding)
    if 0 in body[:4]:
        for pattern, encoding in _PATTERNS:
            if tuple(map(bool, body[: len(pattern)])) == pattern:
                return _recoded(body, encoding)
    return body


def _recoded(body: bytes, encoding: str) -> bytes:
    if encoding == "utf-8":
        return body
    try:
        return body.decode(encoding).encode()
    except UnicodeError:
        raise BAD_REQUEST(f"The body is not valid {encoding[:6].upper()}") from None


def refuse(member: str, wanted: str, value: Any) -> NoReturn:
    """Raise 400: ``member`` should have been ``wanted``."""
    raise BAD_REQUEST(f"Cannot read '{member}': expected {wanted}, found {_kind(value)}")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def text(value: Any, member: str) -> str | None:
    """A string; numbers and booleans become their text."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            refuse(member, "a string", value)


def integer(value: Any, member: str) -> int | None:
    """A 32-bit integer; fractions are cut off, text is read, empty text is null."""
    match value:
        case None:
            return None
        case bool():
            refuse(member, "an integer", value)
        case int():
            found = value
        case float():
            found = int(value)
        case str() if not value.strip():
            return None
        case str() if _NUMBER.fullmatch(value.strip()):
            found = int(value)
        case _:
            refuse(member, "an integer", value)
    if not _INT_MIN <= found <= _INT_MAX:
        raise BAD_REQUEST(f"Cannot read '{member}': the number is out of the range of int")
    return found


def boolean(value: Any, member: str) -> bool | None:
    """A boolean; 0 is false, other integers are true, both words may be text, empty text is null."""
    match value:
        case None | bool():
            return value
        case int():
            return value != 0
        case str() if not value.strip():
            return None
        case str() if value.strip() in ("true", "True", "TRUE"):
            return True
        case str() if value.strip() in ("false", "False", "FALSE"):
            return False
        case _:
            refuse(member, "a boolean", value)


def members(value: Any, member: str) -> dict[str, Any] | None:
    """An object."""
    if value is not None and not isinstance(value, dict):
        refuse(member, "an object", value)
    return value


def listing(read: Reader[T | None]) -> Reader[list[T] | None]:
    """A list whose items ``read`` reads; a null item is refused."""

    def read_list(value: Any, member: str) -> list[T] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            refuse(member, "an array", value)
        return [
            _present(read(item, f"{member}[{place}]"), f"{member}[{place}]")
            for place, item in enumerate(value)
        ]

    return read_list


def mapping(read: Reader[T | None]) -> Reader[dict[str, T] | None]:
    """An object whose values ``read`` reads; a null value is refused."""

    def read_map(value: Any, member: str) -> dict[str, T] | None:
        found = members(value, member)
        if found is None:
            return None
        return {
            key: _present(read(item, f"{member}.{key}"), f"{member}.{key}") for key, item in found.items()
        }

    return read_map


def _present(value: T | None, member: str) -> T:
    if value is None:
        raise BAD_REQUEST(f"Cannot read '{member}': null is not allowed here")
    return value
