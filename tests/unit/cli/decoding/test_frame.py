"""Splitting messages of Confluent's wire format."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.cli.decoding.frame import (
    MESSAGE_BYTES_MAX,
    CannotDecode,
    Frame,
    SchemaName,
    read_position,
    split_frame,
)

GUID = "89791762-2336-186f-9674-299b90a8e2e4"
BY_GUID = b"\x01" + UUID(GUID).bytes


def test_an_id_is_in_front() -> None:
    assert split_frame(b"\x00\x00\x00\x01\x02data") == Frame(SchemaName(258), None, b"data")


def test_a_guid_is_in_front() -> None:
    assert split_frame(BY_GUID + b"data") == Frame(SchemaName(None, GUID), None, b"data")


@pytest.mark.parametrize(("key", "name"), [(False, "__value_schema_id"), (True, "__key_schema_id")])
def test_a_header_comes_first(key: bool, name: str) -> None:
    other = "__key_schema_id" if name == "__value_schema_id" else "__value_schema_id"
    headers = [("trace", None), (other, b"\x00\x00\x00\x00\x09"), (name, BY_GUID + b"\x02\x04")]
    found = split_frame(b"\x00\x00\x00\x00\x01data", headers, key=key)
    assert found == Frame(SchemaName(None, GUID), b"\x02\x04", b"\x00\x00\x00\x00\x01data")


def test_the_last_of_several_headers_counts() -> None:
    """As ``lastHeader`` of Confluent's deserializers."""
    headers = [("__value_schema_id", b"\x00\x00\x00\x00\x09"), ("__value_schema_id", BY_GUID)]
    assert split_frame(b"data", headers) == Frame(SchemaName(None, GUID), b"", b"data")


def test_a_header_without_value_does_not_count() -> None:
    assert split_frame(b"\x00\x00\x00\x00\x01", [("__value_schema_id", None)]).schema == SchemaName(1)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "the message is empty"),
        (b'{"a":1}', "begins with the byte 0x7b, not with 0 or 1"),
        (b"\x00\x00\x00\x01", "ends within the name of its schema: it has only 4 bytes"),
        (BY_GUID[:-1], "ends within the name of its schema: it has only 16 bytes"),
        (bytes(MESSAGE_BYTES_MAX + 1), f"at most {MESSAGE_BYTES_MAX} are decoded"),
    ],
)
def test_other_bytes_are_refused(data: bytes, text: str) -> None:
    with pytest.raises(CannotDecode, match=text):
        split_frame(data)


@pytest.mark.parametrize(
    ("data", "position"),
    [(b"\x00rest", [0]), (b"\x02\x04rest", [2]), (b"\x04\x02\x80\x02rest", [1, 128])],
)
def test_a_position_has_a_number_for_each_level(data: bytes, position: list[int]) -> None:
    assert read_position(data) == (position, b"rest")


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01", b"\x02\x01", b"\xd2\x01" * 300, b"\xff" * 20])
def test_invalid_positions_are_refused(data: bytes) -> None:
    with pytest.raises(CannotDecode):
        read_position(data)


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_give_a_frame_or_the_error(data: bytes, key: bool) -> None:
    with suppress(CannotDecode):
        split_frame(data, [("__key_schema_id", data)], key=key)
    with suppress(CannotDecode):
        read_position(data)
