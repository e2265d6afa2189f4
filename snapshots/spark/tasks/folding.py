"""Grouping records by owner, and folding them over the owners' earlier rows into chunks of changes."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from registry.domain.fold.fold import apply_all, owner
from registry.domain.log_format.records import DeleteSubjectKey, Record, UnreadableKey, decode_key
from registry.domain.rows.memory_views import DictView, OverlayView

from .chunks import chunks_of, folded, summarized
from .summaries import FoldSummary

# Bytes of changes, roughly, that are sorted at once.
FLUSH_BYTES = 32 << 20
# The offset that marks a row of the base among records.
BASE_ROW = -1
# Bytes of a record's changes besides its value, roughly.
_OVERHEAD_BYTES = 300
# First byte of a record's group: only the key's last record counts, or every one.
LAST, EVERY = b"\0", b"\1"
# Records of owners without rows that are folded at once.
TOGETHER = 256
_EMPTY = DictView()
_OWNER = _OFFSET = itemgetter(0)

Changes = dict[bytes, bytes | None]
# Owner, offset, time, key and value of a record; or of a row, with the offset BASE_ROW.
OwnedRecord = tuple[bytes, int, int, bytes | None, bytes | None]


def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn records and rows of the base into chunks; those of one owner are adjacent.

    An owner's rows are held in memory.
    """
    # There are no reference cycles, and looking for some would take a fifth of the time.
    gc.disable()
    try:
        summary = FoldSummary()
        for changes in _changes(batches):
            for chunk in chunks_of(changes, summary):
                yield folded(chunk)
        yield summarized(summary)
    finally:
        gc.enable()


def _changes(batches: Iterable[pa.RecordBatch]) -> Iterator[Changes]:
    changes: Changes = {}
    waiting: list[Record] = []
    size = 0
    for _, group in groupby(_records(batches), key=_OWNER):
        records, base = [], []
        for _, offset, ts, key, value in group:
            if offset == BASE_ROW:
                base.append((key or b"", value or b""))
            else:
                records.append(Record(offset, ts, key, value))
                size += len(value or b"") + _OVERHEAD_BYTES
        if base:
            _fold(records, DictView(base), changes)
        else:
            # The order of owners does not matter, and folding many at once takes less time.
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
    """Add the changes of whole owners' records."""
    records.sort(key=_OFFSET)
    own: Changes = {}
    apply_all(OverlayView(base, own), records, own)
    changes.update(own)


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[OwnedRecord]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def group_of(key: bytes | None) -> bytes | None:
    """Return ``LAST`` or ``EVERY``, followed by the owner; ``None`` for no key.

    ``EVERY`` marks soft deletions of subjects: one of a lower version after one of a higher version takes
    nothing back, so more than the key's last record counts, as far as the log still has it.
    """
    if key is None:
        return None
    key = bytes(key)
    try:
        every = isinstance(decode_key(key), DeleteSubjectKey)
    except UnreadableKey:
        every = False
    return (EVERY if every else LAST) + owner(key)
