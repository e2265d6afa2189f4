"""The rows of the embedded log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.log_format.records import Entry, Record
from registry.log.embedded.layout import BadRecord, pack, unpack

OFFSET = (7).to_bytes(8, "big")


@given(st.binary(max_size=9), st.none() | st.binary(max_size=9), st.data())
def test_a_record_with_a_changed_bit_is_not_read(
    key: bytes, value: bytes | None, data: st.DataObject
) -> None:
    raw = pack(OFFSET, 1_000, Entry(key, value))
    assert unpack(OFFSET, raw) == Record(7, 1_000, key, value)
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    changed = (int.from_bytes(raw, "big") ^ (1 << bit)).to_bytes(len(raw), "big")
    with pytest.raises(BadRecord):
        unpack(OFFSET, changed)
    with pytest.raises(BadRecord):
        unpack((8).to_bytes(8, "big"), raw)
