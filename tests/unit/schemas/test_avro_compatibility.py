"""Compatibility of Avro schemas: Java Avro 1.12's results, Confluent's messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.domain.schemas import FORMATS

AVRO = FORMATS["AVRO"]
CASES = json.loads((Path(__file__).parents[2] / "corpus" / "avro_compatibility.json").read_text())


def found(reader, writer):
    differences = AVRO.differences(AVRO.parse(json.dumps(reader)), AVRO.parse(json.dumps(writer)), "new")
    return [f"{difference.type} {difference.path}".strip() for difference in differences]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_verdicts_in_both_directions(case):
    backward, forward = found(case["new"], case["old"]), found(case["old"], case["new"])

    assert (not backward, not forward) == (case["backward"], case["forward"]), case["reason"]
    assert backward == case["backward_differences"]
    assert forward == case["forward_differences"]


def test_the_corpus_is_large_and_has_every_kind_of_difference():
    kinds = {text.split()[0] for case in CASES for text in case["backward_differences"]}

    assert len(CASES) >= 120
    assert kinds == {
        "FIXED_SIZE_MISMATCH",
        "MISSING_ENUM_SYMBOLS",
        "MISSING_UNION_BRANCH",
        "NAME_MISMATCH",
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "TYPE_MISMATCH",
        "UNEXPECTED_EXCEPTION",
    }


def record(*fields: str, name: str = "R") -> str:
    return f'{{"type":"record","name":"{name}","fields":[{",".join(fields)}]}}'


def enum(*symbols: str) -> str:
    return f'{{"type":"enum","name":"E","symbols":{json.dumps(symbols)}}}'


def fixed(size: int) -> str:
    return f'{{"type":"fixed","name":"F","size":{size}}}'


F1, F2 = '{"name":"f1","type":"int"}', '{"name":"f2","type":"int"}'


@pytest.mark.parametrize(
    ("reader", "writer", "text"),
    [
        (
            record(F1, F2),
            record(F1),
            "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'f2' at path '/fields/1'"
            " in the new schema has no default value and is missing in the old schema', additionalInfo:'f2'}",
        ),
        (
            record(F1),
            record(F1.replace("int", "string")),
            "{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/0/type') of a field in the new"
            " schema does not match with the old schema',"
            " additionalInfo:'reader type: INT not compatible with writer type: STRING'}",
        ),
        (
            record(),
            record(name="a.S"),
            "{errorType:'NAME_MISMATCH', description:'The name of the schema has changed (path '/name')',"
            " additionalInfo:'expected: a.S'}",
        ),
        (
            enum("A"),
            enum("D", "A", "C"),
            "{errorType:'MISSING_ENUM_SYMBOLS', description:'The new schema is missing enum symbols '[C, D]'"
            " at path '/symbols' in the old schema', additionalInfo:'[C, D]'}",
        ),
        (
            fixed(16),
            fixed(8),
            "{errorType:'FIXED_SIZE_MISMATCH', description:'The size of FIXED type field at path '/size'"
            " in the new schema does not match with the old schema',"
            " additionalInfo:'expected: 8, found: 16'}",
        ),
        (
            '["null","int"]',
            '["null","string"]',
            "{errorType:'MISSING_UNION_BRANCH', description:'The new schema is missing a type inside a union"
            " field at path '/1' in the old schema',"
            " additionalInfo:'reader union lacking writer type: STRING'}",
        ),
    ],
)
def test_the_words_are_confluents(reader, writer, text):
    one, other = AVRO.parse(reader), AVRO.parse(writer)

    assert [difference.text for difference in AVRO.differences(one, other, "new")] == [text]
    swapped = (
        text.replace("new schema", "NEW").replace("old schema", "new schema").replace("NEW", "old schema")
    )
    assert [difference.text for difference in AVRO.differences(one, other, "old")] == [swapped]


def test_an_ambiguous_alias_is_reported_as_java_reports_it():
    reader = record('{"name":"f1","type":"int","aliases":["f2"]}')

    [difference] = AVRO.differences(AVRO.parse(reader), AVRO.parse(record(F1, F2)), "new")

    assert difference.text == (
        "Unexpected exception during compatibility check: Reader record field f1 type:INT pos:0"
        f" matches multiple fields in writer record schema {record(F1, F2)}"
    )
