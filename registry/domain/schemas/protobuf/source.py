"""A ``.proto`` text read word by word.

The lexical rules are those of the parser that Confluent uses, which is more lenient than protobuf's own: a
name may hold a dash, a string a line break, and what stands in a place decides what it is.
"""

from __future__ import annotations

import re
from typing import Final

from registry.domain.schemas.contract import InvalidSchema

from .model import MapType

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*[\s\S]*?\*/)*")
_WORD: Final = re.compile(r"[A-Za-z0-9_.\-]+")
_PLAIN: Final = {quote: re.compile(rf"[^{quote}\\]*") for quote in "\"'"}
_OCTAL: Final = re.compile("[0-7]{1,3}")
_HEX: Final = re.compile("[0-9A-Fa-f]{1,2}")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INT: Final = re.compile("-?[0-9]+|0[xX][0-9A-Fa-f]+")
_DIGITS_MAX: Final = 1000
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


class Source:
    """A position in a text. All methods skip blanks and comments first, and raise :class:`InvalidSchema`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def peek(self) -> str:
        """The next character, which stays; empty at the end."""
        self._at = at = _end(_BLANK, self._text, self._at)
        next_one = self._text[at : at + 1]
        if next_one == "/":
            closed = not self._text.startswith("/*", at)
            raise self.error("unexpected '/'" if closed else "unterminated comment")
        return next_one

    def take(self, mark: str) -> bool:
        """Whether the next character is ``mark``; if so, it is behind now."""
        if self.peek() != mark:
            return False
        self._at += 1
        return True

    def need(self, mark: str) -> None:
        """Read exactly ``mark``."""
        if not self.take(mark):
            raise self.unexpected(f"expected '{mark}'")

    def word(self) -> str:
        """Letters, digits, dots, dashes and underscores."""
        self.peek()
        found = _WORD.match(self._text, self._at)
        if found is None:
            raise self.unexpected("expected a word")
        self._at = found.end()
        return found.group()

    def name(self) -> str:
        """A word that does not start with a digit."""
        word = self.word()
        if word[0].isdigit():
            raise self.error("field and constant names cannot start with a digit")
        return word

    def integer(self) -> int:
        """A number of 32 bits, decimal or hexadecimal."""
        word = self.word()
        # Python refuses to read thousands of digits.
        if _INT.fullmatch(word) and len(word) <= _DIGITS_MAX:
            value = int(word, 16 if word[:2] in ("0x", "0X") else 10)
            if _INT_MIN <= value <= _INT_MAX:
                return value
        raise self.error(f"expected an integer but was {word}")

    def type(self, word: str | None = None) -> str | MapType:
        """The type of a field, whose first word may have been read already."""
        word = self.word() if word is None else word
        if word != "map":
            return word
        self.need("<")
        key = self.word()
        self.need(",")
        value = self.word()
        self.need(">")
        return MapType(key, value)

    def string(self) -> str:
        """A quoted string; several in a row are one."""
        parts: list[str] = []
        if self.peek() not in ("'", '"'):
            raise self.unexpected("expected a string")
        while self.peek() in ("'", '"'):
            self._quoted(parts)
        return "".join(parts)

    def _quoted(self, parts: list[str]) -> None:
        quote, text = self._text[self._at], self._text
        self._at += 1
        while True:
            end = _end(_PLAIN[quote], text, self._at)
            parts.append(text[self._at : end])
            self._at = end + 1
            if end == len(text):
                raise self.error("unterminated string")
            if text[end] == quote:
                return
            parts.append(self._escape())

    def _escape(self) -> str:
        escaped = self._text[self._at : self._at + 1]
        if escaped in "xX" and escaped:
            digits, base, start = _HEX, 16, self._at + 1
        elif escaped in "01234567" and escaped:
            digits, base, start = _OCTAL, 8, self._at
        else:
            self._at += 1
            return _ESCAPES.get(escaped, escaped)
        found = digits.match(self._text, start)
        if found is None:
            raise self.error("expected a digit after \\x or \\X")
        self._at = found.end()
        return chr(int(found.group(), base))

    def unexpected(self, wanted: str) -> InvalidSchema:
        """The refusal of what comes next."""
        found = self.peek()
        return self.error(f"{wanted} but was '{found}'" if found else "unexpected end of file")

    def error(self, message: str) -> InvalidSchema:
        """A refusal that names the line and the column, both counted from 1."""
        return InvalidSchema(f"Syntax error in {self.place()}: {message}")

    def place(self) -> str:
        """``:line:column`` of the position."""
        before = self._text[: self._at]
        return f":{before.count(chr(10)) + 1}:{self._at - before.rfind(chr(10))}"


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()
