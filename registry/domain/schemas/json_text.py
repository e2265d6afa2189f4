"""JSON text as Jackson reads and prints it, whatever its depth and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

import orjson

from .contract import InvalidSchema

Json = Any
# Jackson's limit on the characters of a number (``StreamReadConstraints``).
MAX_NUMBER: Final = 1000

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_BLANKS_AND_COMMENTS: Final = re.compile(r"(?:[ \t\r\n]+|/\*[\s\S]*?\*/|//[^\r\n]*)*")
_TOKEN: Final = re.compile(
    r'(?P<string>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?P<part>\.[0-9]+)?(?P<power>[eE][+-]?[0-9]+)?)"
    r"|(?P<word>true|false|null|NaN|[+-]?Infinity|[+-]?INF)|(?P<mark>[\[\]{}:,])"
)
# The values of JSON's words.
WORDS: Final[Mapping[str, Json]] = {"true": True, "false": False, "null": None}


def too_deep(depth_max: int) -> InvalidSchema:
    """Return the error for a text that nests more than ``depth_max`` arrays and objects."""
    return InvalidSchema(f"Document nesting depth exceeds the maximum allowed ({depth_max})")


class Scanner:
    """One pass over the text. Open containers are on a list, so nesting cannot exhaust the stack."""

    __slots__ = ("_depth_max", "_read_number", "_skip", "_words", "at", "text")

    def __init__(
        self,
        text: str,
        depth_max: int,
        number: Callable[[re.Match[str]], Json],
        *,
        words: Mapping[str, Json] = WORDS,
        comments: bool = False,
    ) -> None:
        """``number`` converts a token with the groups ``number``, ``part`` and ``power`` to a value.

        ``words``: those of JSON, and names for NaN and infinity where these are accepted.
        """
        self.text = text
        self.at = 0
        self._depth_max = depth_max
        self._read_number = number
        self._words = words
        self._skip = _BLANKS_AND_COMMENTS if comments else _BLANKS

    def document(self) -> Json:
        """Return the value at the start of the text, ignoring the rest. Raises :class:`InvalidSchema`."""
        token = self._next()
        if token is None:
            raise InvalidSchema("Cannot parse <null> schema")
        open_values: list[Json] = []
        root = self._value(token, open_values)
        while open_values:
            if type(open_values[-1]) is dict:
                self._member(open_values)
            else:
                self._element(open_values)
        return root

    def _next(self) -> re.Match[str] | None:
        """Return the next token; None at the end of the text."""
        skipped = self._skip.match(self.text, self.at)
        start = skipped.end() if skipped else self.at
        if start >= len(self.text):
            self.at = start
            return None
        token = _TOKEN.match(self.text, start)
        if token is None:
            raise self._unexpected_token(start)
        self.at = token.end()
        return token

    def _require(self) -> re.Match[str]:
        token = self._next()
        if token is None:
            raise InvalidSchema("Unexpected end-of-input")
        return token

    def _value(self, token: re.Match[str], open_values: list[Json]) -> Json:
        if token.lastgroup == "string":
            return self._string(token)
        if token["word"] is not None:
            if token["word"] not in self._words:
                raise self._unexpected_token(token.start())
            return self._words[token["word"]]
        if token["number"] is not None:
            return self._number(token)
        if token["mark"] not in "[{":
            raise self._unexpected_token(token.start())
        value: Json = [] if token["mark"] == "[" else {}
        open_values.append(value)
        if len(open_values) > self._depth_max:
            raise too_deep(self._depth_max)
        return value

    def _member(self, open_values: list[Json]) -> None:
        members = open_values[-1]
        token = self._next_after_comma(bool(members), "}")
        if token is None:
            open_values.pop()
            return
        if token["string"] is None:
            raise self._unexpected_token(token.start())
        name = self._string(token)
        colon = self._require()
        if colon["mark"] != ":":
            raise self._unexpected_token(colon.start())
        members[name] = self._value(self._require(), open_values)

    def _element(self, open_values: list[Json]) -> None:
        elements = open_values[-1]
        token = self._next_after_comma(bool(elements), "]")
        if token is None:
            open_values.pop()
        else:
            elements.append(self._value(token, open_values))

    def _next_after_comma(self, follows: bool, end: str) -> re.Match[str] | None:
        """Return the first token of the next element, after its comma; None at the end of the container."""
        token = self._require()
        if token["mark"] == end:
            return None
        if not follows:
            return token
        if token["mark"] != ",":
            raise self._unexpected_token(token.start())
        return self._require()

    def _string(self, token: re.Match[str]) -> str:
        try:
            return str(orjson.loads(token["string"]))
        except orjson.JSONDecodeError as error:
            raise InvalidSchema(f"Illegal string at character {token.start()}: {error.msg}") from None

    def _number(self, token: re.Match[str]) -> Json:
        digits = token["number"]
        if len(digits) > MAX_NUMBER:
            raise InvalidSchema(
                f"Number value length ({len(digits)}) exceeds the maximum allowed ({MAX_NUMBER})"
            )
        return self._read_number(token)

    def _unexpected_token(self, at: int) -> InvalidSchema:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        found = self.text[at : at + 20].split()
        return InvalidSchema(
            f"Unexpected {found[0] if found else 'character'!r} at line {line}, column {column}"
        )


# Longest quotation of a schema in a message.
MAX_SHOWN: Final = 10_240

# The rest of each open array and object, with its closing mark.
_Stack: TypeAlias = list[tuple[Iterator[tuple[str, Json]], str]]

_CONTROLS: Final = {i: f"\\u{i:04X}" for i in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
}


def quote_json(text: str) -> str:
    r"""Return a JSON string. Control characters without a short form become ``\u001F``, in upper case."""
    done: str = encode_basestring(text)
    return done if "\\u00" not in done else f'"{text.translate(_CONTROLS)}"'


def double(value: float) -> str:
    """Return ``Double.toString`` of Java 19 and later: the shortest digits; NaN and infinity quoted."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    sign = "-" if repr(value)[0] == "-" else ""
    digits, point = _digits(abs(value))
    if not digits:
        return f"{sign}0.0"
    if not -3 < point < 8:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def _digits(value: float) -> tuple[str, int]:
    """Return a positive number's shortest digits, stripped of zeros, and the position of the point."""
    text = repr(value)
    mantissa, _, power = text.partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + part) - len(digits))
    digits = digits.rstrip("0")
    # Java prints two digits if one would do, the nearest two: 4.9E-324, which is 5e-324 in Python.
    nearest = f"{value:.1e}"
    if len(digits) == 1 and float(nearest) == value:
        return nearest[:3].replace(".", "").rstrip("0"), int(nearest[4:]) + 1
    return digits, point


def _scalar(value: Json) -> str | None:
    if type(value) is str:
        return quote_json(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return double(value)
    if type(value) is Decimal:
        return str(value)  # as Java's BigDecimal prints it: 1.50, 1E+2
    if not value:
        return "{}" if type(value) is dict else "[]"
    return None


def print_json(value: Json) -> str:
    """Return any JSON value as text, members in their order."""
    simple = _scalar(value)
    if simple is not None:
        return simple
    out: list[str] = []
    stack: _Stack = []
    _open(value, out, stack)
    while stack:
        members, end = stack[-1]
        for prefix, member in members:
            out.append(prefix)
            text = _scalar(member)
            if text is None:
                _open(member, out, stack)
                break
            out.append(text)
        else:
            stack.pop()
            out.append(end)
    return "".join(out)


def clip(text: str) -> str:
    """Return ``text`` shortened for a message."""
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _open(value: Json, out: list[str], stack: _Stack) -> None:
    if type(value) is dict:
        out.append("{")
        stack.append((_members(value), "}"))
    else:
        out.append("[")
        stack.append((_elements(value), "]"))


def _members(value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    comma = ""
    for name, member in value.items():
        yield f"{comma}{quote_json(name)}:", member
        comma = ","


def _elements(value: list[Json]) -> Iterator[tuple[str, Json]]:
    comma = ""
    for element in value:
        yield comma, element
        comma = ","
