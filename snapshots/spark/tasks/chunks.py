"""Chunks: pieces of sorted runs of changes, on their way from tasks that fold to tasks that write.

A run spans all keys, so its chunks overlap with many ranges. Before they travel, each is cut where the ranges
begin: a range gets its own rows and no others, and each row travels once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from .columns import Columns, KeysOf, concatenate, sort_rows
from .summaries import FoldSummary

# Uncompressed bytes of a chunk's keys and values; the row that passes this bound is the last.
CHUNK_BYTES = 256 << 10
_MERGE_BYTES = 32 << 20
# Packed bytes that are sent to Java at once; the row that passes this bound is the last.
SENT_BYTES = 2 << 20
_CHANGE = pa.schema([("key", pa.binary()), ("value", pa.binary())])

# What a task that folds returns to Spark: chunks, and at its end one row with its summary and no data.
FOLDED = "first binary, last binary, data binary, summary binary"
_FOLDED = pa.schema([(name, pa.binary()) for name in ("first", "last", "data", "summary")])
# Pieces of chunks with the number of their range, and a number that Spark's hash puts into its partition.
PIECES = "place bigint, range int, first binary, data binary"
_PIECES = pa.schema(
    [("place", pa.int64()), ("range", pa.int32()), ("first", pa.binary()), ("data", pa.binary())]
)
_T_co = TypeVar("_T_co", covariant=True)


class BadChunk(Exception):
    """A chunk was damaged on its way; it can only be made again."""


class Shared(Protocol[_T_co]):
    """A value that each executor gets once: Spark's broadcast variable."""

    @property
    def value(self) -> _T_co:
        """The value."""
        ...


class Chunk(NamedTuple):
    """A piece of a sorted run of changes."""

    first: bytes
    last: bytes
    data: bytes


class Cuts(NamedTuple):
    """Where chunks are cut."""

    # The first keys of the ranges, ascending; the first one is empty.
    lows: Sequence[bytes]
    # For each range, the number that its pieces carry.
    places: Sequence[int]


def chunks_of(run: Columns, summary: FoldSummary) -> Iterator[Chunk]:
    """Yield the chunks of a run of changes, given in any order, and add the run to the summary."""
    columns = sort_rows(run)
    summary.add(columns)
    ends, keys, begun, done = columns.ends(), KeysOf(columns.keys), 0, 0
    while begun < len(keys):
        upto = min(int(np.searchsorted(ends, done + CHUNK_BYTES)) + 1, len(keys))
        first, last = keys[begun], keys[upto - 1]
        summary.weigh(first, int(ends[upto - 1]) - done)
        yield Chunk(first, last, _pack(columns.slice(begun, upto)))
        begun, done = upto, int(ends[upto - 1])


def to_batches(chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
    """Yield chunks in Spark's format."""
    return in_batches(((*chunk, None) for chunk in chunks), _FOLDED)


def in_batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows with packed data in Spark's format: some together, because Java has work with each batch."""
    waiting, size = list[tuple[Any, ...]](), 0
    for row in rows:
        waiting.append(row)
        size += sum(len(cell) for cell in row if isinstance(cell, bytes))
        if size >= SENT_BYTES:
            yield _batch(waiting, schema)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting, schema)


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.record_batch(list(map(pa.array, columns, schema.types)), schema=schema)


def summarize(summary: FoldSummary) -> pa.RecordBatch:
    """Return the summary of a task in Spark's format."""
    return _batch([(None, None, None, summary.dumps())], _FOLDED)


def cut(cuts: Shared[Cuts], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn chunks (first and last key, data) into pieces, none of which is in two ranges."""
    lows, places = cuts.value
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        found = [
            (places[number], number, piece.first, piece.data)
            for chunk in map(Chunk._make, zip(*columns, strict=True))
            for number, piece in _pieces(chunk, lows)
        ]
        yield _batch(found, _PIECES)


def _pieces(chunk: Chunk, lows: Sequence[bytes]) -> Iterator[tuple[int, Chunk]]:
    """Yield the pieces of a chunk with the numbers of their ranges."""
    at, end = bisect_right(lows, chunk.first) - 1, bisect_right(lows, chunk.last)
    if end == at + 1:
        yield at, chunk
        return
    columns = unpack(chunk.data)
    keys, begin = KeysOf(columns.keys), 0
    for number in range(at, end):
        upto = len(keys) if number + 1 == end else bisect_left(keys, lows[number + 1], begin)
        if upto > begin:
            yield number, Chunk(keys[begin], keys[upto - 1], _pack(columns.slice(begin, upto)))
        begin = upto


def _pack(columns: Columns) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, _CHANGE, options=options) as writer:
        writer.write_batch(pa.record_batch(list(columns), schema=_CHANGE))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack(data: bytes) -> Columns:
    """Return the changes of a chunk. Raises :class:`BadChunk`."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise BadChunk(f"a chunk cannot be read: {error}") from error
    return concatenate([Columns(*batch.columns) for batch in batches])


class _Run:
    """The rest of a piece."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._keys = KeysOf(columns.keys)
        self._at = 0
        self.size = columns.keys.nbytes + columns.values.nbytes

    def upto(self, bound: bytes | None) -> Columns:
        """Take the rows before ``bound``."""
        begin = self._at
        self._at = len(self._keys) if bound is None else bisect_left(self._keys, bound, begin)
        return self._columns.slice(begin, self._at)

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._keys)


def merge(pieces: Iterable[tuple[bytes, bytes]]) -> Iterator[Columns]:
    """Yield the changes of a range in key order, in batches.

    ``pieces``: first keys and data, ascending by first keys, with no key in two of them. Only pieces that
    overlap at one key, and a few more, are held in memory.
    """
    runs: list[_Run] = []
    held = 0
    for first, data in pieces:
        if held >= _MERGE_BYTES:
            yield from _merge(runs, first)
            runs = [run for run in runs if not run.is_at_end]
            held = 0
        runs.append(_Run(unpack(data)))
        held += runs[-1].size
    yield from _merge(runs, None)


def _merge(runs: Sequence[_Run], bound: bytes | None) -> Iterator[Columns]:
    pieces = [piece for run in runs if len((piece := run.upto(bound)).keys)]
    if len(pieces) > 1:
        yield sort_rows(concatenate(pieces))
    elif pieces:
        yield pieces[0]
