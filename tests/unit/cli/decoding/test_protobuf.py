"""Protobuf messages."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from registry.cli.decoding.frame import CannotDecode
from registry.domain.schemas import FORMATS, Dependency
from registry.domain.schemas.protobuf.schema import ProtobufSchema
from tests.unit.cli.decoding.decoding import decoded

OTHER = Dependency("other.proto", 'syntax = "proto3"; package o; message O { string s = 1; O o = 2; }')
TEXT = """
syntax = "proto3";
package p;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "google/type/money.proto";
import "confluent/type/decimal.proto";
import "other.proto";
enum Before { B = 0; }
message A {
  google.protobuf.Timestamp at = 1;
  int64 number = 2;
  map<string, o.O> by_name = 3;
  enum Inside { X = 0; Y = 1; }
  message First {}
  message Second { message Deep { bytes raw = 1; } }
  google.protobuf.Any any = 4;
  Inside inside = 5;
  google.protobuf.Int32Value wrapped = 6;
  google.protobuf.Struct struct = 7;
  google.type.Money money = 8;
  confluent.type.Decimal decimal = 9;
  optional double ratio = 10;
}
message Z { repeated int32 z = 1; }
"""
protobuf = partial(decoded, "PROTOBUF", TEXT, dependencies=(OTHER,))


def made(name: str, **values: Any) -> Any:
    schema = FORMATS["PROTOBUF"].parse(TEXT, (OTHER,))
    assert isinstance(schema, ProtobufSchema)
    return GetMessageClass(schema.pool().FindMessageTypeByName(name))(**values)


def test_a_message_is_protobufs_json() -> None:
    message = made("p.A", number=2**60, inside=1, ratio=float("nan"))
    message.at.FromJsonString("2024-02-29T01:02:03.000000004Z")
    message.by_name["x"].o.s = "é"
    message.wrapped.value = 5
    message.struct["k"] = [1, None]
    message.money.units = 3
    message.any.Pack(message.money)
    found = protobuf(b"\x00" + message.SerializeToString())
    assert not found.warnings
    assert json.loads(found.json) == {
        "at": "2024-02-29T01:02:03.000000004Z",
        "number": str(2**60),
        "byName": {"x": {"s": "", "o": {"s": "é"}}},
        "inside": "Y",
        "wrapped": 5,
        "struct": {"k": [1.0, None]},
        "money": {"currencyCode": "", "units": "3", "nanos": 0},
        "any": {
            "@type": "type.googleapis.com/google.type.Money",
            "currencyCode": "", "units": "3", "nanos": 0,
        },
        "ratio": "NaN",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("position", "name", "shown"),
    [
        (b"\x02\x02", "p.Z", {"z": []}),
        (b"\x04\x00\x02", "p.A.Second", {}),
        (b"\x06\x00\x02\x00", "p.A.Second.Deep", {"raw": ""}),
    ],
)
def test_the_position_chooses_the_message(position: bytes, name: str, shown: Any) -> None:
    payload = made(name).SerializeToString()
    assert json.loads(protobuf(position + payload).json) == shown
    assert json.loads(protobuf(payload, position=position).json) == shown


def test_fields_that_the_schema_does_not_know_are_a_warning() -> None:
    assert protobuf(b"\x02\x02\x7a\x01a\x7a\x01b").warnings == ("2 fields are not in the schema",)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "ends within the position"),
        (b"\x02\x04", "no message at the position 2"),
        (b"\x06\x00\x00\x00", "no message at the position 0.0.0"),
        (b"\x00\xff", "the message is not of the type p.A of its schema"),
        (b"\x00\x0a\x05", "the message is not of the type p.A of its schema"),
    ],
)
def test_other_bytes_are_refused(payload: bytes, text: str) -> None:
    with pytest.raises(CannotDecode, match=text):
        protobuf(payload)


def test_deeply_nested_messages_are_refused() -> None:
    payload = b""
    for _ in range(300):
        head = (
            bytes([len(payload)])
            if len(payload) < 128
            else bytes([len(payload) % 128 + 128, len(payload) // 128])
        )
        payload = b"\x12" + head + payload
    with pytest.raises(CannotDecode):
        decoded("PROTOBUF", OTHER.text, b"\x00" + payload)


def test_an_any_of_a_foreign_type_is_reported() -> None:
    message = made("p.A")
    message.any.type_url = "type.googleapis.com/foreign.Type"
    with pytest.raises(CannotDecode, match=r"cannot be shown as JSON: .*foreign\.Type"):
        protobuf(b"\x00" + message.SerializeToString())


def test_a_schema_without_its_imports_is_refused() -> None:
    with pytest.raises(CannotDecode, match="the schema cannot be used"):
        decoded("PROTOBUF", TEXT, b"\x00")


@given(st.binary(max_size=100))
def test_any_bytes_give_json_or_the_error(payload: bytes) -> None:
    with suppress(CannotDecode):
        json.loads(protobuf(b"\x00" + payload).json)
