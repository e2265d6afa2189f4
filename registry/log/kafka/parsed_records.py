"""Records of a batch, whatever bytes their header keys are.

Kafka takes any bytes as the key of a header, and Java's clients replace what is not UTF-8. aiokafka refuses
the whole batch, and with it everything behind it, so such batches are parsed here. Nothing else differs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.errors import CorruptRecordException
from aiokafka.record.util import decode_varint

Headers = Sequence[tuple[str, bytes | None]]

_LENGTH = struct.Struct(">qi")
_LENGTH_ENDS = _LENGTH.size
# Attributes, and after the delta of the last offset the times of the first record and the newest.
_ATTRIBUTES = struct.Struct(">hiqq")
_ATTRIBUTES_AT, _RECORDS_AT = 21, 61
_CODEC_MASK, _APPEND_TIME = 0x07, 0x08
_DECOMPRESS = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}


class ParsedRecord(NamedTuple):
    """A record with the attributes of aiokafka's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def records_of(batch: Any, data: bytes) -> Sequence[ParsedRecord]:
    """Return the records of a batch that aiokafka found in ``data``.

    What is no text in the key of a header is replaced.

    Raises the errors of aiokafka, of decompression, and for bytes that are missing.
    """
    try:
        return list(batch)
    except UnicodeDecodeError:
        return list(_parse(_raw(data, batch.base_offset)))


def _raw(data: bytes, offset: int) -> bytes:
    """Return the batch that begins with an offset."""
    at = 0
    while True:
        found, length = _LENGTH.unpack_from(data, at)
        end = at + _LENGTH_ENDS + length
        if found == offset:
            return data[at:end]
        at = end


def _parse(raw: bytes) -> Iterator[ParsedRecord]:
    base, _ = _LENGTH.unpack_from(raw)
    attributes, _, first_time, newest_time = _ATTRIBUTES.unpack_from(raw, _ATTRIBUTES_AT)
    decompress = _DECOMPRESS.get(attributes & _CODEC_MASK, bytes)
    records = bytearray(decompress(raw[_RECORDS_AT:]))
    at = 0
    while at < len(records):
        length, at = decode_varint(records, at)
        end = at + length
        at += 1  # attributes, of which there are none
        time_delta, at = decode_varint(records, at)
        offset_delta, at = decode_varint(records, at)
        key, at = _nullable(records, at)
        value, at = _nullable(records, at)
        headers, at = _headers(records, at)
        if at != end:
            raise CorruptRecordException(f"the record {offset_delta} of the batch at {base} is malformed")
        time = newest_time if attributes & _APPEND_TIME else first_time + time_delta
        yield ParsedRecord(base + offset_delta, time, key, value, headers)


def _headers(records: bytearray, at: int) -> tuple[Headers, int]:
    count, at = decode_varint(records, at)
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, at = _nullable(records, at)
        value, at = _nullable(records, at)
        found.append(((key or b"").decode("utf-8", "replace"), value))
    return found, at


def _nullable(records: bytearray, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(records, at)
    if length < 0:
        return None, at
    return bytes(records[at : at + length]), at + length
