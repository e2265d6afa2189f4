"""Avro messages that another implementation has written."""

from __future__ import annotations

import io
import json
import math
import struct
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.cli.decoding.frame import CannotDecode, Decoded, Options
from registry.domain.schemas import Dependency
from tests.unit.cli.decoding.decoding import PLAIN, decoded

# The number 2⁶³ - 1.
HUGE = b"\xfe" + b"\xff" * 8 + b"\x01"
AVRO_JSON = Options(avro_json=True)

NODE = {
    "type": "record",
    "name": "Node",
    "namespace": "n",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "n",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "single", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "text", "type": "string"},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["CLUBS", "SPADES"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {"name": "list", "type": {"type": "array", "items": ["null", "Suit", "string"]}},
        {"name": "map", "type": {"type": "map", "values": "Hash"}},
    ],
}
VALUES = {
    "nothing": None,
    "flag": True,
    "small": -1,
    "large": -(2**63),
    "single": 0.1,
    "double": 1e300,
    "raw": b"\x00\xff",
    "text": "Grüße 🙂\n",
    "suit": "SPADES",
    "hash": b"abc",
    "list": [None, ("n.Suit", "CLUBS"), ("string", "x")],
    "map": {"k": b"\x01\x02\x03"},
}


def avro(schema: Any, payload: bytes, *more: Any, **rest: Any) -> Decoded:
    return decoded("AVRO", json.dumps(schema), payload, *more, **rest)


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def value_of(schema: Any, payload: bytes, options: Options = PLAIN) -> Any:
    found = avro(schema, payload, options)
    assert not found.warnings
    return json.loads(found.json)


def test_the_plain_form_needs_no_knowledge_of_avro() -> None:
    assert value_of(EVERYTHING, written(EVERYTHING, VALUES)) == VALUES | {
        "raw": "AP8=",
        "hash": "YWJj",
        "list": [None, "CLUBS", "x"],
        "map": {"k": "AQID"},
    }


def test_avros_json_names_the_types_in_unions() -> None:
    assert value_of(EVERYTHING, written(EVERYTHING, VALUES), AVRO_JSON) == VALUES | {
        "raw": "\x00ÿ",
        "hash": "abc",
        "list": [None, {"n.Suit": "CLUBS"}, {"string": "x"}],
        "map": {"k": "\x01\x02\x03"},
    }


LOGICAL = [
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-12.30"), "-12.30"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4}, Decimal("0.0005"), "0.0005"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 40}, Decimal(10) ** 39, "1" + 39 * "0"),
    (
        {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 1},
        Decimal("7.5"),
        "7.5",
    ),
    ({"type": "string", "logicalType": "uuid"}, "a" * 32, "a" * 32),
    ({"type": "int", "logicalType": "date"}, date(1969, 7, 20), "1969-07-20"),
    ({"type": "int", "logicalType": "time-millis"}, time(23, 59, 58, 7000), "23:59:58.007"),
    ({"type": "long", "logicalType": "time-micros"}, time(0, 0, 1, 7), "00:00:01.000007"),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        "1969-12-31T23:59:59.999Z",
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
        "2024-02-29T01:02:03.000004Z",
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        datetime(987, 2, 28, 1, 2, 3),  # noqa: DTZ001 (local)
        "0987-02-28T01:02:03.000",
    ),
    ({"type": "long", "logicalType": "timestamp-nanos"}, 1, "1970-01-01T00:00:00.000000001Z"),
    (
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        struct.pack("<III", 1, 2, 3),
        {"months": 1, "days": 2, "millis": 3},
    ),
    (
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        bytes(range(16)),
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
    ),
    ({"type": "long", "logicalType": "unheard-of"}, 5, 5),
    # Values that the type cannot have.
    ({"type": "int", "logicalType": "date"}, -(2**31), -(2**31)),
    ({"type": "int", "logicalType": "time-millis"}, -1, -1),
    ({"type": "long", "logicalType": "timestamp-millis"}, 2**62, 2**62),
    ({"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": -1}, b"\x01", "AQ=="),
    ({"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 0}, b"", ""),
    ({"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 0}, bytes(5000), "A" * 6667 + "="),
    ({"type": "long", "logicalType": 5}, 5, 5),
]


@pytest.mark.parametrize(("schema", "value", "shown"), LOGICAL, ids=str)
def test_logical_types_are_text(schema: Any, value: Any, shown: Any) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema}]}
    bare = {name: each for name, each in schema.items() if name != "logicalType"}
    raw = isinstance(value, bytes | int)
    payload = written({**record, "fields": [{"name": "f", "type": bare}]} if raw else record, {"f": value})
    assert value_of(record, payload) == {"f": shown}
    assert json.dumps(value_of(record, payload, AVRO_JSON)) != json.dumps({"f": shown}) or shown in (
        value,
        "",
    )


def test_numbers_that_json_lacks_are_text() -> None:
    payload = written({"type": "array", "items": "double"}, [math.nan, math.inf, -math.inf])
    assert value_of({"type": "array", "items": "double"}, payload) == ["NaN", "Infinity", "-Infinity"]
    assert value_of("float", written("float", math.nan)) == "NaN"


@given(st.floats(width=32))
def test_floats_keep_their_value(value: float) -> None:
    found = value_of("float", struct.pack("<f", value))
    assert struct.pack("<f", float(found)) == struct.pack("<f", value) or math.isnan(value)


def test_types_may_be_named_before_their_definition_and_in_other_schemas() -> None:
    inner = {"type": "record", "name": "a.Inner", "fields": [{"name": "x", "type": "int"}]}
    outer = {
        "type": "record",
        "name": "a.Outer",
        "fields": [
            {"name": "later", "type": "Later"},
            {"name": "inner", "type": "Inner"},
            {"name": "l", "type": {"type": "enum", "name": "Later", "symbols": ["A", "B"]}},
        ],
    }
    found = avro(outer, b"\x02\x0e\x00", dependencies=(Dependency("a.Inner", json.dumps(inner)),))
    assert json.loads(found.json) == {"later": "B", "inner": {"x": 7}, "l": "A"}


def test_blocks_of_a_known_size_are_read() -> None:
    assert value_of({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x02\x06\x00") == [1, 2, 3]


def test_bytes_come_with_or_without_their_length() -> None:
    assert value_of("bytes", written("bytes", b"abc")) == "YWJj"
    assert value_of("bytes", b"abcdef") == "YWJjZGVm"
    assert value_of("bytes", b"") == ""


def test_bytes_after_the_message_are_a_warning() -> None:
    assert avro("int", b"\x02\x02\x02").warnings == ("2 bytes follow the message",)


@pytest.mark.parametrize(
    ("schema", "payload", "text"),
    [
        ("int", b"", "near byte 0 of its payload"),
        ("long", b"\xff" * 20, "Varint is too long"),
        ("string", b"\x04\xff\xff", "codec can't decode"),
        ("string", b"\x01", "Requested -1 bytes"),
        ("string", HUGE, "only 0 remain"),
        (["null", "int"], b"\x04", "it chooses type 2 of a union of 2"),
        (["null", "int"], b"\x01", "it chooses type -1 of a union of 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "it chooses symbol 1 of 1 of the enum E"),
        ({"type": "fixed", "name": "F", "size": 2**30}, b"\x02", "only 1 remain"),
        ({"type": "array", "items": "null"}, HUGE, "more than 2000000 values"),
        ({"type": "map", "values": "int"}, HUGE, "more than 2000000 values"),
        (NODE, b"\x02" * 1000, "nested more than 200 levels deep"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"", "nested"),
    ],
)  # fmt: skip
def test_hostile_bytes_are_refused(schema: Any, payload: bytes, text: str) -> None:
    with pytest.raises(CannotDecode, match=text):
        avro(schema, payload)


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(CannotDecode, match="the schema cannot be used"):
        avro("no-such-type", b"")


@given(st.binary(max_size=200), st.sampled_from([PLAIN, AVRO_JSON]))
def test_any_bytes_give_json_or_the_error(payload: bytes, options: Options) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "tree", "type": ["null", {"type": "array", "items": ["R", "string"]}]},
            {"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
            {"name": "map", "type": {"type": "map", "values": {"type": "float"}}},
        ],
    }
    with suppress(CannotDecode):
        json.loads(avro(schema, payload, options).json)
