"""Messages of JSON Schema."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.cli.decoding.frame import CannotDecode, Options
from registry.domain.schemas import Dependency
from tests.unit.cli.decoding.decoding import decoded

VALIDATE = Options(validate=True)
json_schema = partial(decoded, "JSON")
PERSON = {
    "$id": "https://example.org/person.json",
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}, "home": {"$ref": "address.json"}},
    "required": ["name"],
}
ADDRESS = Dependency("address.json", '{"type":"object","properties":{"street":{"type":"string"}}}')


def test_numbers_keep_their_digits() -> None:
    payload = b'{\n "a": 1.000000000000000000001,\n "b": [1e400, 12345678901234567890123]\n}'
    found = json_schema({}, payload).json
    assert found == '{"a":1.000000000000000000001,"b":[1e400,12345678901234567890123]}'


def test_objections_of_the_schema_are_warnings_on_request() -> None:
    payload = b'{"home": {"street": 7}}'
    assert not json_schema(PERSON, payload, dependencies=(ADDRESS,)).warnings
    assert json_schema(PERSON, payload, VALIDATE, dependencies=(ADDRESS,)).warnings == (
        "$.home.street: 7 is not of type 'string'",
        "$: 'name' is a required property",
    )


def test_patterns_take_bounded_time() -> None:
    payload = b'{"name": "' + b"a" * 10_000 + b'b"}'
    [warning] = json_schema(PERSON, payload, VALIDATE, dependencies=(ADDRESS,)).warnings
    assert warning.startswith("$.name: 'aaa")
    assert len(warning) < 400


def test_a_schema_that_cannot_be_compared_is_reported() -> None:
    with pytest.raises(CannotDecode, match="cannot resolve 'address"):
        json_schema(PERSON, b"{}", VALIDATE)
    assert json_schema(PERSON, b"{}").json == "{}"


def test_a_pattern_of_another_language_is_not_compared() -> None:
    look_ahead = {"patternProperties": {"^(?=a)": {"type": "integer"}}, "additionalProperties": False}
    assert not json_schema(look_ahead, b'{"a": "x"}', VALIDATE).warnings
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "patternProperties": {r"^\p{L}+$": {}},
        "unevaluatedProperties": False,
    }
    [warning] = json_schema(schema, b'{"a": 1}', VALIDATE).warnings
    assert "a pattern is not understood" in warning


def test_patterns_of_names_take_bounded_time() -> None:
    schema = {
        "properties": {"named": {}},
        "patternProperties": {r"^(\p{L}+)+$": {"type": "integer"}},
        "additionalProperties": False,
    }
    name = "a" * 10_000
    payload = json.dumps({"named": 1, "b": "x", f"{name}1": 1}).encode()
    warnings = json_schema(schema, payload, VALIDATE).warnings
    assert warnings[0] == "$.b: 'x' is not of type 'integer'"
    assert warnings[1].startswith("$: Additional properties are not allowed ('aaa")
    assert len(warnings) == 2
    more = {**schema, "additionalProperties": {"type": "string"}}
    [_, warning] = json_schema(more, b'{"b": "x", "1": 1}', VALIDATE).warnings
    assert warning == "$['1']: 1 is not of type 'string'"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}, {"a" * 60 + "!": 1}),
        (
            # Each level examines the one below it twice.
            {"$ref": "#/$defs/d0", "$defs": {
                f"d{n}": {
                    "allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2 if n < 40 else [],
                    "unevaluatedProperties": {},
                } for n in range(41)
            }},
            {"a": 1},
        ),
    ],
)  # fmt: skip
def test_a_comparison_that_takes_too_long_is_given_up(schema: dict[str, Any], message: object) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    short = Options(validate=True, validate_s=0.05)
    [warning] = json_schema(schema, json.dumps(message).encode(), short).warnings
    assert warning == "the message cannot be compared with its schema within 0.05 s"


def test_numbers_of_too_many_digits_are_not_compared() -> None:
    [warning] = json_schema({"type": "integer"}, b"1" * 5000, VALIDATE).warnings
    assert warning == "cannot compare the message with its schema: a number has too many digits"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "is not JSON"),
        (b'{"a":', "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b'"\xff"', "is not JSON"),
        (b"[NaN]", "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    ],
)
def test_other_bytes_are_refused(payload: bytes, text: str) -> None:
    with pytest.raises(CannotDecode, match=text):
        json_schema({}, payload)


@given(st.binary(max_size=50))
def test_any_bytes_give_json_or_the_error(payload: bytes) -> None:
    with suppress(CannotDecode):
        json_schema({"type": "object"}, payload, VALIDATE)
