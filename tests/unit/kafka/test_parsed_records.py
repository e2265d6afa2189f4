"""Batches whose header keys are not UTF-8 are parsed as aiokafka parses all others."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from registry.log.contract import DamagedLog
from registry.log.kafka import record_batches
from registry.log.kafka.record_batches import records_of, runs, with_base_offset
from tests.support.kafka_batches import with_header_key

nullable = st.none() | st.binary(max_size=300)
records = st.lists(
    st.tuples(
        st.integers(0, 1 << 40), nullable, nullable,
        st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3),
    ),
    min_size=1, max_size=8,
)  # fmt: skip
codecs = st.sampled_from(range(5))


def built(said: list[tuple[int, bytes | None, bytes | None, Any]], codec: int) -> bytes:
    builder: Any = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for offset, each in enumerate(said):
        builder.append(offset, *each)
    return bytes(builder.build())


def members(found: Any) -> list[tuple[Any, ...]]:
    return [(each.offset, each.timestamp, each.key, each.value, list(each.headers)) for each in found]


@given(records, codecs, st.booleans())
def test_a_batch_is_parsed_as_by_aiokafka(said: Any, codec: int, append_time: bool) -> None:
    raw = bytearray(with_base_offset(built(said, codec), 1234))
    if append_time:
        raw[22] |= 0x08
    batch: Any = MemoryRecords(bytes(raw)).next_batch()
    assert members(record_batches._parse(bytes(raw))) == members(batch)


@given(st.binary(min_size=3, max_size=20), codecs)
def test_any_header_key_is_read_and_the_records_around_it(key: bytes, codec: int) -> None:
    plain = [(1, b"k", b"v", [])]
    odd = with_header_key(built([(1, b"a", None, [("x" * len(key), b"y")])], 0), b"x" * len(key), key)
    data = plain_at(0, plain, codec) + with_base_offset(odd, 1) + plain_at(2, plain, codec)
    found = [record for run in runs(data, 0) for record in run]
    assert [(each.offset, each.key) for each in found] == [(0, b"k"), (1, b"a"), (2, b"k")]
    batches = MemoryRecords(data)
    batches.next_batch()
    batch: Any = batches.next_batch()
    (record,) = records_of(batch, data)
    assert record.headers == [(key.decode("utf-8", "replace"), b"y")]


def plain_at(offset: int, said: Any, codec: int) -> bytes:
    return with_base_offset(built(said, codec), offset)


@pytest.mark.parametrize("cut", [1, 2, 5, 9])
def test_a_record_that_ends_too_soon_is_damage(cut: int) -> None:
    raw = with_header_key(built([(1, b"key", b"value", [("xyz", b"y")])], 0), b"xyz", b"\xff\xfe\xfd", cut)
    with pytest.raises(DamagedLog, match="cannot be read"):
        list(runs(raw, 0))
