"""A batch of associations with many schemas sends all its queries to a worker at once."""

from __future__ import annotations

import json
from itertools import count

from registry.api.association_requests import change_requests
from registry.domain.commands import ChangeAssociations, PutConfig, Refused, Register
from registry.domain.decide import decide
from registry.domain.decide.decision import Decision
from registry.domain.decide.ids import Ids
from registry.domain.errors import RegistryError
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import Key, SchemaAnswer, SchemaQuery, Source, facts, several
from registry.domain.queries.scope import Defaults
from registry.domain.rows.memory_views import DictView
from registry.node.write.batch import Decider, Planned
from registry.workers.process import answer_query
from registry.workers.worker import WorkerProcess, WorkRequest
from tests.support.pending import pending

COUNT = 60
_offsets = count()


def batch(op: str, type_name: str, *, fields: int = 20) -> ChangeAssociations:
    def schema(number: int) -> str:
        listed = [{"name": f"field_{each}", "type": type_name} for each in range(fields)]
        return json.dumps({"type": "record", "name": f"R{number}", "fields": listed})

    requests = [
        {
            "resourceName": f"topic-{number}",
            "resourceNamespace": "ns",
            "resourceId": f"id-{number}",
            "associations": [{"opType": op, "schema": {"schema": schema(number)}}],
        }
        for number in range(COUNT)
    ]
    return ChangeAssociations(change_requests(json.dumps({"requests": requests}).encode()), ".")


def decided(
    rows: DictView, command: ChangeAssociations | PutConfig | Register, *, characters: int, steps: int
) -> tuple[Decision, list[SchemaQuery]]:
    """Return the decision, and the queries that workers had to answer for it."""
    parser, beside, known = Parser(), Parser(), dict[Key, SchemaAnswer]()
    asked: list[SchemaQuery] = []
    while True:
        decision = parser.attempt(
            decide(rows, command, Ids(100), Defaults(), parser.memory), characters, steps, known
        )
        if not isinstance(decision, Unanswered):
            return decision, asked
        asked.append(decision.query)
        told = answer_query(WorkRequest(decision.query, 60, 60), beside).known
        assert told is not None
        known.update(facts(decision.query, told))


def written(rows: DictView, decision: Decision) -> None:
    for entry in decision.entries:
        offset = next(_offsets)
        rows.commit(apply(rows, Record(offset, offset, entry.key, entry.value)))


def test_what_is_much_to_read_or_to_compare_is_asked_in_one_go_and_the_answers_are_the_same() -> None:
    rows = DictView()
    for command in (batch("CREATE", "int"), batch("UPSERT", "long"), batch("UPSERT", "string")):
        free, nothing = decided(rows, command, characters=10**9, steps=10**9)
        assert not nothing
        limited, asked = decided(rows, command, characters=5_000, steps=100)
        assert (limited.entries, limited.reply) == (free.entries, free.reply)
        assert 1 <= len(asked) <= 4
        written(rows, limited)


def test_many_small_comparisons_share_the_steps_that_are_taken_at_once() -> None:
    rows = DictView()
    written(rows, decided(rows, batch("CREATE", "int"), characters=10**9, steps=10**9)[0])
    _, asked = decided(rows, batch("UPSERT", "long"), characters=10**9, steps=200)
    (question,) = asked
    assert len(question.parts) > COUNT // 3
    assert {each.what for each in question.parts} == {"differences"}


def test_a_batch_that_would_not_be_written_whole_is_refused() -> None:
    decider = Decider(Defaults(), 100)
    rows, command = DictView(), batch("CREATE", "int")
    size = sum(
        len(each.key) + len(each.value or b"")
        for each in decided(rows, command, characters=10**9, steps=10**9)[0].entries
    )
    too_much = decider.decide(rows, [pending(command)], base=0, now=1, bytes_max=size)
    assert not too_much.entries
    (refused,) = too_much.plans
    assert isinstance(refused, Refused)
    assert (refused.code, "at once" in refused.message) == (42212, True)
    (done,) = decider.decide(rows, [pending(command)], base=0, now=1, bytes_max=2 * size).plans
    assert isinstance(done, Planned)
    assert done.stop >= 2 * COUNT


def test_a_schema_is_held_against_many_versions_in_few_rounds() -> None:
    rows = DictView()

    def schema(number: int) -> Register:
        fields = [{"name": f"f{each}", "type": "int", "default": number} for each in range(20)]
        return Register("s", json.dumps({"type": "record", "name": "R", "fields": fields}))

    for command in (*map(schema, range(COUNT)), PutConfig("s", {"compatibilityLevel": "FULL_TRANSITIVE"})):
        written(rows, decided(rows, command, characters=10**9, steps=10**9)[0])
    free, _ = decided(rows, schema(COUNT), characters=10**9, steps=10**9)
    limited, asked = decided(rows, schema(COUNT), characters=2_000, steps=50)
    assert (limited.entries, limited.reply) == (free.entries, free.reply)
    assert len(asked) < COUNT // 3


def test_each_earlier_version_is_asked_about_once_and_few_bytes_are_kept_of_the_answer() -> None:
    compared, kept = comparisons('{"type":"record","name":"R","fields":[]}')

    assert compared == ["passes"] * COUNT
    assert sum(type(each) is bytes for each in kept) == COUNT


def test_what_is_different_is_asked_of_the_first_version_that_does_not_pass() -> None:
    compared, _ = comparisons('{"type":"record","name":"R","fields":[{"name":"g","type":"int"}]}')

    assert compared.count("differences") == 2  # One for each way.
    assert compared.count("passes") < 8


def comparisons(text: str) -> tuple[list[str], list[Key]]:
    """Return the queries about pairs of schemas for a registration, and the keys of the answers."""
    rows, beside, parser, known = many_versions(), Parser(), Parser(), dict[Key, SchemaAnswer]()
    asked: list[SchemaQuery] = []
    while True:
        try:
            steps = decide(rows, Register("s", text), Ids(100), Defaults(), parser.memory)
            decision = parser.attempt(steps, 0, 0, known)
        except RegistryError:
            break  # incompatible
        if not isinstance(decision, Unanswered):
            break
        asked += decision.query.parts
        told = answer_query(WorkRequest(decision.query, 60, 60), beside).known
        assert told is not None
        known.update(facts(decision.query, told))
    return [each.what for each in asked if each.other is not None], list(known)


def many_versions() -> DictView:
    """Return a subject of versions that all differ and can follow each other."""
    rows = DictView()
    for number in range(COUNT):
        listed = [{"name": f"f{number}", "type": "int", "default": 0}]
        text = json.dumps({"type": "record", "name": "R", "fields": listed})
        written(rows, decided(rows, Register("s", text), characters=10**9, steps=10**9)[0])
    level = PutConfig("s", {"compatibilityLevel": "FULL_TRANSITIVE"})
    written(rows, decided(rows, level, characters=10**9, steps=10**9)[0])
    return rows


def test_what_was_compared_in_time_is_reported() -> None:
    quick, long = Source("AVRO", '"int"'), [Source("JSON", text) for text in ENDLESS]
    how = (("reader_is", "new"),)
    first, second = (
        SchemaQuery("differences", quick, quick, how),
        SchemaQuery("differences", long[0], long[1], how),
    )
    process = WorkerProcess(nice=0)
    try:
        told = process.ask(WorkRequest(several([first, second]), 0.2, 60))
        other_way_round = process.ask(WorkRequest(several([second, first]), 0.2, 60))
    finally:
        process.end()
    assert told.partial
    assert told.known is not None
    assert facts(several([first, second]), told.known) == {first: SchemaAnswer([])}
    assert other_way_round.known is None


ENDLESS = [
    '{"anyOf":[{"type":"null"},' * 500 + f'{{"type":"{leaf}"}}' + "]}" * 500 for leaf in ("integer", "string")
]
