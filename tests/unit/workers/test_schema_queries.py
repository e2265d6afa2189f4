"""A schema query has the same answer in a worker process as inline."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from registry.domain.parsing import querying
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Querying, Unanswered
from registry.domain.parsing.schema_queries import Key, SchemaAnswer, SchemaQuery, Source, answer, facts
from registry.domain.schemas import Budget, Dependency, Exhausted, InvalidSchema, Schema
from registry.workers import process
from registry.workers.process import answer_query
from registry.workers.worker import WorkerProcess, WorkRequest

CORPUS = Path(__file__).parents[2] / "corpus"
FORMATS = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}


def cases(schema_type: str) -> list[tuple[str, str]]:
    read = json.loads((CORPUS / f"{FORMATS[schema_type]}_compatibility.json").read_bytes())
    pairs = [(each["old"], each["new"]) for each in read]
    return pairs if schema_type == "PROTOBUF" else [(json.dumps(old), json.dumps(new)) for old, new in pairs]


class Elsewhere:
    """Attempts a computation repeatedly, and answers missing queries elsewhere."""

    def __init__(self) -> None:
        self.parser, self.other = Parser(), Parser()
        self.asked: list[SchemaQuery] = []

    def run(self, steps: Callable[[], Querying[Any]]) -> Any:
        known: dict[Key, SchemaAnswer] = {}
        while True:
            result = self.parser.attempt(steps(), 0, 0, known)
            if not isinstance(result, Unanswered):
                return result
            self.asked.append(result.query)
            told = answer_query(WorkRequest(result.query, 60, 60), self.other).known
            assert told is not None
            known.update(facts(result.query, told))


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except InvalidSchema as error:
        return str(error)


@pytest.mark.parametrize("schema_type", FORMATS)
def test_comparisons_find_the_same(schema_type: str) -> None:
    elsewhere, here = Elsewhere(), Parser()

    def compared(old: str, new: str) -> Querying[Any]:
        pair = Source(schema_type, new, new=True), Source(schema_type, old)
        return [
            (yield from querying.differences(*pair, reader_is="new")),
            (yield from querying.differences(*reversed(pair), reader_is="old")),
            (yield from querying.changes(*pair, reader_is="new", lines=True)),
            (yield from querying.equivalent(*pair)),
        ]

    for old, new in cases(schema_type):
        both = partial(compared, old, new)
        assert outcome(partial(elsewhere.run, both)) == outcome(lambda: here.run(both()))  # noqa: B023 (called at once)
    assert len(elsewhere.asked) > 100


@pytest.mark.parametrize("schema_type", FORMATS)
def test_what_passes_has_no_differences(schema_type: str) -> None:
    parser, passed = Parser(), []
    for old, new in cases(schema_type):
        for readers in (("new",), ("old",), ("new", "old")):
            question = SchemaQuery(
                "passes",
                Source(schema_type, new),
                Source(schema_type, old),
                (("key", b"key"), ("policy", "STRICT"), ("readers", readers)),
            )
            known = answer(question, parser.read, Budget())
            passed.append(facts(question, known)[question.key].value)
            assert passed[-1] == (not any(_differences(parser, question, each) for each in readers))
    assert True in passed
    assert False in passed


def _differences(parser: Parser, question: SchemaQuery, reader_is: str) -> object:
    """Return the differences, or why one of the two is not a schema."""
    sources = [question.source, question.other or question.source]
    reader, writer = sources if reader_is == "new" else reversed(sources)
    how = (("policy", "STRICT"), ("reader_is", reader_is))
    known = answer(SchemaQuery("differences", reader, writer, how), parser.read, Budget())
    return known.value or known.invalid


@pytest.mark.parametrize("schema_type", FORMATS)
def test_texts_are_the_same(schema_type: str) -> None:
    elsewhere, here = Elsewhere(), Parser()
    ways: tuple[Callable[[Source], Querying[Any]], ...] = (
        querying.canonical,
        querying.normalized,
        querying.field_names,
        querying.check_fields,
        partial(querying.format_text, format="serialized"),
    )
    texts = [old for old, _ in cases(schema_type)][::5]
    for each in [*texts, "", "{", "message {", '{"type":"nothing"}', '{"$ref":"a"}']:
        for dependencies in ((), (Dependency("a", texts[0]),)):
            for way in ways:
                steps = partial(way, Source(schema_type, each, dependencies, new=True))
                found = outcome(partial(elsewhere.run, steps))
                assert found == outcome(lambda: here.run(steps()))  # noqa: B023 (called at once)


def test_a_canonical_text_that_was_given_is_its_own() -> None:
    elsewhere = Elsewhere()
    source = Source("AVRO", '{"type": "int"}', new=True)
    canonical = elsewhere.run(lambda: querying.canonical(source))
    told = facts(elsewhere.asked[0], SchemaAnswer(canonical))
    steps = querying.canonical(Source("AVRO", canonical))
    assert Parser().attempt(steps, 0, 0, told) == canonical == '"int"'


def test_what_takes_too_many_steps_is_refused_elsewhere_too() -> None:
    columns = ", ".join(f"c{number} N" for number in range(100))
    source = Source("AVRO", f"NAMESPACE {'n' * 200_000}; STRUCT P ({columns})")
    with pytest.raises(Exhausted):
        Elsewhere().run(lambda: querying.native(source, "s", "AVRO"))


def test_texts_whose_fields_are_compared_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, parsed = Elsewhere(), list[Source]()
    monkeypatch.setattr(elsewhere.other, "parse", parsed.append)
    new, old = Source("JSON", '{"properties":{"a":{"type":"string"}}}'), Source("JSON", "{}")
    assert elsewhere.run(lambda: querying.field_differences(new, old, 10)).counts == (1, 0, 0)
    assert elsewhere.run(lambda: querying.succession(new, old, (), "STRICT")).counts == (1, 0, 0)
    assert parsed == []


def test_what_takes_too_long_is_given_up() -> None:
    def unions(leaf: str) -> str:
        return '{"anyOf":[{"type":"null"},' * 1500 + f'{{"type":"{leaf}"}}' + "]}" * 1500

    pair = Source("JSON", unions("integer")), Source("JSON", unions("string"))
    lacking = Parser().attempt(querying.differences(*pair, reader_is="new"), math.inf, 10)
    assert isinstance(lacking, Unanswered)
    process = WorkerProcess(nice=0)
    try:
        told = process.ask(WorkRequest(lacking.query, 0.05, 60))
    finally:
        process.end()
    assert told.known is None
    assert told.took_s >= 0


def test_a_process_is_limited_by_time_and_not_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A DDL of 60,000 columns takes more steps than a reader may, and was answered with 500."""
    budgets: list[Budget] = []

    def watched(query: SchemaQuery, read: Callable[[Source], Schema], budget: Budget) -> SchemaAnswer:
        budgets.append(budget)
        return answer(query, read, budget)

    monkeypatch.setattr(process, "answer", watched)
    asked = querying.native(Source("PROTOBUF", "STRUCT t (c INT)"), "orders-value", "PROTOBUF")
    lacking = Parser().attempt(asked, 0, 0)
    assert isinstance(lacking, Unanswered)
    known = answer_query(WorkRequest(lacking.query, 60, 60), Parser()).known
    assert known is not None
    assert "optional int32 c = 1;" in known.value
    assert [each.left for each in budgets] == [math.inf]
