"""Bundles: records on their way from tasks that read the log to tasks that fold.

Spark would handle each record several times on that way. So tasks that read sort what they have read by the
hash of the owner, then by owner, version and offset, and send it in bundles, each of which goes to one task
that folds. There, bundles come by their first record, and are merged.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest

from .chunks import BadChunk, Shared, in_batches
from .columns import KeysOf, to_binary
from .owned_records import SCHEMA, with_owners

# Bytes of records, roughly, that are sorted at once.
SORTED_BYTES = 32 << 20
# Bytes of a bundle before it is packed; the record that passes this bound is the last.
BUNDLE_BYTES = 1 << 20
# Records that are handed on at once.
HANDED_ON = 4_000
_MERGE_BYTES = 32 << 20
_RECORD_BYTES = 100
_HASHES = 1 << 64

# With the number that Spark's hash puts into the partition of the task that folds.
BUNDLES = "place bigint, first binary, data binary"
_BUNDLES = pa.schema([("place", pa.int64()), ("first", pa.binary()), ("data", pa.binary())])
# Hash, owner, version and offset, so that ranks sort as bytes like records.
_RANK = "rank"
_RANKED = pa.schema([(_RANK, pa.binary()), *(SCHEMA.field(name) for name in ("ts", "key", "value"))])
_HASH_BYTES = 8
_TAIL = np.dtype([("version", ">u4"), ("offset", ">u8")])
_NOTHING = pa.scalar(b"", pa.binary())


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's collector of cycles: there are none, and looking for some takes a fifth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def read(shared: Shared[Sequence[int]], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn records of the log into bundles; ``shared``: a place for each task that folds."""
    with collector_paused():
        yield from bundle(map(with_owners, batches), shared.value)


def bundle(batches: Iterable[pa.RecordBatch], places: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Turn records, and rows of a base, into bundles."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        waiting.append(_rank(batch))
        size += _size(waiting[-1])
        if size >= SORTED_BYTES:
            yield from in_batches(_bundles(_sort(waiting), places), _BUNDLES)
            waiting, size = [], 0
    if waiting:
        yield from in_batches(_bundles(_sort(waiting), places), _BUNDLES)


def _rank(batch: pa.RecordBatch) -> pa.RecordBatch:
    hashes = np.array([xxh3_64_intdigest(owner) for owner in batch["owner"].to_pylist()], ">u8")
    tails = np.empty(len(batch), _TAIL)
    tails["version"] = batch["version"].to_numpy()
    tails["offset"] = batch["offset"].to_numpy() + 1  # rows of a base have -1
    ranks = pc.binary_join_element_wise(to_binary(hashes), batch["owner"], to_binary(tails), _NOTHING)
    return pa.record_batch([ranks, batch["ts"], batch["key"], batch["value"]], schema=_RANKED)


def _size(batch: pa.RecordBatch) -> int:
    lengths = pc.sum(pc.binary_length(batch["value"])).as_py() or 0
    return lengths + _RECORD_BYTES * len(batch)


def _sort(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    return whole.take(pc.sort_indices(whole[_RANK]))


def _bundles(run: pa.RecordBatch, places: Sequence[int]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the bundles of a sorted run with their places: of hashes, each task gets an equal range."""
    ranks = KeysOf(run[_RANK])
    bounds = [(number * _HASHES // len(places)).to_bytes(_HASH_BYTES) for number in range(1, len(places))]
    begins = [0, *(bisect_left(ranks, bound) for bound in bounds), len(run)]
    sizes = pc.binary_length(run["value"]).fill_null(0).to_numpy() + _RECORD_BYTES
    ends = np.cumsum(sizes, dtype=np.int64)
    for place, begin, end in zip(places, begins, begins[1:], strict=False):
        begun = begin
        while begun < end:
            done = int(ends[begun - 1]) if begun else 0
            upto = min(int(np.searchsorted(ends, done + BUNDLE_BYTES)) + 1, end)
            yield place, ranks[begun], _pack(run.slice(begun, upto - begun))
            begun = upto


def _pack(records: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, _RANKED, options=options) as writer:
        writer.write_batch(records)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unpack(data: bytes) -> pa.RecordBatch:
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise BadChunk(f"a bundle of records cannot be read: {error}") from error
    return batch


def records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn bundles (first record and data), ascending, into records and rows in the order of their ranks.

    Only bundles that overlap at one record, and a few more, are held in memory. Raises :class:`BadChunk`.
    """
    for run in _merge(batches):
        for begin in range(0, len(run), HANDED_ON):
            yield _unrank(run.slice(begin, HANDED_ON))


def _merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    added = 0
    for batch in batches:
        for first, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if added >= _MERGE_BYTES:
                run = _sort(held)
                upto = bisect_left(KeysOf(run[_RANK]), first)
                yield run.slice(0, upto)
                held, added = [run.slice(upto)], 0
            held.append(_unpack(data))
            added += _size(held[-1])
    if held:
        yield _sort(held)


def _unrank(run: pa.RecordBatch) -> pa.RecordBatch:
    """Return records with the columns of :mod:`.owned_records`."""
    ranks = run[_RANK]
    tails = _fixed_items(pc.binary_slice(ranks, -_TAIL.itemsize), _TAIL)
    columns = [
        pc.binary_slice(ranks, _HASH_BYTES, -_TAIL.itemsize),
        pa.array(tails["version"].astype(np.int32)),
        pa.array(tails["offset"].astype(np.int64) - 1),
        run["ts"],
        run["key"],
        run["value"],
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def _fixed_items(column: pa.BinaryArray, kind: np.dtype[Any]) -> Any:
    """Return a column of items of one size as an array."""
    _, ends, content = column.buffers()
    begin = int(np.frombuffer(ends, np.int32)[column.offset])
    return np.frombuffer(content, kind, len(column), begin)
