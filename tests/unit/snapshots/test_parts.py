"""Parts: the same rows give the same files, in whatever batches they come, cut alike in every snapshot."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import shake_128
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshots.building.base_view import SparsePart
from snapshots.format import parts
from snapshots.format.manifest import PART_BYTES_MAX, Part
from snapshots.format.parts import (
    BATCH_ROWS,
    KEY_BYTES_MAX,
    PIECE_ROWS,
    BadPart,
    Row,
    begins_part,
    cut,
    part_of,
    read_batches,
    rows_of,
    schema_of,
)  # fmt: skip
from snapshots.format.writer import OverlappingRuns, WrittenRows, merge_runs
from tests.support.sample_snapshots import read_rows


def written(batches: Iterable[Sequence[Row]]) -> tuple[list[Part], dict[str, bytes]]:
    made = [part_of(rows) for rows in cut(batches)]
    return [part for part, _ in made], {part.name: content for part, content in made}


def read(found: list[Part], files: dict[str, bytes]) -> list[Row]:
    return [row for part in found for batch in read_rows(files[part.name]) for row in batch]


@cache
def many_rows() -> list[Row]:
    chance = random.Random(7)
    return sorted({b"V" + chance.randbytes(9): chance.randbytes(12) for _ in range(150_000)}.items())


def test_rows_come_back_and_files_are_what_is_said_of_them() -> None:
    rows = many_rows()
    found, files = written([rows])
    assert read(found, files) == rows
    assert len(found) > 1
    for part in found:
        content = files[part.name]
        assert (part.size, part.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        own = [row for batch in read_rows(content) for row in batch]
        assert (part.rows, part.first, part.last) == (len(own), own[0][0], own[-1][0])


@pytest.mark.parametrize("size", [1, 7, 8192, 100_000])
def test_the_sizes_of_batches_do_not_matter(size: int) -> None:
    rows = many_rows()[: 20_000 if size < 8 else None]
    assert written(rows[at : at + size] for at in range(0, len(rows), size)) == written([rows])


def test_runs_that_begin_with_keys_that_begin_parts_give_the_same_files() -> None:
    rows = many_rows()
    begins = [at for at, (key, _) in enumerate(rows) if begins_part(key) and at]
    assert begins
    found, files = [], {}
    for start, end in pairwise([0, *begins, len(rows)]):
        run, more = written([rows[start:end]])
        found += run
        files |= more
    assert (found, files) == written([rows])


def test_a_row_that_is_put_in_changes_one_part_alone() -> None:
    rows = many_rows()
    before, _ = written([rows])
    at = len(rows) // 2
    new = (rows[at][0] + b"\0", b"new")
    assert not begins_part(new[0])
    after, _ = written([[*rows[: at + 1], new, *rows[at + 1 :]]])
    assert len({part.name for part in before} ^ {part.name for part in after}) == 2


def test_a_part_ends_with_the_row_that_passes_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "RAW_BYTES_MAX", 1000)
    rows = [(b"V%03d" % number, bytes(100)) for number in range(40)]
    found, files = written([rows])
    assert [part.rows for part in found] == [10, 10, 10, 10]
    assert read(found, files) == rows


@given(st.dictionaries(st.binary(min_size=1, max_size=4), st.binary(max_size=9), max_size=30))
def test_any_rows_come_back(rows: dict[bytes, bytes]) -> None:
    ordered = sorted(rows.items())
    assert read(*written([ordered])) == ordered


@pytest.mark.parametrize(
    "batches",
    [[[(b"b", b""), (b"a", b"")]], [[(b"a", b""), (b"a", b"")]], [[(b"b", b"")], [(b"a", b"")]]],
)
def test_rows_out_of_order_are_refused(batches: list[list[Row]]) -> None:
    with pytest.raises(ValueError, match="order"):
        written(batches)


@given(st.binary(max_size=64))
def test_what_is_no_part_is_refused(garbage: bytes) -> None:
    with pytest.raises(BadPart):
        list(read_rows(garbage))


def test_a_part_that_was_cut_or_changed_is_refused_or_differs() -> None:
    rows = many_rows()[:500]
    [part], files = written([rows])
    content = files[part.name]
    chance = random.Random(3)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        try:
            list(read_rows(bytes(damaged)))
        except BadPart:
            continue  # The hash detects damage that causes no error.
    with pytest.raises(BadPart):
        list(read_rows(content[: len(content) // 2]))


def encoded(*batches: list[tuple[bytes, bytes]]) -> bytes:
    """Return a stream of these batches, compressed like a part, whatever rows they have."""
    schema, sink = schema_of(changes=False), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for rows in batches:
            columns = [pa.array([row[at] for row in rows], pa.binary()) for at in (0, 1)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue())


# Two batches, of values that do not compress.
INCOMPRESSIBLE = [(b"V%05d" % each, shake_128(each.to_bytes(4)).digest(300)) for each in range(9_000)]
SPARSE = part_of(INCOMPRESSIBLE)


@settings(max_examples=10)
@given(st.data())
def test_a_row_is_found_without_reading_the_whole_file(data: st.DataObject) -> None:
    (part, content), rows = SPARSE, INCOMPRESSIBLE
    read: list[int] = []

    def read_range(begin: int, length: int) -> bytes:
        read.append(length)
        return content[begin : begin + length]

    found = SparsePart(part, read_range)
    assert list(found.keys) == [key for key, _ in rows]
    assert sum(read) < len(content) / 5, "only the keys"
    index = data.draw(st.integers(0, len(rows) - 1))
    assert found.find(rows[index][0]) == index
    assert found.value(index) == rows[index][1]
    assert found.find(b"W") == len(rows)


@settings(max_examples=40)
@given(st.binary(min_size=1, max_size=8), st.integers(0, 1 << 40))
def test_damage_of_a_part_that_is_read_in_ranges_is_nothing_but_a_bad_part(new: bytes, at: int) -> None:
    part, content = SPARSE
    at %= len(content)
    damaged = content[:at] + new + content[at + len(new) :]
    with suppress(BadPart):
        found = SparsePart(part, lambda begin, length: damaged[begin : begin + length])
        for index in (0, part.rows - 1):
            found.value(index)
    with pytest.raises(BadPart):
        SparsePart(part, lambda begin, length: content[begin : min(begin + length, part.size // 2)])


@pytest.mark.parametrize("content", [b"", b"\xff" * 4 + bytes(4), encoded()])
def test_a_part_without_batches_is_a_bad_part(content: bytes) -> None:
    part = SPARSE[0]._replace(size=max(1, len(content)))
    with pytest.raises(BadPart):
        SparsePart(part, lambda begin, length: content[begin : begin + length])


LONG = sorted((b"V%03d" % number, b"x" * 997) for number in range(100))


def saying(size: int) -> bytes:
    """Return a part of which a buffer says that it unpacks to ``size`` bytes."""
    told, content = struct.pack("<q", 997 * len(LONG)), encoded(LONG)
    assert told in content
    return content.replace(told, struct.pack("<q", size))


# Parts that no build writes: content, rows, first and last key, and why they are refused.
FORGED = [
    (saying(1 << 33), len(LONG), LONG[0][0], LONG[-1][0], "unpacks to"),
    (encoded([(b"V" * 512, b"")]), 1, b"V" * 512, b"V" * 512, "keys of 512"),
    (encoded([(b"Vb", b""), (b"Va", b"")]), 2, b"Va", b"Vb", "out of order"),
]


def test_a_part_that_would_unpack_to_more_than_any_part_is_refused_before_it_is_unpacked() -> None:
    bomb = encoded([(b"V", bytes(PART_BYTES_MAX))])
    assert len(bomb) < 100_000
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(BadPart, match="unpacks to"):
        list(read_rows(bomb))
    for only_keys in (False, True):
        with pytest.raises(BadPart, match="unpacks to"):
            next(read_batches(bomb, only_keys=only_keys))
    assert pa.default_memory_pool().max_memory() == before
    for size in (1 << 33, 1 << 62, -2):
        with pytest.raises(BadPart, match="unpacks to"):
            list(read_rows(saying(size)))


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ([[(b"V" * (KEY_BYTES_MAX + 1), b"")]], "keys of 512 to 512 bytes"),
        ([[(b"", b"")]], "keys of 0 to 0 bytes"),
        ([[(b"b", b""), (b"a", b"")]], "out of order"),
        ([[(b"a", b""), (b"a", b"")]], "out of order"),
        ([[(b"b", b"")], [(b"a", b"")]], "out of order"),
        ([[(b"b", b"")], [(b"b", b"")]], "out of order"),
        ([[]], "a batch of 0 rows"),
        ([[(b"%05d" % number, b"") for number in range(BATCH_ROWS + 1)]], "a batch of 8193 rows"),
    ],
)
def test_rows_that_no_store_accepts_are_no_part(batches: list[list[tuple[bytes, bytes]]], why: str) -> None:
    for only_keys in (False, True):
        with pytest.raises(BadPart, match=why):
            list(read_batches(encoded(*batches), only_keys=only_keys))


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_whatever_headers_say_a_part_is_read_or_refused(flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(encoded(LONG[:3]))
    for at, value in flips:
        damaged[at % len(damaged)] = value
    with suppress(BadPart):
        list(read_rows(bytes(damaged)))


class CountedSlices:
    """A batch that counts the pieces that are taken of it."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch, self.num_rows, self.slices = batch, batch.num_rows, 0

    def slice(self, begin: int, length: int) -> pa.RecordBatch:
        self.slices += 1
        return self.batch.slice(begin, length)


def test_rows_become_objects_a_piece_at_a_time() -> None:
    rows = many_rows()[: 2 * PIECE_ROWS + 1]
    [batch] = read_batches(part_of(rows)[1])
    counted = CountedSlices(batch)
    taken = rows_of(counted)
    for number, row in enumerate(taken):
        assert row == rows[number]
        assert counted.slices == 1 + number // PIECE_ROWS
    assert counted.slices == 3


def test_runs_among_one_another_are_refused() -> None:
    runs = [written([[(key, b"")]])[0] + written([[(b"c" + key, b"")]])[0] for key in (b"a", b"b")]
    with pytest.raises(OverlappingRuns):
        merge_runs([WrittenRows(runs[0] + runs[0], {}, 0)])
    united = merge_runs(WrittenRows(found, {"a": 1}, 2) for found in runs)
    assert (united.counts, united.digest, len(united.parts)) == ({"a": 2}, 4, 4)
