"""An additional schema type is one object that implements the contract: every resource serves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Final

import pytest

from registry.domain.schemas import (
    FORMATS,
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
from tests.api.driver import Api


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

    def formatted(self, format: str) -> str:
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

    def retagged(self, add: Sequence[Tagged], remove: Sequence[Tagged], also: Sequence[Tagged] = ()) -> str:
        loud = {entity.path for entity, _ in add}
        return " ".join(f"*{word}" if word in loud else word for word in self.canonical.split())


class WordFormat(Comparing[Words]):
    """Return the differences: readers have to know every word of the writer."""

    name: Final = "WORDS"

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

    def compared(
        self, writer: Words, reader: Words, reader_is: Side, budget: Budget, policy: str
    ) -> list[Difference]:
        missing = sorted(writer.words - reader.words)
        return [Difference("WORD_MISSING", f"#/{word}", f"{reader_is} lacks {word}") for word in missing]

    def explained(
        self, writer: Words, reader: Words, reader_is: Side, budget: Budget, policy: str, *, lines: bool
    ) -> list[Change]:
        return [
            Change(each[0], each[1], False, each[2], None, None, "say it")
            for each in map(astuple, self.compared(writer, reader, reader_is, budget, policy))
        ]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setitem(FORMATS, "WORDS", WordFormat())
    with Api() as api:
        yield api


def body(text: str, **members: object) -> dict[str, object]:
    return {"schema": text, "schemaType": "WORDS", **members}


def test_it_is_served_by_every_resource(api: Api) -> None:
    assert api.get("/schemas/types").json[-1] == "WORDS"
    first = api.post("/subjects/s/versions", body(" one  two "))
    assert (first.json["schema"], first.json["schemaType"]) == ("one two", "WORDS")
    assert api.get("/schemas/ids/1").json["schema"] == "one two"
    assert api.get("/schemas/ids/1/schema?format=loud").body == b"ONE TWO"
    assert api.get("/subjects/s/versions/1?format=loud").json["schema"] == "ONE TWO"
    assert api.post("/subjects/s", body("two one")).json["version"] == 1
    assert api.post("/subjects/n/versions?normalize=true", body("two one")).json["schema"] == "one two"


def test_it_is_held_to_its_own_rules(api: Api) -> None:
    assert api.post("/subjects/s/versions", body("one!")).error[:2] == (422, 42201)
    api.post("/subjects/s/versions", body("one"))
    assert api.post("/subjects/s/versions", body("one two")).status == 200
    refused = api.post("/subjects/s/versions", body("two"))
    assert "details: [new lacks one, {oldSchemaVersion: 2}" in refused.error[2]
    check = api.post("/compatibility/subjects/s/versions/2?verbose=true", body("two three"))
    assert check.json["messages"][0] == "new lacks one"
    api.put("/config/s", {"compatibility": "FORWARD"})
    check = api.post("/compatibility/subjects/s/versions/2?verbose=true", body("one two three"))
    assert check.json["messages"][0] == "old lacks three"
    api.put("/config", {"validateFields": True})
    assert "no money here" in api.post("/subjects/t/versions", body("$$")).error[2]


def test_it_refers_to_others(api: Api) -> None:
    api.post("/subjects/base/versions", body("one"))
    listed = [{"name": "base", "subject": "base", "version": 1}]
    assert api.post("/subjects/s/versions", body("+base two")).error[:2] == (422, 42201)
    assert api.post("/subjects/s/versions", body("+base two", references=listed)).status == 200
    assert api.get("/subjects/base/versions/1/referencedby").json == [2]


def test_its_parts_carry_tags(api: Api) -> None:
    api.post("/subjects/s/versions", body("one two"))
    tags = [{"schemaEntity": {"entityPath": "two", "entityType": "sr_field"}, "tags": ["loud"]}]
    api.put("/config/s", {"compatibility": "NONE"})
    assert api.post("/subjects/s/versions/1/tags", {"tagsToAdd": tags}).json["schema"] == "one *two"
    assert api.get("/subjects/s/versions/2?findTags=loud").json["schemaTags"] == tags
