"""The words of DDL: its tokens, which of them are names, and the errors that point at one (Confluent 8.4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from registry.domain.schemas.contract import Budget, InvalidSchema

_TOKEN: Final = re.compile(
    r"(?P<skipped>(?>[ \t\r\n]+|//[^\r\n]*|/\*(?s:.*?)\*/)+)"
    r"|(?P<bytes>[xX]'(?>[^']|'')*')"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<quoted>`(?>[^`]|``)*`)"
    r"|(?P<string>'(?>[^']|'')*')"
    r"|(?P<number>(?>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<mark><>|<=|>=|!=|\|\||[;,()<>=.+*/%\[\]-])"
)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that are names only in back-quotes.
_RESERVED: Final = frozenset(
    """AND ANY ARRAY AS BETWEEN BIGINT BINARY BOOLEAN BOTH BYTES CASE CAST CHAR CHARACTER CHECK COALESCE
    COMMENT CONSTRAINT CURRENT_TIMESTAMP DATE DEC DECIMAL DEFAULT DOUBLE ELSE END ESCAPE EVERY EXTRACT
    FALSE FLOAT FOR FROM IN INT INTEGER IS LEADING LIKE LOCAL MESSAGE MULTISET NOT NULL NUMERIC OR
    POSITION PRECISION REAL RETURNING ROW SMALLINT STRING STRUCT SUBSTRING SYMMETRIC THEN TIME TIMESTAMP
    TIMESTAMP_LTZ TINYINT TRAILING TRIM TRUE TRY_VARIANT_GET UNION USING VARBINARY VARCHAR VARIANT_GET
    VARYING WHEN WITH
    WITHOUT""".split()  # noqa: SIM905 (one word after the other is easier to read)
)
# Numbers of more digits could take long to convert.
_NUMBER_MAX: Final = 1000
_SHOWN_MAX: Final = 200


class Token(NamedTuple):
    """A token: its kind, its text as written, and its position in characters."""

    # ``word``, ``quoted``, ``string``, ``bytes``, ``number``, ``mark``, or ``end`` after the last one.
    kind: str
    text: str
    at: int
    # A word in capitals, or a mark; empty for all else.
    word: str = ""

    @property
    def value(self) -> str:
        """The text of a string or a name, without quotes."""
        if self.kind in ("string", "quoted"):
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text

    @property
    def is_name(self) -> bool:
        """True if the token can be a name."""
        return self.kind == "quoted" or (self.kind == "word" and self.word not in _RESERVED)


class Tokens:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str, budget: Budget) -> None:
        """Raises :class:`InvalidSchema` for a character that begins no token."""
        self.text: Final = text
        self.all: Final = [*_tokens(text, budget)]
        self.at = 0

    @property
    def next(self) -> Token:
        """The next token, which is not taken."""
        return self.all[self.at]

    def sees(self, *words: str) -> bool:
        """Return true if the next tokens are these words or marks."""
        if self.all[self.at].word != words[0]:
            return False
        coming = self.all[self.at : self.at + len(words)]
        return len(coming) == len(words) and all(
            each.word == word for each, word in zip(coming, words, strict=True)
        )

    def take(self, *words: str) -> bool:
        """Take the next tokens if they are these words or marks; return true if so."""
        found = self.sees(*words)
        if found:
            self.at += len(words)
        return found

    def need(self, word: str, *others: str) -> str:
        """Take one of these words or marks, which must come next, and return it."""
        found = self.next.word
        if found not in (word, *others):
            raise self.mismatch(word, *others)
        self.at += 1
        return found

    def string(self) -> str:
        """Take a string and return its text."""
        if self.next.kind != "string":
            raise self.mismatch("STRING_LITERAL")
        self.at += 1
        return self.all[self.at - 1].value

    def name(self) -> str:
        """Take a name."""
        if not self.next.is_name:
            raise self.mismatch("ID", "QUOTED_ID")
        self.at += 1
        return self.all[self.at - 1].value

    def full_name(self) -> str:
        """Take a name with dots."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return ".".join(parts)

    def mismatch(self, *expected: str) -> InvalidSchema:
        """Return the error for the next token, in words like those of ANTLR."""
        shown = [each if re.fullmatch("[A-Za-z_ <>]{2,}", each) else f"'{each}'" for each in expected]
        wanted = shown[0] if len(shown) == 1 else f"{{{', '.join(shown)}}}"
        found = self.next.text[:_SHOWN_MAX] if self.next.kind != "end" else "<EOF>"
        return InvalidSchema(
            f"Parse error at {self.place(self.next)}: mismatched input '{found}' expecting {wanted}"
        )

    def place(self, token: Token) -> str:
        """Return the line and column of a token, from 1."""
        return _place(self.text, token.at)


def _place(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, col {at - text.rfind(chr(10), 0, at)}"


def _tokens(text: str, budget: Budget) -> Iterator[Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            shown = text[at : at + 20]
            raise InvalidSchema(f"Parse error at {_place(text, at)}: token recognition error at: '{shown}'")
        budget.spend()
        kind = str(found.lastgroup)
        if kind == "number" and found.end() - at > _NUMBER_MAX:
            raise InvalidSchema(
                f"Parse error at {_place(text, at)}: numbers have at most {_NUMBER_MAX} characters"
            )
        if kind != "skipped":
            written = found[0]
            word = written.upper() if kind == "word" else written if kind == "mark" else ""
            yield Token(kind, written, at, word)
        at = found.end()
    yield Token("end", "", len(text))


def identifier(name: str) -> str:
    """Return a name as DDL reads it, in back-quotes where it needs them."""
    if _WORD.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def quote(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def root_name(subject: str) -> str:
    """Return a subject as the name of a root that has none (Confluent 8.4)."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", subject)
    return name if _WORD.fullmatch(name) else f"Envelope{name}"
