"""Messages of one Avro schema as those of another: what Java's library reads, byte by byte."""

from __future__ import annotations

import struct

import pytest

from registrar.spark.avro_resolution import Resolver


@pytest.mark.parametrize(
    ("writer", "reader", "given", "made"),
    [
        ('"int"', '"long"', b"\x05", b"\x05"),
        ('"int"', '"double"', b"\x05", struct.pack("<d", -3)),
        ('"float"', '"double"', struct.pack("<f", 0.5), struct.pack("<d", 0.5)),
        ('"string"', '["null", "bytes"]', b"\x02x", b"\x02\x02x"),
        ('["null", "int"]', '"int"', b"\x02\x05", b"\x05"),
        ('["int", "string"]', '["string", "int"]', b"\x02\x02x", b"\x00\x02x"),
        ('{"type": "array", "items": "int"}', '{"type": "array", "items": "float"}',
         b"\x04\x02\x04\x00", b"\x04" + struct.pack("<f", 1) + struct.pack("<f", 2) + b"\x00"),
    ],
)  # fmt: skip
def test_types_are_resolved_as_avro_does(writer: str, reader: str, given: bytes, made: bytes) -> None:
    assert Resolver(writer, reader).resolve(given) == made
