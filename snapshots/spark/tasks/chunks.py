"""Chunks: sorted runs of changes, cut small, as they travel from the tasks that fold to those that write."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from snapshots.format.parts import begins_part

from .columns import Columns, KeysOf, columns_of, ordered, united
from .tallying import Tally

CHUNK_BYTES = 256 << 10
"""Of the keys and values of a chunk, before it is compressed; the row that passes it is the last."""
_MERGE_BYTES = 8 << 20
_CHANGE = pa.schema([("key", pa.binary()), ("value", pa.binary())])

FIELDS = (
    "first binary, last binary, size bigint, begins array<binary>, gone array<binary>, data binary,"
    " tally binary"
)
"""Of a chunk in Spark, with which :func:`table` agrees. ``begins`` and ``gone``: the keys that begin a part,
of rows that are put and deleted."""
_TABLE = pa.schema([
    ("first", pa.binary()), ("last", pa.binary()), ("size", pa.int64()),
    ("begins", pa.list_(pa.binary())), ("gone", pa.list_(pa.binary())), ("data", pa.binary()),
    ("tally", pa.binary()),
])  # fmt: skip


class Chunk(NamedTuple):
    """One chunk."""

    first: bytes
    last: bytes
    size: int
    begins: list[bytes]
    gone: list[bytes]
    data: bytes
    tally: bytes
    """Of all that is put by the run that the chunk begins (:mod:`.tallying`); of other chunks, empty."""


def chunks_of(changes: Mapping[bytes, bytes | None]) -> Iterator[Chunk]:
    """The chunks of changes, which are a run, in the order of their keys."""
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
    """A chunk as Spark takes it."""
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
    """The changes of a chunk."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return united([Columns(*batch.columns) for batch in reader])


class _Run:
    """What is left of a chunk."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._keys = KeysOf(columns.keys)
        self._at = 0

    def upto(self, bound: bytes | None) -> Columns:
        """Take what comes before ``bound``."""
        begin = self._at
        self._at = len(self._keys) if bound is None else bisect_left(self._keys, bound, begin)
        return self._columns.slice(begin, self._at)

    @property
    def ended(self) -> bool:
        return self._at == len(self._keys)


def merged(chunks: Iterable[tuple[bytes, bytes]], low: bytes, high: bytes | None) -> Iterator[Columns]:
    """The changes from ``low`` up to ``high`` in key order, in batches.

    ``chunks``: first keys and data, ascending by first keys, with no key in two of them. In memory are
    those that overlap at one key, and a little more.
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
