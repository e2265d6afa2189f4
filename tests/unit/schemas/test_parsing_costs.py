"""Costs of reading a new schema and printing its canonical text, counted in calls of functions."""

from __future__ import annotations

import json
import sys
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


def calls(text: str) -> int:
    """Return how many functions are called for a new Avro schema, until it can be stored."""
    called = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call" and "/registry/" in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        schema = FORMATS["AVRO"].parse(text, new=True)
        assert schema.canonical
    finally:
        sys.setprofile(before)
    return called


def record(kind: str, count: int, **more: object) -> str:
    fields = [{"name": f"field_{n}", "type": json.loads(kind), **more} for n in range(count)]
    return json.dumps({"type": "record", "name": "R", "namespace": "com.example", "fields": fields})


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field_of_a_usual_type_takes_few_calls(kind: str) -> None:
    assert calls(record(kind, 110)) - calls(record(kind, 10)) <= 100 * FIELDS[kind]


def test_a_nullable_field_with_a_default_takes_few_calls() -> None:
    kind = '["null","string"]'
    many, few = (calls(record(kind, count, default=None)) for count in (110, 10))
    assert many - few <= 100 * (FIELDS[kind] + 5)


def test_a_record_takes_few_calls() -> None:
    assert calls(record('"long"', 1)) <= 40
