"""The parser's limit and what it remembers."""

from __future__ import annotations

import pytest

from registry.domain.parsing.parser import (
    AHEAD_CHARACTERS_MAX,
    Parser,
    TooMuchText,
    characters_of,
    together,
    with_next,
)
from registry.domain.parsing.schema_queries import SchemaQuery, Source

TEXT = '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}'


def test_no_more_is_parsed_than_is_allowed() -> None:
    parser = Parser()
    parser.allow(len(TEXT) - 1)
    with pytest.raises(TooMuchText):
        parser.parse("AVRO", TEXT).canonical  # noqa: B018 (reading it raises)
    parser.allow(len(TEXT))
    assert parser.parse("AVRO", TEXT).canonical == TEXT
    with pytest.raises(TooMuchText):
        parser.parse("AVRO", '"int"').canonical  # noqa: B018 (as above)


def test_what_is_remembered_costs_nothing() -> None:
    parser = Parser()
    known = parser.parse("AVRO", TEXT)
    parser.allow(0)
    assert parser.parse("AVRO", TEXT) is known


def in_a_row(characters: int, *directions: int) -> TooMuchText:
    """What is asked of the first of eight schemas, and of the next ones with it."""

    def asked(number: int) -> TooMuchText:
        sources = [Source("AVRO", f"{number}{side}".ljust(characters)) for side in (0, 1)]
        pairs = [SchemaQuery("differences", sources[side], sources[1 - side]) for side in directions]
        return together([TooMuchText(each) for each in pairs])

    def ask(number: int) -> None:
        raise asked(number)

    return with_next(asked(0), iter(range(1, 8)), ask, 7)


def test_no_more_is_asked_ahead_than_may_be_read_at_once() -> None:
    most = AHEAD_CHARACTERS_MAX
    assert len(in_a_row(most // 100, 0).question.parts) == 8
    assert len(in_a_row(most // 8, 0).question.parts) == 4
    both_ways = in_a_row(most // 8, 0, 1).question
    assert len(both_ways.parts) == 4
    assert characters_of(both_ways) == most
    assert len(in_a_row(most, 0).question.parts) == 1
