"""A JSON scanner for texts that nest deeper, or hold other numbers, than fast parsers accept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

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
