"""The files of a partition on the broker's disk: batch headers and records, read without a Kafka client."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from registry.domain.log_format.records import Record

# Base offset, length, partition epoch, magic, checksum, attributes, last offset, times, producer, count.
_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_LENGTH = 12
_COMPRESSION, _CONTROL = 0b111, 0b10_0000


class Batch(NamedTuple):
    """One record batch; ``producer`` -1: none."""

    base: int
    producer: int
    epoch: int
    sequence: int
    records: list[Record]


class Size(NamedTuple):
    """The end of a record batch."""

    # The offset after its last record.
    next: int
    # The position in the segment after its last byte.
    ends_at: int


def sizes(raw: bytes) -> Iterator[Size]:
    """Yield the complete batches of a segment."""
    at = 0
    while at + _HEADER.size <= len(raw):
        base, length, _, _, _, _, last_delta, *_ = _HEADER.unpack_from(raw, at)
        at += _BEFORE_LENGTH + length
        if at > len(raw):
            return
        yield Size(base + last_delta + 1, at)


def batches(folder: Path) -> list[Batch]:
    """Yield all batches of a partition's folder, ascending, without an incomplete one at its end."""
    return [batch for path in sorted(folder.glob("*.log")) for batch in _of_segment(path.read_bytes())]


def _of_segment(raw: bytes) -> Iterator[Batch]:
    at = 0
    while at + _HEADER.size <= len(raw):
        (
            base, length, _, magic, _, attributes, _, first_ts, _, producer, epoch, sequence, count,
        ) = _HEADER.unpack_from(raw, at)  # fmt: skip
        end = at + _BEFORE_LENGTH + length
        if end > len(raw):
            return
        assert magic == 2
        assert not attributes & _COMPRESSION, "a compressed batch"
        records = (
            [] if attributes & _CONTROL else list(_records(raw, at + _HEADER.size, count, base, first_ts))
        )
        yield Batch(base, producer, epoch, sequence, records)
        at = end


def _records(raw: bytes, at: int, count: int, base: int, first_ts: int) -> Iterator[Record]:
    for _ in range(count):
        length, at = _varint(raw, at)
        end = at + length
        ts, at = _varint(raw, at + 1)
        offset, at = _varint(raw, at)
        key, at = _bytes(raw, at)
        value, at = _bytes(raw, at)
        yield Record(base + offset, first_ts + ts, key, value)
        at = end


def _bytes(raw: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _varint(raw, at)
    if length < 0:
        return None, at
    return raw[at : at + length], at + length


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number, and the position of the next."""
    found = shift = 0
    while True:
        byte = raw[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (found >> 1) ^ -(found & 1), at
        shift += 7
