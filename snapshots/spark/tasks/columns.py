"""Columns of keys and values, and parts encoded from and read into them, without handling single rows.

The parts are byte for byte those that :func:`snapshots.format.parts.part_of` makes of the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapshots.format.location import Location
from snapshots.format.manifest import Part, part_name
from snapshots.format.parts import BATCH_BYTES, BATCH_ROWS, RAW_BYTES_MAX, BadPart, read_batches
from snapshots.format.stored import UnusableSnapshot, read_part

# Columns of a part.
SCHEMA = pa.schema([pa.field(name, pa.binary(), nullable=False) for name in ("key", "value")])
Put = Callable[[str, bytes], None]
_T = TypeVar("_T")


class Columns(NamedTuple):
    """Rows, ascending by key. In changes, a null value deletes the row."""

    keys: pa.BinaryArray
    values: pa.BinaryArray

    def slice(self, begin: int, end: int) -> Columns:
        """Return the rows from ``begin`` up to ``end`` without copying them."""
        return Columns(self.keys.slice(begin, end - begin), self.values.slice(begin, end - begin))

    def ends(self) -> Any:
        """Return the total bytes of keys and values up to and including each row, as an array."""
        return np.cumsum(_lengths(self.keys) + _lengths(self.values))


def without_deletions(changes: Columns) -> Columns:
    """Return changes without those that delete a row."""
    if not changes.values.null_count:
        return changes
    there = pc.is_valid(changes.values)
    return Columns(changes.keys.filter(there), changes.values.filter(there))


def columns_of(rows: Mapping[bytes, bytes | None]) -> Columns:
    """Return rows or changes as columns, in their own order."""
    return Columns(
        pa.array(rows.keys(), pa.binary(), size=len(rows)),
        pa.array(rows.values(), pa.binary(), size=len(rows)),
    )


def sort_rows(rows: Columns) -> Columns:
    """Return the rows in key order."""
    order = pc.sort_indices(rows.keys)
    return Columns(rows.keys.take(order), rows.values.take(order))


def concatenate(pieces: Sequence[Columns]) -> Columns:
    """Return several pieces joined into one."""
    if len(pieces) == 1:
        return pieces[0]
    keys, values = zip(*pieces, strict=True)
    return Columns(pa.concat_arrays(keys), pa.concat_arrays(values))


def to_binary(items: Any) -> pa.BinaryArray:
    """Return the bytes of each item of an array of numpy."""
    size = items.nbytes // len(items)
    ends = np.arange(0, items.nbytes + size, size, dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(items).tobytes())]
    return pa.BinaryArray.from_buffers(pa.binary(), len(items), buffers)


def first_bytes(column: pa.BinaryArray) -> Any:
    """Return the first byte of each item, none of which is empty, as an array of numpy."""
    if not len(column):
        return np.zeros(0, np.uint8)
    _, ends, content = column.buffers()
    begins = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column)]
    return np.frombuffer(content, np.uint8)[begins]


def _lengths(column: pa.BinaryArray) -> Any:
    if not len(column):
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return np.diff(offsets[column.offset : column.offset + len(column) + 1]).astype(np.int64)


class KeysOf:
    """The keys of a column as a sequence that makes them on demand, for looking up a few among many."""

    def __init__(self, keys: pa.BinaryArray) -> None:
        _, offsets, content = keys.buffers()
        self._length = len(keys)
        self._ends = (
            memoryview(offsets).cast("B").cast("i")[keys.offset :] if self._length else memoryview(b"")
        )
        self._content = memoryview(content) if content is not None else memoryview(b"")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < self._length:
            raise IndexError(index)
        return bytes(self._content[self._ends[index] : self._ends[index + 1]])


class ColumnWriter:
    """Writes the parts of one run of rows, in which no key but the first begins a part."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._parts: list[Part] = []
        self._waiting: list[Columns] = []
        self._bytes = 0

    def add(self, rows: Columns) -> None:
        """Add rows."""
        ends, at, done = rows.ends(), 0, 0
        while at < len(rows.keys):
            if self._bytes >= RAW_BYTES_MAX:
                self._end_part()
            room = RAW_BYTES_MAX - self._bytes + done
            upto = min(int(np.searchsorted(ends, room)) + 1, len(rows.keys))
            self._waiting.append(rows.slice(at, upto))
            self._bytes += int(ends[upto - 1]) - done
            at, done = upto, int(ends[upto - 1])

    def _end_part(self) -> None:
        rows, self._waiting, self._bytes = concatenate(self._waiting), [], 0
        content = encode_part(rows)
        sha256 = hashlib.sha256(content).hexdigest()
        name, count = part_name(sha256), len(rows.keys)
        self._put(name, content)
        first, last = rows.keys[0].as_py(), rows.keys[count - 1].as_py()
        self._parts.append(Part(name, count, len(content), sha256, first, last))

    def finish(self) -> list[Part]:
        """End the last part; return all parts in key order."""
        if self._waiting:
            self._end_part()
        return self._parts


def encode_part(rows: Columns) -> bytes:
    """Return the content of a part's file."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        for begin, end in _batches(rows):
            columns = [_alone(column) for column in rows.slice(begin, end)]
            writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _alone(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return a copy of a slice's offsets and content: Arrow would write a few bytes around the slice too."""
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = int(ends[0]), int(ends[-1])
    held = content.slice(first, last - first) if content is not None else None
    return pa.BinaryArray.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(ends - ends[0]), held])


def _batches(rows: Columns) -> Iterator[tuple[int, int]]:
    ends, begun, done = rows.ends(), 0, 0
    while begun < len(ends):
        cut = int(np.searchsorted(ends, done + BATCH_BYTES)) + 1
        upto = min(begun + BATCH_ROWS, cut, len(ends))
        yield begun, upto
        begun, done = upto, int(ends[upto - 1])


def read_columns(content: bytes) -> Columns:
    """Return the rows of a part's file. Raises :class:`snapshots.format.parts.BadPart`."""
    return concatenate([Columns(*batch.columns) for batch in _some(read_batches(content))])


def read_keys(content: bytes) -> pa.BinaryArray:
    """Return the keys of a part's file without decompressing the values. Raises as :func:`read_columns`."""
    return pa.concat_arrays([batch.column(0) for batch in _some(read_batches(content, only_keys=True))])


def _some(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    found = list(batches)
    if not found:
        raise BadPart("it has no rows")
    return found


def columns_of_part(location: Location, id: str, part: Part) -> Columns:
    """Return the rows of a part. Raises as :func:`snapshots.format.stored.read_part`."""
    return _check_part(part, read_columns, read_part(location, id, part))


def keys_of_part(
    location: Location, id: str, part: Part
) -> tuple[pa.BinaryArray, Callable[[], pa.BinaryArray]]:
    """Return the keys of a part, and a function that decompresses the values. Both raise likewise."""
    content = read_part(location, id, part)
    return _check_part(part, read_keys, content), lambda: _check_part(part, read_columns, content).values


def _check_part(part: Part, reader: Callable[[bytes], _T], content: bytes) -> _T:
    try:
        return reader(content)
    except BadPart as error:
        raise UnusableSnapshot(f"{part.name} is damaged: {error}") from error
