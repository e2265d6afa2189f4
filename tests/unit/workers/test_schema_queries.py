"""What is found elsewhere is what would have been found here, for everything that is asked of schemas."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from registry.domain.parsing.parser import Parser, TooMuchText
from registry.domain.parsing.schema_queries import Key, SchemaAnswer, SchemaQuery, Source, answer, facts
from registry.domain.schemas import Budget, Dependency, InvalidSchema, Schema
from registry.workers.messages import WorkRequest
from registry.workers.process import answered
from registry.workers.worker import WorkerProcess

CORPUS = Path(__file__).parents[2] / "corpus"
FORMATS = {"AVRO": "avro", "JSON": "json_schema", "PROTOBUF": "protobuf"}


def cases(schema_type: str) -> list[tuple[str, str]]:
    read = json.loads((CORPUS / f"{FORMATS[schema_type]}_compatibility.json").read_bytes())
    pairs = [(each["old"], each["new"]) for each in read]
    return pairs if schema_type == "PROTOBUF" else [(json.dumps(old), json.dumps(new)) for old, new in pairs]


class Elsewhere:
    """Begins a job of work again and again, and answers elsewhere what it lacks."""

    def __init__(self) -> None:
        self.parser, self.other = Parser(), Parser()
        self.asked: list[SchemaQuery] = []

    def do(self, work: Callable[[Parser], Any]) -> Any:
        known: dict[Key, SchemaAnswer] = {}
        while True:
            self.parser.allow(0, 0, known)
            try:
                return work(self.parser)
            except TooMuchText as too_much:
                self.asked.append(too_much.question)
                told = answered(WorkRequest(too_much.question, 60, 60), self.other).known
                assert told is not None
                known.update(facts(too_much.question, told))


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except InvalidSchema as error:
        return str(error)


@pytest.mark.parametrize("schema_type", FORMATS)
def test_comparisons_find_the_same(schema_type: str) -> None:
    elsewhere, here = Elsewhere(), Parser()

    def compared(parser: Parser, old: str, new: str) -> Any:
        pair = parser.parse(schema_type, new, new=True), parser.parse(schema_type, old)
        budget = parser.budget()
        return [
            parser.differences(*pair, reader_is="new", budget=budget),
            parser.differences(*reversed(pair), reader_is="old", budget=budget),
            parser.changes(*pair, reader_is="new", budget=budget, lines=True),
            pair[0].equivalent(pair[1]),
        ]

    for old, new in cases(schema_type):
        both = partial(compared, old=old, new=new)
        assert outcome(partial(elsewhere.do, both)) == outcome(partial(both, here))
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
    """Return what is different, or why one of the two is no schema."""
    sources = [question.source, question.other or question.source]
    reader, writer = sources if reader_is == "new" else reversed(sources)
    how = (("policy", "STRICT"), ("reader_is", reader_is))
    known = answer(SchemaQuery("differences", reader, writer, how), parser.read, Budget())
    return known.value or known.invalid


@pytest.mark.parametrize("schema_type", FORMATS)
def test_texts_are_the_same(schema_type: str) -> None:
    elsewhere, here = Elsewhere(), Parser()
    ways: tuple[Callable[[Any], Any], ...] = (
        lambda schema: schema.canonical,
        lambda schema: schema.normalized,
        lambda schema: schema.field_names(),
        lambda schema: schema.check_fields(),
        lambda schema: schema.formatted("serialized"),
    )
    texts = [old for old, _ in cases(schema_type)][::5]
    for each in [*texts, "", "{", "message {", '{"type":"nothing"}', '{"$ref":"a"}']:
        for dependencies in ((), (Dependency("a", texts[0]),)):
            for way in ways:
                asked = partial(said, schema_type, each, dependencies, way)
                assert outcome(partial(elsewhere.do, asked)) == outcome(partial(asked, here))


def said(
    schema_type: str, text: str, dependencies: Sequence[Dependency], way: Callable[[Any], Any], parser: Parser
) -> Any:
    return way(parser.parse(schema_type, text, dependencies, new=True))


def test_a_canonical_text_that_was_told_is_its_own() -> None:
    elsewhere = Elsewhere()
    canonical = elsewhere.do(lambda parser: parser.parse("AVRO", '{"type": "int"}', new=True).canonical)
    question = elsewhere.asked[0]
    told = facts(question, SchemaAnswer(canonical))
    parser = Parser()
    parser.allow(0, 0, told)
    assert parser.parse("AVRO", canonical).canonical == canonical == '"int"'


def test_what_takes_too_long_is_given_up() -> None:
    def unions(leaf: str) -> str:
        return '{"anyOf":[{"type":"null"},' * 1500 + f'{{"type":"{leaf}"}}' + "]}" * 1500

    parser = Parser()
    parser.allow(math.inf, 10)
    pair = parser.parse("JSON", unions("integer")), parser.parse("JSON", unions("string"))
    with pytest.raises(TooMuchText) as caught:
        parser.differences(*pair, reader_is="new", budget=parser.budget())
    process = WorkerProcess(nice=0)
    try:
        told = process.ask(WorkRequest(caught.value.question, 0.05, 60))
    finally:
        process.end()
    assert told.known is None
    assert told.took_s >= 0


def test_one_text_that_fails_leaves_the_others_their_answers() -> None:
    texts = tuple(Source("AVRO", f'"{name}"') for name in ("int", "long", "string"))

    def read(source: Source) -> Schema:
        if source == texts[1]:
            raise RecursionError
        return Parser().read(source)

    question = SchemaQuery("normal_texts", texts[0], None, (("sources", texts),))

    assert answer(question, read, Budget()).value == ['"int"', None, '"string"']
