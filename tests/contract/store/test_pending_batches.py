"""Batches that the second process folds over others which are not committed yet."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from registry.domain.log_format.records import Record
from registry.domain.rows import layout
from registry.domain.rows.memory_views import _SortedKeys
from registry.store.folding.parallel_fold import Batch, Folded, Pending, _fold
from registry.store.open import open_store
from registry.store.reader import StoreReader


def version(offset: int, value: bytes | None = None) -> Record:
    name = b"s%d" % (offset % 100)
    key = b'{"keytype":"SCHEMA","subject":"%b","version":1,"magic":1}' % name
    plain = b'{"subject":"%b","version":1,"id":%d,"schema":"\\"int\\"","deleted":false}' % (name, offset + 1)
    return Record(offset, 0, key, plain if value is None else value)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[StoreReader]:
    store, _ = open_store(tmp_path / "store", "a-log", 0, map_bytes=64 << 20)
    store.close()
    reader = StoreReader(tmp_path / "store")
    yield reader
    reader.close()


def test_a_batch_of_plain_versions_puts_no_pending_rows_in_order(reader: StoreReader) -> None:
    pending: deque[Pending] = deque()
    sorts = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal sorts
        sorts += event == "call" and frame.f_code is _SortedKeys.get.__code__

    for first in range(0, 30, 10):
        batch = Batch([version(offset) for offset in range(first, first + 10)], first + 10)
        sys.setprofile(count)
        folded = _fold(reader, batch, pending)
        sys.setprofile(None)
        assert len(folded.changes) == 30
        assert not folded.known
    assert len(pending) == 3
    assert sorts == 0


def test_a_version_replaces_its_quarantined_record_in_a_pending_batch(reader: StoreReader) -> None:
    pending: deque[Pending] = deque()

    def fold(record: Record) -> Folded:
        return _fold(reader, Batch([record], record.offset + 1), pending)

    (quarantined,) = [key for key, _ in fold(version(7, b"no JSON")).changes]
    assert quarantined.startswith(layout.QUARANTINE)
    fold(version(8))
    assert (quarantined, None) in fold(version(107)).changes
