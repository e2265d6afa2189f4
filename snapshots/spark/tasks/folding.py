"""Folding records over their owners' earlier rows into chunks of changes, in bounded memory.

Records and rows arrive by owner (owners in any order), then by version, then by offset; what an owner has
besides versions comes first (version 0). Versions do not depend on each other; what the others can change in
them are marks of deletion. So a large owner is folded version by version, each with these marks. In memory
are then the last records of one version's keys, and a row for each other key of the owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa

from registry.domain.fold.fold import apply_all
from registry.domain.log_format.records import DeleteSubjectKey, Record, UnreadableKey, decode_key
from registry.domain.rows.memory_views import DictView, OverlayView

from . import bundles
from .chunks import chunks_of, summarize, to_batches
from .columns import Columns, columns_of, concatenate
from .owned_records import BASE_ROW, OTHER, OwnedRecord, is_mark_row
from .plain_versions import PAUSE, PlainBatches
from .summaries import FoldSummary

# Bytes of changes, roughly, that are sorted at once.
FLUSH_BYTES = 64 << 20
# Bytes of an owner's records and rows, roughly, above which it is folded version by version.
OWNER_BYTES = 8 << 20
# Bytes of a record's changes besides its value, roughly.
_OVERHEAD_BYTES = 300
# Records that are folded at once.
TOGETHER = 256
_EMPTY = DictView()
_OWNER, _VERSION = itemgetter(0), itemgetter(1)
_OFFSET = itemgetter(0)

Changes = dict[bytes, bytes | None]


def fold_bundles(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn bundles of records and rows of the base into chunks, and a summary at the end."""
    return fold(bundles.records(batches))


def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn records and rows of the base into chunks, and a summary at the end."""
    with bundles.collector_paused():
        summary = FoldSummary()
        for run in _runs(_changes(batches)):
            yield from to_batches(chunks_of(run, summary))
        yield summarize(summary)


def _runs(pieces: Iterable[Columns]) -> Iterator[Columns]:
    """Unite changes until there are enough of them to be sorted at once."""
    waiting: list[Columns] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += piece.keys.nbytes + piece.values.nbytes
        if size >= FLUSH_BYTES:
            yield concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield concatenate(waiting)


def _changes(batches: Iterable[pa.RecordBatch]) -> Iterator[Columns]:
    """Yield all changes; no key is in two of them."""
    plain = PlainBatches(batches)
    rest = _Fold()
    # Rows of plain versions are handed on as soon as there are any, so that they do not pile up.
    for owner, records in groupby(plain.others(), key=_OWNER):
        if owner == PAUSE[0]:
            for _ in records:
                yield from plain.take()
            continue
        for changes in rest.add(records):
            yield changes
            yield from plain.take()
        yield from plain.take()
    yield from plain.take()
    yield from rest.finish()


class _Fold:
    """Folds owners one by one, and small owners without rows together, which takes less time."""

    def __init__(self) -> None:
        self._waiting: list[Record] = []
        self._size = 0

    def add(self, records: Iterator[OwnedRecord]) -> Iterator[Columns]:
        """Fold the records and rows of one owner."""
        begun, size = [], 0
        for record in records:
            begun.append(record)
            size += _size(record)
            if size >= OWNER_BYTES:
                yield from _by_version(chain(begun, records))
                return
        base, own = _sorted_apart(begun)
        if base:
            yield from _columns(_fold(own, DictView(base)))
            return
        self._waiting += own
        self._size += size
        if len(self._waiting) >= TOGETHER or self._size >= OWNER_BYTES:
            yield from self.finish()

    def finish(self) -> Iterator[Columns]:
        """Fold the records that wait."""
        changes = _fold(self._waiting, _EMPTY)
        self._waiting, self._size = [], 0
        yield from _columns(changes)


def _by_version(records: Iterator[OwnedRecord]) -> Iterator[Columns]:
    """Fold one owner version by version."""
    marks, held = _Marks([], []), Changes()
    for version, group in groupby(records, key=_VERSION):
        if version == OTHER:
            held = _fold_others(group, marks)
            yield from _columns(held)
        else:
            base, own = _sorted_apart(_last_of_keys(group))
            changes = _fold([*own, *marks.records], DictView([*marks.rows, *base]))
            yield from _columns({key: value for key, value in changes.items() if key not in held})


class _Marks(NamedTuple):
    """Marks of deletion among an owner's other records and rows."""

    records: list[Record]
    rows: list[tuple[bytes, bytes]]


def _fold_others(group: Iterator[OwnedRecord], marks: _Marks) -> Changes:
    """Return the changes of an owner's other records, which come by offset; their rows are held in memory."""
    base, changes, waiting = list[tuple[bytes, bytes]](), Changes(), list[Record]()
    view = OverlayView(_EMPTY, changes)
    for _, _, offset, ts, key, value in group:
        if offset == BASE_ROW:
            base.append((key or b"", value or b""))
            continue
        if base:
            marks.rows.extend(row for row in base if is_mark_row(row[0]))
            view, base = OverlayView(DictView(base), changes), []
        record = Record(offset, ts, key, value)
        if _is_mark(key):
            marks.records.append(record)
        waiting.append(record)
        if len(waiting) >= TOGETHER:
            apply_all(view, waiting, changes)
            waiting = []
    apply_all(view, waiting, changes)
    marks.rows.extend(row for row in base if is_mark_row(row[0]))
    return changes


def _last_of_keys(group: Iterable[OwnedRecord]) -> list[OwnedRecord]:
    """Return the records and rows of a version without those that do not count."""
    return list({(record[2] == BASE_ROW, record[4]): record for record in group}.values())


def _is_mark(key: bytes | None) -> bool:
    try:
        return isinstance(decode_key(key), DeleteSubjectKey)
    except UnreadableKey:
        return False


def _sorted_apart(group: Iterable[OwnedRecord]) -> tuple[list[tuple[bytes, bytes]], list[Record]]:
    """Return rows of the base, and records."""
    base, own = [], []
    for _, _, offset, ts, key, value in group:
        if offset == BASE_ROW:
            base.append((key or b"", value or b""))
        else:
            own.append(Record(offset, ts, key, value))
    return base, own


def _fold(records: list[Record], base: DictView) -> Changes:
    """Return the changes of records to rows."""
    records.sort(key=_OFFSET)
    changes: Changes = {}
    apply_all(OverlayView(base, changes), records, changes)
    return changes


def _columns(changes: Changes) -> Iterator[Columns]:
    if changes:
        yield columns_of(changes)


def _size(record: OwnedRecord) -> int:
    return len(record[5] or b"") + _OVERHEAD_BYTES
