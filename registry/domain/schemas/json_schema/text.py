"""Schema text to JSON and back, byte for byte as Confluent's Jackson does it (Confluent 8.x).

Numbers are exact: integers of any size, and :class:`~decimal.Decimal` for all others, which prints as it was
written (``1.50`` stays, ``1e2`` becomes ``1E+2``). Members keep their order; of duplicate names the last
value counts, in the position of the first. ``NaN`` and ``Infinity`` are accepted and become strings.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from registry.domain.schemas.contract import InvalidSchema
from registry.domain.schemas.json_text import MAX_NUMBER, WORDS, Json, Scanner
from registry.domain.schemas.json_text import print_json as printed_slowly
from registry.domain.schemas.trampoline import Walk, run

# Maximum nesting of arrays and objects; each level of a schema takes two.
MAX_DEPTH: Final = 20_000

_MAX_POWER: Final = 2**31 - 1
_BLANKS: Final = " \t\r\n"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_HEX: Final = re.compile(rb"\\(?:u00[01][0-9a-f]|.)", re.DOTALL)
_INFINITE: Final = {
    "NaN": "NaN",
    **dict.fromkeys(("INF", "+INF", "Infinity", "+Infinity"), "Infinity"),
    **dict.fromkeys(("-INF", "-Infinity"), "-Infinity"),
}


def read(text: str) -> Json:
    """Return the JSON value of a text. Raises :class:`InvalidSchema`."""
    try:
        value = _decoder.decode(text)
    except RecursionError:
        value = _read_deep(text)
    except json.JSONDecodeError as error:
        if "INF" in text or "Infinity" in text:
            value = _read_deep(text)
        else:
            raise InvalidSchema(f"Invalid JSON: {error}") from None
    if "\\u" in text and _SURROGATE.search(text):
        _check_surrogates(value)
    return value


def segment(name: str) -> str:
    """Return the name of a member as a JSON pointer in a URI holds it."""
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace("#", "%23")


def name_at(segment: str) -> str:
    """Return the name of the member that a segment of a JSON pointer in a URI leads to."""
    return unquote(segment).replace("~1", "/").replace("~0", "~")


def _read_deep(text: str) -> Json:
    scanner = Scanner(text, MAX_DEPTH, _token, words={**WORDS, **_INFINITE})
    value = scanner.document()
    rest = text[scanner.at :].strip(_BLANKS)
    if rest:
        raise InvalidSchema(f"Invalid JSON: more after the end of the schema: {rest[:200]}")
    return value


def _token(token: re.Match[str]) -> Json:
    digits = token["number"]
    return _integer(digits) if token["part"] is None and token["power"] is None else _decimal(digits)


def _integer(digits: str) -> int:
    _check_length(digits)
    return int(digits)


def _decimal(digits: str) -> Decimal:
    _check_length(digits)
    power = digits.lower().partition("e")[2]
    if power and abs(int(power)) > _MAX_POWER:
        raise InvalidSchema(f"Invalid JSON: the exponent of {digits} is out of range")
    value = Decimal(digits)
    return value or abs(value)  # Java's zero has no sign


def _check_length(digits: str) -> None:
    if len(digits) > MAX_NUMBER:
        raise InvalidSchema(f"Number value length ({len(digits)}) exceeds the maximum allowed ({MAX_NUMBER})")


_decoder: Final = json.JSONDecoder(
    parse_float=_decimal, parse_int=_integer, parse_constant=_INFINITE.__getitem__
)


def _check_surrogates(value: Json) -> None:
    try:
        printed_slowly(value).encode()
    except UnicodeEncodeError:
        raise InvalidSchema("Invalid JSON: half of a surrogate pair in a string") from None


_encoder: Final = msgspec.json.Encoder(decimal_format="number")


def print_json(value: Json) -> str:
    """Return the value as compact JSON."""
    try:
        out = _encoder.encode(value)
    except RecursionError:
        return printed_slowly(value)
    if b"\\u00" in out:
        out = _HEX.sub(_upper, out)
    return out.decode()


def _upper(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    return b"\\u" + escape[2:].upper() if len(escape) > 2 else escape


def sort_members(value: Json) -> Json:
    """Return the value with the members of all objects sorted in Java's order of strings."""
    return run(_sort_members(value))


def _sort_members(value: Json) -> Walk[Json]:
    if type(value) is dict:
        result = {}
        for name in sorted(value, key=_java_order):
            item = value[name]
            result[name] = (yield _sort_members(item)) if type(item) is dict or type(item) is list else item
        return result
    if type(value) is list:
        elements = []
        for item in value:
            element = (yield _sort_members(item)) if type(item) is dict or type(item) is list else item
            elements.append(element)
        return elements
    return value


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be")


def same_value(one: Json, other: Json) -> bool:
    """Compare JSON values: 1 equals 1.0, true differs from 1, members have no order."""
    return value_key(one) == value_key(other)


def value_key(value: Json) -> str:
    """Return a text that is equal for equal values only."""
    return printed_slowly(run(_plain(value)))


def _plain(value: Json) -> Walk[Json]:
    if type(value) is Decimal and not value:
        return 0
    if type(value) is Decimal:
        # Convert to an integer only if writing it out is cheap; 1e999999 is not printed.
        whole = value.adjusted() < MAX_NUMBER and value == value.to_integral_value()
        return int(value) if whole else _shortest(value)
    if type(value) is dict:
        result = {}
        for name in sorted(value):
            result[name] = yield _plain(value[name])
        return result
    if type(value) is list:
        elements = []
        for item in value:
            element = yield _plain(item)
            elements.append(element)
        return elements
    return value


def _shortest(value: Decimal) -> Decimal:
    sign, digits, exponent = value.as_tuple()
    power = int(exponent)
    while digits[-1:] == (0,) and len(digits) > 1:
        digits, power = digits[:-1], power + 1
    return Decimal((sign, digits, power))


class Sameness:
    """Assigns equal keys to equal parts, all of which must outlive it."""

    __slots__ = ("_known", "_of")

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}
        self._of: dict[int, int] = {}

    def key(self, value: Json) -> Any:
        """Return a number for an array or an object, else a pair; the order of members does not matter."""
        todo = [value]
        while todo:
            piece = todo[-1]
            if not _is_container(piece) or id(piece) in self._of:
                todo.pop()
                continue
            inside = [
                each
                for each in (piece.values() if type(piece) is dict else piece)
                if _is_container(each) and id(each) not in self._of
            ]
            if inside:
                todo += inside
                continue
            self._of[id(piece)] = self._known.setdefault(self._content(piece), len(self._known))
            todo.pop()
        return self._shallow(value)

    def _content(self, piece: Json) -> Any:
        if type(piece) is dict:
            return frozenset((name, self._shallow(each)) for name, each in piece.items())
        return tuple(map(self._shallow, piece))

    def _shallow(self, value: Json) -> Any:
        return self._of[id(value)] if _is_container(value) else (type(value), str(value))


def _is_container(value: Json) -> bool:
    return type(value) is dict or type(value) is list
