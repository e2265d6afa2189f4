"""A format that only the tests have: a schema is a list of words, and a message one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Final

from registry.domain.schemas import (
    About,
    Budget,
    Change,
    Dependency,
    Difference,
    Entity,
    Fingerprints,
    InvalidSchema,
    Schema,
    Tagged,
)
from registry.domain.schemas.comparing import Comparing, Side
from registry.domain.schemas.logical.reading import NotLogical
from registry.domain.schemas.logical.types import Type

# A package's folder with the decoder of messages, ``words``.
DECODERS: Final = Path(__file__).parent / "word_decoder"


class Words:
    """A set of words; ``+`` and a name adds those of a dependency."""

    def __init__(self, words: list[str], known: frozenset[str]) -> None:
        self.canonical: Final = " ".join(words)
        self.words: Final = frozenset(words) | known

    @property
    def normalized(self) -> str:
        return " ".join(sorted(set(self.canonical.split())))

    def equivalent(self, other: Schema) -> bool:
        return isinstance(other, Words) and self.normalized == other.normalized

    def fingerprints(self) -> Fingerprints:
        own = self.normalized.encode()
        return Fingerprints(own, own)

    def text_in(self, format: str) -> str:
        return self.canonical.upper() if format.lower() == "loud" else self.canonical

    def field_names(self) -> frozenset[str]:
        return self.words

    def check(self) -> None:
        pass

    def check_fields(self) -> None:
        if "$$" in self.words:
            raise InvalidSchema("no money here")

    def tags(self) -> list[Tagged]:
        return [
            (Entity(word[1:], "sr_field"), ("loud",)) for word in self.canonical.split() if word[0] == "*"
        ]

    def logical(self, budget: Budget) -> Type:
        raise NotLogical("words have no columns")

    def retag(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        loud = {entity.path for entity, _ in add}
        return " ".join(f"*{word}" if word in loud else word for word in self.canonical.split())


class WordFormat(Comparing[Words]):
    """Return the differences: readers have to know every word of the writer."""

    name: Final = "WORDS"
    about: Final = About("Words", ".words", sample="order number", decoder="words")

    def parse(self, text: str, dependencies: Sequence[Dependency] = (), *, new: bool = False) -> Words:
        if new and "!" in text:
            raise InvalidSchema("do not shout")
        known = {each.name: frozenset(each.text.split()) for each in dependencies}
        words = text.split()
        missing = [word for word in words if word.startswith("+") and word[1:] not in known]
        if missing:
            raise InvalidSchema(f"unknown {missing[0]}")
        return Words(words, frozenset().union(*known.values()))

    def own(self, schema: Schema) -> Words | None:
        return schema if isinstance(schema, Words) else None

    def compare(
        self, writer: Words, reader: Words, reader_is: Side, budget: Budget, policy: str
    ) -> list[Difference]:
        missing = sorted(writer.words - reader.words)
        return [Difference("WORD_MISSING", f"#/{word}", f"{reader_is} lacks {word}") for word in missing]

    def explain(
        self, writer: Words, reader: Words, reader_is: Side, budget: Budget, policy: str, *, lines: bool
    ) -> list[Change]:
        return [
            Change(each[0], each[1], False, each[2], None, None, "say it")
            for each in map(astuple, self.compare(writer, reader, reader_is, budget, policy))
        ]
