"""JSON from clients, read as leniently as by Jackson in Confluent 8.x, within limits of its own.

Scalars are converted if the meaning is clear (``"5"`` for 5, 5 for ``"5"``); unknown members are ignored; of
equal members the last one counts. Anything else is 400, with Confluent's message as far as known.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import orjson

from registry.domain.errors import BAD_REQUEST, UNPROCESSABLE

T = TypeVar("T")
# Converts a JSON value; the text is the member's name, for the error message.
Reader = Callable[[Any, str], T]

# Byte order marks; those of UTF-32 come first, because those of UTF-16 are prefixes of them.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Without a mark: which of the first bytes are not zero, since JSON begins with an ASCII character.
_PATTERNS = (
    ((True, False, False, False), "utf-32-le"),
    ((False, False, False, True), "utf-32-be"),
    ((True, False), "utf-16-le"),
    ((False, True), "utf-16-be"),
)
# Limits on everything in a body but schema texts, which are bounded by the cost of parsing them. All of this
# is read, sorted, hashed and compared at once. Confluent's server has no limits; these are far above what
# anybody writes by hand, and keep a body of any permitted length to some tenths of a second.
REFERENCES_MAX = 1_000  # of one schema
ENTRIES_MAX = 10_000  # members and items, at any depth, of metadata, of a rule set, or of a list of tags
BATCH_ENTRIES_MAX = 30_000  # the same for a batch about associations
_LARGE_BYTES = 256 * 1024  # smaller bodies cannot have too many entries
BODY_ENTRIES_MAX = 200_000  # commas and brackets outside of texts: reading these takes a fifth of a second
_QUOTES_MAX = 4 * BODY_ENTRIES_MAX  # at most a key and its value for each entry

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def document(body: bytes, name: str = "request") -> dict[str, Any]:
    """Return the JSON object of a request body; raises 422 for an empty body, 400 for anything else.

    ``name``: the parameter that Confluent's message for an empty body names.
    """
    if body[:1] != b"{" or 0 in body[:4]:
        body = _in_utf8(body)
    if not body.strip():
        raise UNPROCESSABLE(f"{name} must not be null (was null)")
    if len(body) > _LARGE_BYTES:
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
    """Return a body in UTF-8, UTF-16 or UTF-32 as UTF-8; ``charset`` is ignored (Confluent 8.3.1)."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _recode(body[len(mark) :], encoding)
    if 0 in body[:4]:
        for pattern, encoding in _PATTERNS:
            if tuple(map(bool, body[: len(pattern)])) == pattern:
                return _recode(body, encoding)
    return body


def _recode(body: bytes, encoding: str) -> bytes:
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
    """Read a string; numbers and booleans become their text."""
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
    """Read a 32-bit integer; fractions are cut off, text is parsed, empty text is null."""
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
    """Read a boolean; 0 is false, other integers are true, text is parsed, empty text is null."""
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
    """Read an object."""
    if value is not None and not isinstance(value, dict):
        refuse(member, "an object", value)
    return value


def required_members(value: Any, member: str) -> dict[str, Any]:
    """Read an object that has to be there. Raises 422."""
    found = members(value, member)
    if found is None:
        raise UNPROCESSABLE(f"{member} must not be null (was null)")
    return found


def listing(read: Reader[T | None]) -> Reader[list[T] | None]:
    """Return a reader of lists whose items ``read`` reads; a null item is refused."""

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
    """Return a reader of objects whose values ``read`` reads; a null value is refused."""

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


def check_large(body: bytes) -> None:
    """Raise 422 for a JSON text that has too many entries to be read at once."""
    if _entries(body) <= BODY_ENTRIES_MAX:
        return
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")  # every quote left begins or ends a text
    if bare.count(b'"') > _QUOTES_MAX or _entries(b"".join(bare.split(b'"')[::2])) > BODY_ENTRIES_MAX:
        raise _too_many("request", BODY_ENTRIES_MAX)


def _entries(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def check_references(value: Any, member: str) -> None:
    """Raise 422 for too many references."""
    if type(value) is list and len(value) > REFERENCES_MAX:
        raise _too_many(member, REFERENCES_MAX)


def check_entries(value: Any, member: str, most: int = ENTRIES_MAX) -> None:
    """Raise 422 for a JSON value with too many entries."""
    left, stack = most, [value]
    while stack:
        each = stack.pop()
        if type(each) is not dict and type(each) is not list:
            continue
        left -= len(each)
        if left < 0:
            raise _too_many(member, most)
        stack += each.values() if type(each) is dict else each


def _too_many(member: str, most: int) -> Exception:
    return UNPROCESSABLE(f"'{member}' has more than {most} entries")
