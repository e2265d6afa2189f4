"""Chunks: pieces of sorted runs of changes, on their way from tasks that fold to tasks that write."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from snapshots.format.parts import begins_part

from .columns import Columns, KeysOf, columns_of, ordered, united
from .tallying import Tally

# Uncompressed bytes of a chunk's keys and values; the row that passes this bound is the last.
CHUNK_BYTES = 256 << 10
_MERGE_BYTES = 8 << 20
_CHANGE = pa.schema([("key", pa.binary()), ("value", pa.binary())])

# Columns of a chunk in Spark, as :func:`table` writes them. ``begins`` and ``gone`` are the keys that begin a
# part, of rows that are put and deleted.
FIELDS = (
    "first binary, last binary, size bigint, begins array<binary>, gone array<binary>, data binary,"
    " tally binary"
)
_TABLE = pa.schema([
    ("first", pa.binary()), ("last", pa.binary()), ("size", pa.int64()),
    ("begins", pa.list_(pa.binary())), ("gone", pa.list_(pa.binary())), ("data", pa.binary()),
    ("tally", pa.binary()),
])  # fmt: skip


class BadChunk(Exception):
    """A chunk was damaged on its way; it can only be made again."""


class Chunk(NamedTuple):
    """A piece of a sorted run of changes."""

    first: bytes
    last: bytes
    size: int
    begins: list[bytes]
    gone: list[bytes]
    data: bytes
    # Tally of all rows that the run puts, in its first chunk (see .tallying); empty in others.
    tally: bytes


def chunks_of(changes: Mapping[bytes, bytes | None]) -> Iterator[Chunk]:
    """Yield the chunks of a run of changes, in key order."""
    tally = Tally()
    tally.put_all(changes)
    told = tally.dumps()
    columns = ordered(columns_of(changes))
    marks = sorted((key, changes[key] is not None) for key in changes if begins_part(key))
    mark_keys = [key for key, _ in marks]
    ends, keys, begun, done = columns.ends(), KeysOf(columns.keys), 0, 0
    while begun < len(keys):
        upto = min(int(np.searchsorted(ends, done + CHUNK_BYTES)) + 1, len(keys))
        first, last = keys[begun], keys[upto - 1]
        within = marks[bisect_left(mark_keys, first) : bisect_right(mark_keys, last)]
        yield Chunk(
            first,
            last,
            int(ends[upto - 1]) - done,
            [key for key, there in within if there],
            [key for key, there in within if not there],
            _packed(columns.slice(begun, upto)),
            told,
        )
        begun, done, told = upto, int(ends[upto - 1]), b""


def table(chunk: Chunk) -> pa.RecordBatch:
    """Return a chunk in Spark's format."""
    return pa.record_batch(
        [pa.array([each], kind) for each, kind in zip(chunk, _TABLE.types, strict=True)], schema=_TABLE
    )


def _packed(columns: Columns) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, _CHANGE, options=options) as writer:
        writer.write_batch(pa.record_batch(list(columns), schema=_CHANGE))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(data: bytes) -> Columns:
    """Return the changes of a chunk. Raises :class:`BadChunk`."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise BadChunk(f"a chunk cannot be read: {error}") from error
    return united([Columns(*batch.columns) for batch in batches])


class _Run:
    """The rest of a chunk."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._keys = KeysOf(columns.keys)
        self._at = 0

    def upto(self, bound: bytes | None) -> Columns:
        """Take the rows before ``bound``."""
        begin = self._at
        self._at = len(self._keys) if bound is None else bisect_left(self._keys, bound, begin)
        return self._columns.slice(begin, self._at)

    @property
    def ended(self) -> bool:
        return self._at == len(self._keys)


def merged(chunks: Iterable[tuple[bytes, bytes]], low: bytes, high: bytes | None) -> Iterator[Columns]:
    """Yield the changes from ``low`` up to ``high`` in key order, in batches.

    ``chunks``: first keys and data, ascending by first keys, with no key in two of them. Only chunks that
    overlap at one key, and a few more, are held in memory.
    """
    runs: list[_Run] = []
    held = 0
    for first, data in chunks:
        if held >= _MERGE_BYTES:
            yield from _merge(runs, min(first, high) if high is not None else first)
            runs = [run for run in runs if not run.ended]
            held = 0
        run = _Run(unpacked(data))
        run.upto(low)
        runs.append(run)
        held += CHUNK_BYTES
    yield from _merge(runs, high)


def _merge(runs: Sequence[_Run], bound: bytes | None) -> Iterator[Columns]:
    pieces = [piece for run in runs if len((piece := run.upto(bound)).keys)]
    if len(pieces) > 1:
        yield ordered(united(pieces))
    elif pieces:
        yield pieces[0]
