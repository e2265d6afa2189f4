"""A page of a timeline: how much it reads, compares and remembers, whatever is stored."""

from __future__ import annotations

import pytest

from registry.domain.compatibility import timeline
from registry.domain.compatibility.timeline import TimelinePage, find_page, find_successions
from registry.domain.model import Subject
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import Succession, facts
from registry.domain.queries.scope import Config
from registry.domain.queries.walks import run_search
from registry.domain.schemas import FORMATS
from registry.workers.pool import STEPS_AT_ONCE_MAX, TEXT_AT_ONCE_MAX
from registry.workers.process import answer_query
from registry.workers.worker import WorkRequest
from tests.support.counting_view import CountingView
from tests.unit.small_registry import CountingAvro, SmallRegistry, record

SUBJECT = Subject.parse("s")
BACKWARD = Config(compatibility_level="BACKWARD")


@pytest.fixture
def avro(monkeypatch: pytest.MonkeyPatch) -> CountingAvro:
    counting = CountingAvro()
    monkeypatch.setitem(FORMATS, "AVRO", counting)
    return counting


def filled(count: int) -> SmallRegistry:
    """Return a registry with versions of which every third breaks."""
    small = SmallRegistry()
    small.view = CountingView()
    small.level("s", "NONE")
    for at in range(count):
        small.register("s", record("R", "a", f"b{at}" if at % 3 == 2 else f"b{at}?"))
    return small


def page_of(small: SmallRegistry, below: int | None = None, limit: int = 20) -> TimelinePage:
    return run_search(find_page(small.view, SUBJECT, below, limit, deleted=False, strict=False))


def numbers(page: TimelinePage) -> list[int]:
    return [each.found.version for each in page.versions]


def costs(avro: CountingAvro, count: int, below: int) -> tuple[int, int]:
    """Return how many rows are read for a page, and how many schemas are compared."""
    small = filled(count)
    rows = small.view
    assert isinstance(rows, CountingView)
    rows.reads = avro.comparisons = 0
    page = page_of(small, below)
    assert len(page.versions) == 20
    Parser().run(find_successions(page, BACKWARD))
    return rows.reads, avro.comparisons


def test_a_page_costs_as_much_wherever_it_is_and_however_many_versions_there_are(avro: CountingAvro) -> None:
    assert costs(avro, 40, 30) == costs(avro, 400, 30) == costs(avro, 400, 390)
    assert costs(avro, 40, 30)[1] == 20


def test_what_was_compared_once_is_remembered_also_what_breaks(avro: CountingAvro) -> None:
    small, parser = filled(25), Parser()
    first = parser.run(find_successions(page_of(small), BACKWARD))
    assert {each.compatible for each in first} == {True, False}
    assert avro.comparisons == 20
    # Nothing may be parsed or compared any more.
    assert parser.attempt(find_successions(page_of(small), BACKWARD), 0, 0) == first
    assert avro.comparisons == 20
    # Another level is another question.
    parser.run(find_successions(page_of(small), Config(compatibility_level="FULL")))
    assert avro.comparisons > 20


def test_a_worker_answers_what_is_too_much_at_once() -> None:
    small, parser = filled(45), Parser()
    page = page_of(small, limit=40)
    lacking = parser.attempt(find_successions(page, BACKWARD), 500, 10)
    assert isinstance(lacking, Unanswered)
    known = answer_query(WorkRequest(lacking.query, 5.0, 5.0), Parser()).known
    assert known is not None
    found = parser.attempt(find_successions(page, BACKWARD), 0, 0, facts(lacking.query, known))
    assert found == Parser().run(find_successions(page, BACKWARD))
    parser.learn(facts(lacking.query, known))
    assert parser.attempt(find_successions(page, BACKWARD), 0, 0) == found


def unions(leaf: str) -> str:
    """Return a schema that takes longer to compare with another of its kind than anyone waits."""
    return '{"anyOf":[{"type":"null"},' * 1000 + f'{{"type":"{leaf}"}}' + "]}" * 1000


def test_a_comparison_that_takes_too_long_is_unknown_and_hides_no_other() -> None:
    small = SmallRegistry()
    small.level("s", "NONE")
    closed = '{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}}'
    for text in ("{}", unions("integer"), unions("string"), closed, closed.replace("string", "integer")):
        small.register("s", text, schema_type="JSON")
    page, parser = page_of(small), Parser()
    lacking = parser.attempt(find_successions(page, BACKWARD), TEXT_AT_ONCE_MAX, STEPS_AT_ONCE_MAX)
    assert isinstance(lacking, Unanswered)
    known = answer_query(WorkRequest(lacking.query, 5.0, 20.0), Parser()).known
    assert known is not None
    found = parser.attempt(find_successions(page, BACKWARD), 0, 0, facts(lacking.query, known))
    assert not isinstance(found, Unanswered)
    assert [each.compatible for each in found] == [False, False, None, False, None]
    assert all(each.counts is not None for each in found)


def test_long_schemas_make_a_page_short(monkeypatch: pytest.MonkeyPatch) -> None:
    small = filled(6)
    length = len(record("R", "a", "b0?"))
    monkeypatch.setattr(timeline, "CHARACTERS_MAX", 3 * (length + 20))
    first = page_of(small)
    assert 1 <= len(first.versions) < 6
    assert first.following is not None
    monkeypatch.setattr(timeline, "CHARACTERS_MAX", 1)
    assert numbers(page_of(small)) == [6]
    assert numbers(page_of(small, below=6)) == [5]


def test_a_first_version_adds_all_its_fields() -> None:
    small = filled(1)
    page = page_of(small)
    assert page.following is None
    [found] = Parser().run(find_successions(page, BACKWARD))
    assert found == Succession((2, 0, 0), (), None)
