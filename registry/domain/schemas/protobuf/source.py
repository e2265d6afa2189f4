"""The scanner of ``.proto`` texts, and the syntax of options and their values.

Its lexical rules are those of the parser that Confluent uses. They are more lenient than protobuf's own: a
name may contain a dash and a string a line break, and the context decides what a word is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from registry.domain.schemas.contract import GLANCE_MAX, Fingerprints, InvalidSchema, digest

from .model import MapType, Option, Value, Word

_BLANK: Final = r"[ \t\r\n]*+(?:(?>//[^\n]*|/\*[\s\S]*?\*/)[ \t\r\n]*+)*+"
# An unclosed string or comment takes all the rest, so that no text is searched twice.
_TOKEN: Final = re.compile(
    _BLANK + r"([A-Za-z0-9_.\-]+"
    r'|"(?:[^"\\]++|\\[\s\S])*+"|' + r"'(?:[^'\\]++|\\[\s\S])*+'"
    r"""|[/"'][\s\S]*|[\s\S]|\Z)"""
)
_ESCAPE: Final = re.compile(r"\\(?:[xX]([0-9A-Fa-f]{0,2})|([0-7]{1,3})|([\s\S]))")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_INT: Final = re.compile("-?[0-9]+|0[xX][0-9A-Fa-f]+")
# A number that certainly has 32 bits.
_SHORT_NUMBER: Final = re.compile("[0-9]{1,9}")
_DIGITS_MAX: Final = 1000
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_QUOTES: Final = frozenset("'\"")
# The words before names of constants and maps; the names of other fields follow their types.
_BEFORE_UNTYPED: Final = frozenset("{};>")
# The words before an option's name: `option name = 1` and `(custom) . name = 1`.
_BEFORE_OPTION: Final = frozenset({"option", "."})


def tokens(text: str) -> list[str]:
    """Return the words, strings and marks of a text, with an empty one at the end."""
    found: list[str] = _TOKEN.findall(text)
    found.append("")
    return found


def int32(word: str) -> int | None:
    """Return the 32-bit number of a word, decimal or hexadecimal."""
    # Python refuses to convert thousands of digits.
    if not _INT.fullmatch(word) or len(word) > _DIGITS_MAX:
        return None
    value = int(word, 16 if word[:2] in ("0x", "0X") else 10)
    return value if _INT_MIN <= value <= _INT_MAX else None


class Cursor:
    """A position in a text. All methods first skip blanks and comments, and raise :class:`InvalidSchema`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0

    def peek(self) -> str:
        """Return the next character without taking it; empty at the end."""
        token = self._tokens[self._at]
        if token[:1] == "/":
            raise self.error("unterminated comment" if token[1:2] == "*" else "unexpected '/'")
        return token[:1]

    def take(self, mark: str) -> bool:
        """Take the next character if it is ``mark``; return true if so."""
        if self._tokens[self._at] != mark:
            return False
        self._at += 1
        return True

    def need(self, mark: str) -> None:
        """Take ``mark``, which must come next."""
        if self._tokens[self._at] != mark:
            raise self.unexpected_token(f"expected '{mark}'")
        self._at += 1

    def word(self) -> str:
        """Return a word of letters, digits, dots, dashes and underscores."""
        token = self._tokens[self._at]
        if token[:1] not in WORD:
            raise self.unexpected_token("expected a word")
        self._at += 1
        return token

    def name(self) -> str:
        """Return a word that does not start with a digit."""
        word = self.word()
        if word[0].isdigit():
            raise self.error("field and constant names cannot start with a digit")
        return word

    def integer(self) -> int:
        """Return a 32-bit number, decimal or hexadecimal."""
        word = self.word()
        value = int32(word)
        if value is not None:
            return value
        raise self.error(f"expected an integer but was {word}")

    def numbered_name(self) -> tuple[str, int] | None:
        """Take ``name = number ;`` if it comes next without anything that takes a closer look."""
        found = self._tokens[self._at : self._at + 4]
        if len(found) < 4:
            return None
        name, equals, number, end = found
        if equals != "=" or end != ";" or not (name.isascii() and name.isidentifier()):
            return None
        if not _SHORT_NUMBER.fullmatch(number):
            return None
        self._at += 4
        return name, int(number)

    def type(self, word: str | None = None) -> str | MapType:
        """Return the type of a field; ``word`` is its first word, if already read."""
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
        """Return a quoted string; adjacent strings are joined."""
        parts: list[str] = []
        while self.peek() in _QUOTES:
            token = self._tokens[self._at]
            if self._tokens[self._at + 1] == "":
                raise self.error("unterminated string")  # or the end, where no string may be the last token
            self._at += 1
            inner = token[1:-1]
            parts.append(_ESCAPE.sub(self._unescape, inner) if "\\" in inner else inner)
        if not parts:
            raise self.unexpected_token("expected a string")
        return "".join(parts)

    def _unescape(self, found: re.Match[str]) -> str:
        hexadecimal, octal, other = found.groups()
        if other is not None:
            return _ESCAPES.get(other, other)
        if octal is not None:
            return chr(int(octal, 8))
        if not hexadecimal:
            raise self.error("expected a digit after \\x or \\X")
        return chr(int(hexadecimal, 16))

    def unexpected_token(self, wanted: str) -> InvalidSchema:
        """Return the error for an unexpected token."""
        found = self.peek()
        return self.error(f"{wanted} but was '{found}'" if found else "unexpected end of file")

    def error(self, message: str) -> InvalidSchema:
        """Return an error at the position after the last token."""
        return InvalidSchema(f"Syntax error in {self._place(self._last()[1])}: {message}")

    def unexpected_label(self, word: str) -> InvalidSchema:
        """Return the error for ``word``, the last token, at the position where it starts."""
        return InvalidSchema(f"Syntax error in {self._place(self._last()[0])}: unexpected label: {word}")

    def _last(self) -> tuple[int, int]:
        """Return the start and the end of the last token."""
        span = (0, 0)
        for _, found in zip(range(self._at), _TOKEN.finditer(self._text), strict=False):
            span = found.span()
        return span

    def _place(self, at: int) -> str:
        """Return ``:line:column``, both counted from 1."""
        before = self._text[:at]
        return f":{before.count(chr(10)) + 1}:{at - before.rfind(chr(10))}"


def outline(text: str) -> Fingerprints | None:
    """Return digests of the numbered names in the text, or None if that takes the parser.

    They are comparable with a schema's fingerprints: equal for texts with equal canonical texts, different
    for most others. The word before a name distinguishes fields and constants from options, so the name's
    context does not matter.
    """
    if len(text) > GLANCE_MAX or not (";" in text or "{" in text):
        return None  # a text with neither may be the Base64 of a descriptor
    words = tokens(text)
    if "extend" in words and "group" in words:
        return None  # the parser drops groups inside `extend`
    own = digest(sorted(_numbered_declarations(words)))
    return Fingerprints(own, own)


def _numbered_declarations(words: Sequence[str]) -> Iterator[str]:
    """Yield type, name and number of fields, groups and constants; no type for constants and maps."""
    at = -1
    for _ in range(words.count("=")):
        at = words.index("=", at + 1)
        if at < 2:
            continue
        kind, name, _, number = words[at - 2 : at + 2]
        if kind in _BEFORE_OPTION or name[0] not in WORD:
            continue
        if kind[0] not in WORD and kind not in _BEFORE_UNTYPED:
            continue
        yield f"{kind if kind[0] in WORD else ''} {name} {int32(number)}"


# Maximum nesting of values, the same as that of messages in protobuf.
_DEPTH_MAX: Final = 100


def in_brackets(source: Cursor) -> tuple[Option, ...]:
    """Return the options of ``[name = value, …]``, if that comes next."""
    if not source.take("["):
        return ()
    options = [read_option(source)]
    while not source.take("]"):
        if not source.take(","):
            raise source.error("Expected ',' or ']'")
        options.append(read_option(source))
    return tuple(options)


def statement(source: Cursor) -> Option:
    """Return the option after the word ``option``, reading the semicolon, too."""
    option = read_option(source)
    source.need(";")
    return option


def read_option(source: Cursor) -> Option:
    """Return the option of ``name = value``."""
    name, custom, nested = _name(source)
    source.need("=")
    value = _value(source, 0)
    return Option(name, Option(nested, value) if nested else value, custom)


def _name(source: Cursor) -> tuple[str, bool, str]:
    custom = source.peek() == "("
    name = _wrap(source)
    nested = ""
    if custom and source.peek() == ".":
        # The scanner reads the dot after a closing bracket as the start of a word.
        nested = source.word()[1:] or _wrap(source)
    return name, custom, nested


def _wrap(source: Cursor) -> str:
    for start, end in ("()", "[]"):
        if source.take(start):
            word = source.word()
            source.need(end)
            return word if start == "(" else f"[{word}]"
    return source.word()


def _value(source: Cursor, depth: int) -> Value:
    if depth > _DEPTH_MAX:
        raise source.error(f"values are nested more than {_DEPTH_MAX} deep")
    match source.peek():
        case "{":
            return _message(source, depth + 1)
        case "[":
            return _list(source, depth + 1)
        case '"' | "'":
            return source.string()
        case _:
            return Word(source.word())


def _list(source: Cursor, depth: int) -> Value:
    source.need("[")
    values: list[Value] = []
    while not source.take("]"):
        values.append(_value(source, depth))
        if not source.take(",") and source.peek() != "]":
            raise source.error("expected ',' or ']'")
    return tuple(values)


def _message(source: Cursor, depth: int) -> Value:
    """Return a message; members of the same name become a list, like a repeated field."""
    source.need("{")
    members: dict[str, Value] = {}
    several: dict[str, list[Value]] = {}
    while not source.take("}"):
        name, _, nested = _name(source)
        if source.peek() != "{":
            source.need(":")
        value = _value(source, depth)
        if nested:
            value = {nested: value}
        if name not in members:
            members[name] = value
        else:
            several.setdefault(name, _as_list(members[name])).extend(_as_list(value))
        if not source.take(","):
            source.take(";")
    return members | {name: tuple(values) for name, values in several.items()}


def _as_list(value: Value) -> list[Value]:
    return list(value) if isinstance(value, tuple) else [value]
