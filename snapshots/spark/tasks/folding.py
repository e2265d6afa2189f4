"""Folding the records of owners, each over the rows that it had, into chunks of changes."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from registry.domain.fold.fold import apply_all
from registry.domain.log_format.records import Record
from registry.domain.rows.memory_views import DictView, OverlayView

from .chunks import chunks_of, table

FLUSH_BYTES = 32 << 20
"""Of changes, by a rough count, that are sorted at once."""
BASE_ROW = -1
"""The offset that marks a row of the base among records."""
_ROUGHLY = 300
"""Of what a record brings beside its value."""
TOGETHER = 256
"""Records of owners without rows that are folded at once."""
_EMPTY = DictView()
_OWNER = _OFFSET = itemgetter(0)

Changes = dict[bytes, bytes | None]
Said = tuple[bytes, int, int, bytes | None, bytes | None]
"""Owner, offset, time, key and value of a record; or of a row, with :data:`BASE_ROW`."""


def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From records, and rows of the base, all of an owner behind one another, to chunks.

    An owner's rows are held in memory.
    """
    # What lies about in between has no cycles, and looking for some takes a fifth of the time.
    gc.disable()
    try:
        for changes in _changes(batches):
            for chunk in chunks_of(changes):
                yield table(chunk)
    finally:
        gc.enable()


def _changes(batches: Iterable[pa.RecordBatch]) -> Iterator[Changes]:
    changes: Changes = {}
    waiting: list[Record] = []
    size = 0
    for _, said in groupby(_said(batches), key=_OWNER):
        records, base = [], []
        for _, offset, ts, key, value in said:
            if offset == BASE_ROW:
                base.append((key or b"", value or b""))
            else:
                records.append(Record(offset, ts, key, value))
                size += len(value or b"") + _ROUGHLY
        if base:
            _fold(records, DictView(base), changes)
        else:
            # How owners lie among one another does not matter, and many at once take less time.
            waiting += records
        if len(waiting) >= TOGETHER or size >= FLUSH_BYTES:
            _fold(waiting, _EMPTY, changes)
            waiting = []
        if size >= FLUSH_BYTES:
            yield changes
            changes, size = {}, 0
    _fold(waiting, _EMPTY, changes)
    if changes:
        yield changes


def _fold(records: list[Record], base: DictView, changes: Changes) -> None:
    """Add what whole owners' records change."""
    records.sort(key=_OFFSET)
    own: Changes = {}
    apply_all(OverlayView(base, own), records, own)
    changes.update(own)


def _said(batches: Iterable[pa.RecordBatch]) -> Iterator[Said]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
