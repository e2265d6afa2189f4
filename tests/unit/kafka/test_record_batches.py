"""Batches of records: what is damaged is noticed, and where a large append may be cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.log_format.records import Entry
from registry.log.contract import DamagedLog
from registry.log.kafka import record_batches
from registry.log.kafka.record_batches import NO_PRODUCER, build, runs, with_base_offset

# Where the checksum stands in a batch; it covers all that follows.
CHECKSUM_AT = 17
BATCH = with_base_offset(build([Entry(b"a", b"1"), Entry(b"b", None)], NO_PRODUCER, -1, 1).data, 7)


@given(st.integers(8 * CHECKSUM_AT, 8 * len(BATCH) - 1))
def test_a_batch_with_a_changed_bit_is_damaged(bit: int) -> None:
    data = bytearray(BATCH)
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedLog):
        list(runs(bytes(data), 7))


def test_a_batch_that_is_whole_is_read_from_any_offset() -> None:
    assert [[each.key for each in run] for run in runs(BATCH, 7)] == [[b"a", b"b"]]
    assert [[each.key for each in run] for run in runs(BATCH, 8)] == [[b"b"]]
    assert list(runs(BATCH, 9)) == []


def test_pieces_end_where_they_may() -> None:
    entries = [Entry(b"", bytes(60)) for _ in range(7)]
    sizes = [len(piece) for piece in record_batches.pieces(entries, (), 300)]
    assert sizes == [3, 3, 1]
    assert [len(piece) for piece in record_batches.pieces(entries, (2, 4, 6), 300)] == [2, 2, 3]
    assert [len(piece) for piece in record_batches.pieces(entries, (1, 6), 300)] == [1, 3, 3], (
        "a long one is cut"
    )
    assert [len(piece) for piece in record_batches.pieces(entries, (5,), 10)] == [1] * 7
