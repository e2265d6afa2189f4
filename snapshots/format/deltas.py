"""Deltas: the rows that later snapshots change in a full one, in files of their own.

The files are like parts (:mod:`.parts`), but a null value deletes its row. Of several deltas that change a
row, the last one counts. Reading merges them into the rows of the parts, in key order and in bounded memory.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING

from registry.domain.rows.view import Change

from .manifest import Delta, Manifest, Part, delta_name
from .parts import BATCH_BYTES, BATCH_ROWS, RAW_BYTES_MAX, Row, encode_rows, read_batches, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

# Returns the content of a file, given the folder and its description.
ReadPart = Callable[[str, Part], bytes]
# Greater than every key.
END = b"\xff" * 512


def delta_parts(changes: Mapping[bytes, bytes | None]) -> Iterator[tuple[Part, bytes]]:
    """Yield the files of a delta with these changes: their descriptions and contents."""
    waiting: list[Change] = []
    size = 0
    for key in sorted(changes):
        value = changes[key]
        waiting.append((key, value))
        size += len(key) + len(value or b"")
        if size >= RAW_BYTES_MAX:
            yield _delta_part(waiting)
            waiting, size = [], 0
    if waiting:
        yield _delta_part(waiting)


def _delta_part(changes: Sequence[Change]) -> tuple[Part, bytes]:
    content = encode_rows(changes, changes=True)
    sha256 = hashlib.sha256(content).hexdigest()
    first, last = changes[0][0], changes[-1][0]
    return Part(delta_name(sha256), len(changes), len(content), sha256, first, last), content


def read_changes(content: bytes) -> Iterator[list[Change]]:
    """Yield the changes in a delta's file, in batches. Raises :class:`.parts.BadPart`."""
    return (list(rows_of(batch)) for batch in read_batches(content, changes=True))


def changes_between(
    manifest: Manifest, read: ReadPart, begin: bytes = b"", end: bytes = END
) -> Iterator[Change]:
    """Yield what the deltas change from key ``begin`` up to ``end``, each key once and in order.

    Holds one batch of each delta in memory. Raises :class:`.parts.BadPart`, and the errors of ``read``.
    """
    # Of equal keys, the first is that of the newest delta.
    streams = (_changes_of(delta, read, begin, end) for delta in reversed(manifest.deltas))
    last = b""
    for key, value in merge(*streams, key=itemgetter(0)):
        if key != last:
            yield key, value
        last = key


def _changes_of(delta: Delta, read: ReadPart, begin: bytes, end: bytes) -> Iterator[Change]:
    for part in parts_between(delta.parts, begin, end):
        for batch in read_batches(read(delta.snapshot, part), changes=True):
            if _overlaps(batch, begin, end):
                yield from (change for change in rows_of(batch) if begin <= change[0] < end)


def _overlaps(batch: pa.RecordBatch, begin: bytes, end: bytes) -> bool:
    keys = batch.column(0)
    return bool(keys[-1].as_py() >= begin and keys[0].as_py() < end)


def parts_between(parts: Sequence[Part], begin: bytes, end: bytes) -> Sequence[Part]:
    """Return the parts that may have keys from ``begin`` up to ``end``."""
    low = bisect_left(parts, begin, key=lambda part: part.last)
    return parts[low : bisect_left(parts, end, low, key=lambda part: part.first)]


def rows_between(
    manifest: Manifest, read: ReadPart, begin: bytes = b"", end: bytes = END
) -> Iterator[Sequence[Row]]:
    """Yield the rows of a snapshot from key ``begin`` up to ``end``, in order and in batches.

    Reads only the files that may have such keys. Raises as :func:`changes_between`.
    """

    def rows_of_parts() -> Iterator[list[Row]]:
        for part in parts_between(manifest.parts, begin, end):
            for batch in read_batches(read(manifest.folder, part)):
                if _overlaps(batch, begin, end):
                    yield [row for row in rows_of(batch) if begin <= row[0] < end]

    merger = ChangeMerger(changes_between(manifest, read, begin, end))
    for rows in rows_of_parts():
        yield from merger.merge(rows)
    yield from merger.rest()


class ChangeMerger:
    """Merges changes, in key order, into batches of rows in key order."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._changes = iter(changes)
        self._next = next(self._changes, None)

    def merge(self, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        """Yield the rows with the changes up to the last of them; ``rows`` itself if there are none."""
        if not rows:
            return
        last = rows[-1][0]
        if self._next is None or self._next[0] > last:
            yield rows
            return
        keys, at = [key for key, _ in rows], 0
        while changes := self._take(last):
            new: list[Row] = []
            for key, value in changes:
                place = bisect_left(keys, key, at)
                new += rows[at:place]
                at = place + (place < len(keys) and keys[place] == key)
                if value is not None:
                    new.append((key, value))
            if new:
                yield new
        if at < len(rows):
            yield rows[at:]

    def rest(self) -> Iterator[Sequence[Row]]:
        """Yield the rows that follow all others, in batches."""
        while changes := self._take(END):
            if rows := [(key, value) for key, value in changes if value is not None]:
                yield rows

    def _take(self, last: bytes) -> list[Change]:
        """Return the next changes up to the key ``last``, at most as many as a batch holds."""
        taken: list[Change] = []
        size = 0
        while (change := self._next) is not None and change[0] <= last:
            taken.append(change)
            size += len(change[0]) + len(change[1] or b"")
            self._next = next(self._changes, None)
            if len(taken) >= BATCH_ROWS or size >= BATCH_BYTES:
                break
        return taken
