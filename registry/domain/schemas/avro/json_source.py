"""Schema text to JSON values, accepting exactly what Avro's parser (Jackson, with comments allowed) accepts.

orjson does the work. It is stricter about comments, infinite numbers and blanks after the document, and turns
integers beyond 64 bits into floats; :func:`read_exactly` is for those texts.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from registry.domain.schemas.contract import InvalidSchema

from .model import Json

MAX_DEPTH: Final = 1000
"""Jackson's limit on nested arrays and objects (``StreamReadConstraints``)."""

_MAX_NUMBER: Final = 1000
_BIG: Final = float(2**63)
_BLANKS: Final = "".join(map(chr, range(0x21)))
_SKIP: Final = re.compile(r"(?:[ \t\r\n]+|/\*[\s\S]*?\*/|//[^\r\n]*)*")
_TOKEN: Final = re.compile(
    r'(?P<string>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?P<part>\.[0-9]+)?(?P<power>[eE][+-]?[0-9]+)?)"
    r"|(?P<word>true|false|null)|(?P<mark>[\[\]{}:,])"
)
_WORDS: Final[dict[str, Json]] = {"true": True, "false": False, "null": None}


def read(text: str) -> Json:
    """The JSON value of a schema's text. Raises :class:`InvalidSchema`."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return read_exactly(text)
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _too_deep()
    return value


def _too_deep() -> InvalidSchema:
    return InvalidSchema(f"Document nesting depth exceeds the maximum allowed ({MAX_DEPTH})")


def is_exact(value: Json) -> bool:
    """False where the value holds a number that orjson may have read as a float although it is an integer."""
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
    """As :func:`read`, token by token: comments are skipped, integers keep every digit."""
    scanner = _Scanner(text)
    value = scanner.document()
    rest = text[scanner.at :].strip(_BLANKS)
    if rest:
        raise InvalidSchema(f"dangling content after end of schema: {rest[:200]}")
    return value


def _children(value: Json) -> Any:
    return value.values() if type(value) is dict else value


def _depth(value: Json) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if type(item) is list or type(item) is dict]:
        depth += 1
        level = [child for item in level for child in _children(item)]
    return depth


class _Scanner:
    """One pass over the text; open arrays and objects are on a list, so depth is counted, not suffered."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Json:
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
        """The next token; None at the end of the text."""
        skipped = _SKIP.match(self.text, self.at)
        start = skipped.end() if skipped else self.at
        if start >= len(self.text):
            self.at = start
            return None
        token = _TOKEN.match(self.text, start)
        if token is None:
            raise self._unexpected(start)
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
            return _WORDS[token["word"]]
        if token["number"] is not None:
            return self._number(token)
        if token["mark"] not in "[{":
            raise self._unexpected(token.start())
        value: Json = [] if token["mark"] == "[" else {}
        open_values.append(value)
        if len(open_values) > MAX_DEPTH:
            raise _too_deep()
        return value

    def _member(self, open_values: list[Json]) -> None:
        members = open_values[-1]
        token = self._separated(bool(members), "}")
        if token is None:
            open_values.pop()
            return
        if token["string"] is None:
            raise self._unexpected(token.start())
        name = self._string(token)
        colon = self._require()
        if colon["mark"] != ":":
            raise self._unexpected(colon.start())
        members[name] = self._value(self._require(), open_values)

    def _element(self, open_values: list[Json]) -> None:
        elements = open_values[-1]
        token = self._separated(bool(elements), "]")
        if token is None:
            open_values.pop()
        else:
            elements.append(self._value(token, open_values))

    def _separated(self, follows: bool, end: str) -> re.Match[str] | None:
        """The first token of the next element, behind its comma; None at the end of the array or object."""
        token = self._require()
        if token["mark"] == end:
            return None
        if not follows:
            return token
        if token["mark"] != ",":
            raise self._unexpected(token.start())
        return self._require()

    def _string(self, token: re.Match[str]) -> str:
        try:
            return str(orjson.loads(token["string"]))
        except orjson.JSONDecodeError as error:
            raise InvalidSchema(f"Illegal string at character {token.start()}: {error.msg}") from None

    def _number(self, token: re.Match[str]) -> int | float:
        digits = token["number"]
        if len(digits) > _MAX_NUMBER:
            raise InvalidSchema(
                f"Number value length ({len(digits)}) exceeds the maximum allowed ({_MAX_NUMBER})"
            )
        return int(digits) if token["part"] is None and token["power"] is None else float(digits)

    def _unexpected(self, at: int) -> InvalidSchema:
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        found = self.text[at : at + 20].split()
        return InvalidSchema(
            f"Unexpected {found[0] if found else 'character'!r} at line {line}, column {column}"
        )
