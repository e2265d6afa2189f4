"""Costs of reading and comparing schemas, counted in calls of functions."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from registry.domain.schemas import FORMATS

# Types of fields, and the calls that one field of the type may add to those of its record.
FIELDS = {
    '"long"': 0,
    '["null","string"]': 2,
    '{"type":"array","items":"int"}': 2,
    '{"type":"map","values":"double"}': 2,
}


def calls(text: str, kind: str = "AVRO") -> int:
    """Return how many functions are called for a new schema, until it can be stored."""

    def read() -> None:
        schema = FORMATS[kind].parse(text, new=True)
        assert schema.canonical

    return calls_in(read)


def calls_in(work: Callable[[], object]) -> int:
    """Return how many functions of the registry ``work`` calls."""
    called = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call" and "/registry/" in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return called


def record(kind: str, count: int, **more: object) -> str:
    fields = [{"name": f"field_{n}", "type": json.loads(kind), **more} for n in range(count)]
    return json.dumps({"type": "record", "name": "R", "namespace": "com.example", "fields": fields})


def json_object(count: int) -> str:
    properties = {f"field_{n}": {"type": "string"} for n in range(count)}
    return json.dumps({"type": "object", "properties": properties})


def protobuf_message(count: int) -> str:
    fields = "".join(f"  string field_{n} = {n + 1};\n" for n in range(count))
    return f'syntax = "proto3";\nmessage M {{\n{fields}}}\n'


# Texts with so many fields, and the calls that one field may add.
TEXTS = {"JSON": (json_object, 11), "PROTOBUF": (protobuf_message, 10)}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field_of_a_usual_type_takes_few_calls(kind: str) -> None:
    assert calls(record(kind, 110)) - calls(record(kind, 10)) <= 100 * FIELDS[kind]


def test_a_nullable_field_with_a_default_takes_few_calls() -> None:
    kind = '["null","string"]'
    many, few = (calls(record(kind, count, default=None)) for count in (110, 10))
    assert many - few <= 100 * (FIELDS[kind] + 5)


def test_a_record_takes_few_calls() -> None:
    assert calls(record('"long"', 1)) <= 40


@pytest.mark.parametrize("kind", TEXTS)
def test_a_field_of_the_other_formats_takes_few_calls(kind: str) -> None:
    text, most = TEXTS[kind]
    for count in (1, 2):  # what is found out once
        calls(text(count), kind)
    assert calls(text(110), kind) - calls(text(10), kind) <= 100 * most


@pytest.mark.parametrize(("kind", "most"), [("JSON", 9), ("PROTOBUF", 4)])
def test_a_field_that_has_not_changed_takes_few_calls(kind: str, most: int) -> None:
    text, _ = TEXTS[kind]

    def compare(count: int) -> int:
        old, new = (FORMATS[kind].parse(text(size), new=True) for size in (count, count + 1))
        return calls_in(lambda: FORMATS[kind].differences(new, old, "new"))

    compare(1)
    assert compare(110) - compare(10) <= 100 * most


@pytest.mark.parametrize("kind", ['"long"', '["null", "string"]'])
def test_what_an_index_of_words_reads_of_a_field_takes_few_calls(kind: str) -> None:
    def read(count: int) -> int:
        text = record(kind, count)
        return calls_in(lambda: [*FORMATS["AVRO"].search_parts(text)])

    read(1)  # what is found out once
    # A search part; for a union, a step of the walk and a look at what may be inside, too.
    assert read(110) - read(10) <= 100 * (1 if kind == '"long"' else 2)
