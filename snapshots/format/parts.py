"""The parts of a snapshot: files of rows in key order, as Arrow IPC streams compressed with zstd.

The keys alone decide where a part begins, so every engine cuts at the same keys, and a part without changes
is the same file in the next snapshot. A part's name is the hash of its content.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, islice
from operator import add, lt
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_intdigest

from .ipc import BadStream, unpacked_bytes
from .manifest import PART_BYTES_MAX, Part, part_name

if TYPE_CHECKING:
    import pyarrow as pa

# Key and value.
Row = tuple[bytes, bytes]

# Bytes of a part's keys and values; the row that passes this bound is the part's last.
RAW_BYTES_MAX = 32 << 20
# A batch within a part ends with the row that passes either bound.
BATCH_ROWS = 8192
BATCH_BYTES = 4 << 20

# Rows of a batch that become Python objects together: few enough for a processor's cache.
PIECE_ROWS = 1024

# LMDB has no longer keys.
KEY_BYTES_MAX = 511

_MASK = (1 << 15) - 1


class BadPart(Exception):
    """The bytes are not a part; the text says why."""


def begins_part(key: bytes) -> bool:
    """Return whether a part begins with this key, in any snapshot; one key in 32,768 does."""
    return not xxh3_64_intdigest(key) & _MASK


def beginning(keys: Iterable[bytes]) -> list[int]:
    """Return the places of the keys with which a part begins."""
    mask = _MASK
    return [at for at, found in enumerate(map(xxh3_64_intdigest, keys)) if not found & mask]


def cut(batches: Iterable[Sequence[Row]]) -> Iterator[list[Row]]:
    """Yield the rows of each part, from rows in key order. Raises :class:`ValueError` if they are not.

    The cuts depend on the rows alone, not on their batches.
    """
    waiting: list[Row] = []
    size, last_key = 0, b""
    for rows in batches:
        if not rows:
            continue
        keys = [key for key, _ in rows]
        if not last_key < keys[0] or not all(map(lt, keys, islice(keys, 1, None))):
            raise ValueError(f"rows are not in key order near {keys[0]!r}")
        last_key = keys[-1]
        begun = 0
        for at, (key, value) in enumerate(rows):
            if size >= RAW_BYTES_MAX or (size and not xxh3_64_intdigest(key) & _MASK):
                yield waiting + list(rows[begun:at])
                waiting, begun, size = [], at, 0
            size += len(key) + len(value)
        waiting += rows[begun:]
    if waiting:
        yield waiting


def part_of(rows: list[Row]) -> tuple[Part, bytes]:
    """Return the part that holds these rows, and the content of its file."""
    content = encode_rows(rows)
    sha256 = hashlib.sha256(content).hexdigest()
    return Part(part_name(sha256), len(rows), len(content), sha256, rows[0][0], rows[-1][0]), content


def read_batches(
    data: bytes | bytearray, *, only_keys: bool = False, changes: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a part before their rows become Python objects, for :func:`rows_of`.

    Another thread may decompress them. With ``only_keys``, values are not decompressed. ``changes``: of the
    file of a delta, where a value may be null (:mod:`.deltas`). Whatever ``data`` is, batches have rows, in
    key order and with keys that a store accepts, and need bounded memory. Raises :class:`BadPart`.
    """
    import pyarrow as pa  # noqa: PLC0415 - as in schema_of

    _check_unpacked(data)
    schema, previous = schema_of(changes=changes), b""
    # One thread decompresses: others would take a processor from the one that uses the rows.
    options = pa.ipc.IpcReadOptions(use_threads=False)
    if only_keys:
        schema, options.included_fields = pa.schema([schema.field(0)]), [0]
    try:
        with pa.ipc.open_stream(pa.py_buffer(data), options=options) as reader:
            if reader.schema != schema:
                raise BadPart(f"its columns are {reader.schema.names}, not those of a part")
            for batch in reader:
                batch.validate(full=True)
                columns = batch.columns[:1] if changes else batch.columns
                if any(column.null_count for column in columns):
                    raise BadPart("it has rows without a key or value")
                if not 0 < batch.num_rows <= BATCH_ROWS:
                    raise BadPart(f"it has a batch of {batch.num_rows} rows")
                previous = _check_keys(batch.column(0), previous)
                yield batch
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadPart(f"it cannot be read: {error}") from error


def _check_unpacked(data: bytes | bytearray) -> None:
    """Raise :class:`BadPart` if unpacking would take more memory than any part needs."""
    total = 0
    try:
        for size in unpacked_bytes(data):
            total += size
            if total > PART_BYTES_MAX:
                raise BadPart(f"it unpacks to {total} bytes or more, and a part to {PART_BYTES_MAX} at most")
    except BadStream as error:
        raise BadPart(f"it cannot be read: {error}") from error


def _check_keys(keys: pa.BinaryArray, previous: bytes) -> bytes:
    """Return the last key. Raises :class:`BadPart` for keys out of order, and those no store accepts."""
    import pyarrow.compute as pc  # noqa: PLC0415 - as in schema_of

    lengths = pc.min_max(pc.binary_length(keys)).as_py()
    if not 0 < lengths["min"] <= lengths["max"] <= KEY_BYTES_MAX:
        raise BadPart(f"it has keys of {lengths['min']} to {lengths['max']} bytes")
    ascending = pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1)), min_count=0).as_py()
    if not ascending or keys[0].as_py() <= previous:
        raise BadPart("its rows are out of order")
    last: bytes = keys[len(keys) - 1].as_py()
    return last


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Return the rows of a batch, most of which become Python objects only when they are taken."""
    return chain.from_iterable(pieces_of(batch))


def pieces_of(batch: pa.RecordBatch) -> Iterator[Iterator[Row]]:
    """Yield the rows of a batch in pieces, each of which becomes Python objects when it is yielded."""
    # Twice as fast with the garbage collector off; rows have no cycles. Slicing the buffers in Python takes
    # three times as long.
    for begun in range(0, batch.num_rows, PIECE_ROWS):
        piece = batch.slice(begun, PIECE_ROWS)
        yield zip(piece.column(0).to_pylist(), piece.column(1).to_pylist(), strict=True)


@cache
def schema_of(*, changes: bool) -> Any:
    """Return the columns of a part, or of the file of a delta."""
    # Imported late: a process that neither reads nor writes parts saves half a second and 60 MB.
    import pyarrow as pa  # noqa: PLC0415

    return pa.schema([
        pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=changes)
    ])  # fmt: skip


def encode_rows(rows: Sequence[tuple[bytes, bytes | None]], *, changes: bool = False) -> bytes:
    """Return the content of the file of a part, or of a delta."""
    import pyarrow as pa  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    schema, columns = schema_of(changes=changes), tuple(zip(*rows, strict=True))
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for begun, end in _batches(*columns):
            batch = [pa.array(column[begun:end], pa.binary()) for column in columns]
            writer.write_batch(pa.record_batch(batch, schema=schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _batches(keys: Sequence[bytes], values: Sequence[bytes | None]) -> Iterator[tuple[int, int]]:
    """Yield where each batch begins and ends."""
    sizes = (len(value or b"") for value in values)
    ends = list(accumulate(map(add, map(len, keys), sizes), initial=0))
    begun = 0
    while begun < len(keys):
        full = bisect_left(ends, ends[begun] + BATCH_BYTES, begun + 1)
        end = min(full, begun + BATCH_ROWS, len(keys))
        yield begun, end
        begun = end
