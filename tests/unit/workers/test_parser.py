"""Attempts at computations that query schemas: their limits, their missing answers, and the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import pytest

from registry.domain.errors import UNPROCESSABLE, RegistryError
from registry.domain.parsing.parser import AHEAD_CHARACTERS_MAX, Parser
from registry.domain.parsing.querying import (
    Paused,
    Querying,
    Unanswered,
    canonical,
    equivalent,
    field_differences,
    first,
    pause,
    together,
)
from registry.domain.parsing.schema_queries import PAUSE, SchemaAnswer, SchemaQuery, Source

TEXT = '{"type":"record","name":"R","fields":[{"name":"f","type":"int"}]}'
RECORD, INT = Source("AVRO", TEXT), Source("AVRO", '"int"')


def test_no_more_is_parsed_than_is_allowed() -> None:
    def both() -> Querying[list[str]]:
        return [(yield from canonical(RECORD)), (yield from canonical(INT))]

    assert Parser().attempt(both(), len(TEXT) - 1, math.inf) == Unanswered(SchemaQuery("canonical", RECORD))
    assert Parser().attempt(both(), len(TEXT), math.inf) == Unanswered(SchemaQuery("canonical", INT))
    assert Parser().attempt(both(), len(TEXT) + 5, math.inf) == [TEXT, '"int"']


def test_what_is_remembered_costs_nothing() -> None:
    parser = Parser()
    parser.read(RECORD)
    assert parser.attempt(canonical(RECORD), 0, 0) == TEXT


def test_memory_counts_what_an_answer_shows_of_each_field() -> None:
    """Paths repeat the names of what they lead through, so an answer may be much longer than its texts."""
    fields = ",".join(f'{{"name":"f{number}","type":"int"}}' for number in range(100))
    inner = f'{{"type":"record","name":"I","fields":[{fields}]}}'
    wide = f'{{"type":"record","name":"R","fields":[{{"name":"{"n" * 400}","type":{inner}}}]}}'
    steps = partial(field_differences, Source("AVRO", wide), INT, 1000)
    for bytes_max, is_kept in ((80_000, False), (800_000, True)):
        parser = Parser(bytes_max)
        assert not isinstance(parser.attempt(steps(), len(wide) + 5, 0), Unanswered)
        assert isinstance(parser.attempt(steps(), 0, 0), Unanswered) != is_kept


def in_a_row(characters: int, *directions: int) -> Unanswered:
    """Return the queries about the first of eight schemas, and about the next ones with it."""

    def asked(number: int) -> Querying[None]:
        sources = [Source("AVRO", f"{number}{side}".ljust(characters)) for side in (0, 1)]
        yield from together([equivalent(sources[side], sources[1 - side]) for side in directions])

    known = {SchemaQuery("check", INT._replace(text=str(each))): SchemaAnswer(None) for each in range(7)}
    lacking = Parser().attempt(first(asked(number) for number in range(8)), 0, 0, known)
    assert isinstance(lacking, Unanswered)
    return lacking


def test_no_more_is_asked_ahead_than_may_be_read_at_once() -> None:
    most = AHEAD_CHARACTERS_MAX
    assert len(in_a_row(most // 100, 0).query.parts) == 8
    assert len(in_a_row(most // 8, 0).query.parts) == 4
    both_ways = in_a_row(most // 8, 0, 1).query
    assert len(both_ways.parts) == 4
    assert both_ways.characters == most
    assert len(in_a_row(most, 0).query.parts) == 1


def test_what_lacks_an_answer_keeps_no_other_from_saying_what_it_lacks() -> None:
    ran: list[str] = []

    def effect(source: Source) -> Querying[str]:
        text = yield from canonical(source)
        ran.append(text)
        return text

    def steps() -> Iterator[Querying[str]]:
        return (effect(each) for each in (RECORD, INT, RECORD._replace(new=True)))

    lacking = Parser().attempt(together(steps(), "Too long"), len(INT.text), 0)
    assert lacking == Unanswered(lacking.query, "Too long")
    assert [each.source for each in lacking.query.parts] == [RECORD, RECORD._replace(new=True)]
    assert ran == ['"int"']
    assert Parser().run(together(steps())) == [TEXT, '"int"', TEXT]


def test_an_error_after_what_lacks_an_answer_waits_for_that() -> None:
    def fail() -> Querying[str]:
        yield from pause()
        raise UNPROCESSABLE("no")

    steps = [canonical(INT), fail()]
    assert Parser().attempt(together(steps), 0, 0) == Unanswered(SchemaQuery("canonical", INT))
    with pytest.raises(RegistryError):
        Parser().run(together([canonical(INT), fail()]))


def test_a_pause_ends_an_attempt_unless_the_computation_does_without() -> None:
    def patient() -> Querying[str]:
        yield from pause()
        return "done"

    def hasty() -> Querying[str]:
        try:
            return (yield from patient())
        except Paused:
            return "left"

    assert Parser().run(patient()) == Parser().run(hasty()) == "done"
    assert Parser().attempt(patient(), 0, 0) == Unanswered(PAUSE)
    assert Parser().attempt(hasty(), 0, 0) == "left"


def test_what_a_computation_does_when_it_is_over_is_done_before_the_attempt_returns() -> None:
    over: list[bool] = []

    def steps() -> Querying[str]:
        try:
            return (yield from canonical(INT))
        finally:
            over.append(True)

    assert isinstance(Parser().attempt(together([steps(), steps()]), 0, 0), Unanswered)
    assert over == [True, True]
