"""Spark's tasks, without Spark: the rows and parts are those of the plain fold."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain.fold import fast_path
from registry.domain.fold.fold import apply, apply_all, owner
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Record
from registry.domain.model import Reference, Subject
from registry.domain.rows import digest, layout
from registry.domain.rows.memory_views import DictView
from snapshots.format import parts
from snapshots.format.location import Location
from snapshots.format.manifest import Part
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.writer import WrittenRows, merge_runs, write_run
from snapshots.spark import shipping
from snapshots.spark.ranges import plan_ranges
from snapshots.spark.tasks import (  # fmt: skip
    base_rows,
    bundles,
    chunks,
    columns,
    folding,
    owned_records,
    plain_versions,
    summaries,
    writing,
)
from snapshots.spark.tasks.summaries import (
    SAMPLES_MAX,
    FoldSummary,
    WrongPart,
    decode,
    parts_table,
    tally_files,
)
from tests.support.sample_snapshots import read_rows
from tests.unit.random_logs import fold, logs, rows_of

MASK, BOUND, BATCH = 3, 600, 3
BINARY = pa.binary()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make parts, chunks and batches of a few rows."""
    monkeypatch.setattr(parts, "_MASK", MASK)
    for module in (parts, columns):
        monkeypatch.setattr(module, "RAW_BYTES_MAX", BOUND)
        monkeypatch.setattr(module, "BATCH_ROWS", BATCH)
        monkeypatch.setattr(module, "BATCH_BYTES", BOUND // 3)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", BOUND // 2)
    monkeypatch.setattr(chunks, "_MERGE_BYTES", BOUND)
    monkeypatch.setattr(bundles, "SORTED_BYTES", 2_000)
    monkeypatch.setattr(bundles, "BUNDLE_BYTES", 500)
    monkeypatch.setattr(bundles, "_MERGE_BYTES", 1_000)
    monkeypatch.setattr(bundles, "HANDED_ON", 5)
    monkeypatch.setattr(folding, "FLUSH_BYTES", 2_000)
    monkeypatch.setattr(folding, "TOGETHER", 3)
    monkeypatch.setattr(folding, "OWNER_BYTES", folding.OWNER_BYTES)


some_rows = st.dictionaries(
    st.binary(min_size=1, max_size=3), st.binary(max_size=40) | st.just(bytes(BOUND))
).map(lambda found: sorted(found.items()))


@given(some_rows, st.data())
def test_columns_make_the_parts_that_rows_make(found: list[parts.Row], data: st.DataObject) -> None:
    expected = [parts.part_of(each) for each in parts.cut([found])]
    by_rows = {part.name: content for part, content in expected}
    by_columns: dict[str, bytes] = {}
    whole = columns.columns_of(dict(found))
    begins = [at for at, (key, _) in enumerate(found) if at and parts.begins_part(key)]
    made: list[Part] = []
    for low, high in zip([0, *begins], [*begins, len(found)], strict=True):
        other = columns.ColumnWriter(by_columns.__setitem__)
        edges = sorted(data.draw(st.lists(st.integers(low, high), max_size=4)))
        for begin, end in zip([low, *edges], [*edges, high], strict=True):
            other.add(whole.slice(begin, end))
        made += other.finish()
    assert made == [part for part, _ in expected]
    assert by_columns == by_rows
    for content in by_rows.values():
        again = columns.read_columns(content)
        listed = list(zip(again.keys.to_pylist(), again.values.to_pylist(), strict=True))
        assert listed == [row for batch in read_rows(content) for row in batch]
        assert columns.read_keys(content) == again.keys


def _shuffled(run: list[parts.Row]) -> columns.Columns:
    """Return rows as folding makes them: in another order than that of their keys."""
    return columns.columns_of(dict(run[::-1]))


def _chunk(chunk: chunks.Chunk) -> pa.RecordBatch:
    """Return a chunk as Spark gives it to the task that cuts it."""
    (batch,) = chunks.to_batches([chunk])
    return batch.select(["first", "last", "data"])


class Value(NamedTuple):
    """A value that tasks share."""

    value: Any


@given(st.lists(some_rows, max_size=4), st.sets(st.binary(max_size=2), max_size=4))
def test_chunks_are_cut_where_ranges_begin_and_merged_in_order(
    found: list[list[parts.Row]], edges: set[bytes]
) -> None:
    runs = [[(b"%c%b" % (n, key), value) for key, value in run] for n, run in enumerate(found)]
    runs = [sorted((key[1:] + key[:1], value) for key, value in run) for run in runs]
    lows = sorted({b"", *edges})
    cuts = Value(chunks.Cuts(lows, [7 * number for number in range(len(lows))]))
    made = [_chunk(chunk) for run in runs for chunk in chunks.chunks_of(_shuffled(run), FoldSummary())]
    pieces = [piece for batch in chunks.cut(cuts, made) for piece in _tuples(batch)]
    assert all(place == 7 * number for place, number, _, _ in pieces)
    expected = sorted(row for run in runs for row in run)
    for number, (low, high) in enumerate(zip(lows, [*lows[1:], b"\xff" * 9], strict=True)):
        mine = sorted((first, data) for _, each, first, data in pieces if each == number)
        listed = [row for batch in chunks.merge(mine) for row in _listed(batch)]
        assert listed == [row for row in expected if low <= row[0] < high]


def test_what_travels_are_the_rows_once_however_many_ranges_there_are() -> None:
    """Runs that span all keys give each range its own rows: the shuffle does not grow with the ranges."""
    summary = FoldSummary()
    runs = [{b"%06d" % (7 * at + run): b"v" * 20 for at in range(3_000)} for run in range(4)]
    made = [_chunk(each) for run in runs for each in chunks.chunks_of(columns.columns_of(run), summary)]
    sent = {}
    for ranges in (2, 16, 128):
        lows = [b"", *(b"%06d" % (21_000 * at // ranges) for at in range(1, ranges))]
        cuts = Value(chunks.Cuts(lows, range(ranges)))
        pieces = [piece for batch in chunks.cut(cuts, made) for piece in _tuples(batch)]
        rows = [len(chunks.unpack(data).keys) for *_, data in pieces]
        sent[ranges] = sum(rows)
        assert min(rows) > 0
        # Each chunk gives a piece, and each beginning of a range cuts at most one chunk of each run.
        assert len(pieces) <= len(made) + len(runs) * (ranges - 1)
    assert set(sent.values()) == {12_000}


def test_pieces_are_sent_together_up_to_a_bound() -> None:
    """Java has work with each batch, and memory for a few megabytes."""
    half = bytes(chunks.SENT_BYTES // 2)
    found = [chunks.Chunk(b"%d" % number, b"", half) for number in range(5)]
    batches = list(chunks.to_batches(iter(found)))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert [first for batch in batches for first, *_ in _tuples(batch)] == [each.first for each in found]


def test_the_driver_gets_a_bounded_number_of_rows_from_a_task() -> None:
    summary = FoldSummary()
    run = {b"%06d" % at: b"v" * (5_000 if at < 100 else 20) for at in range(30_000)}
    assert len(list(chunks.chunks_of(columns.columns_of(run), summary))) > 1_000
    found = decode(summary.dumps())
    assert 10 < len(found.samples) <= SAMPLES_MAX + 1
    assert sum(size for _, size in found.samples) == sum(len(key) + len(value) for key, value in run.items())
    before = sum(size for key, size in found.samples if key < b"000100")
    assert 450_000 < before < 550_000, "where the bytes are"


def _listed(batch: columns.Columns) -> list[Any]:
    return list(zip(batch.keys.to_pylist(), batch.values.to_pylist(), strict=True))


@settings(max_examples=50)
@given(logs, st.integers(0, 40), st.integers(1, 5), st.integers(1, 3), st.sampled_from([1, 1_000, 1 << 20]))
def test_a_log_folded_by_tasks_gives_the_parts_of_the_plain_fold(
    tmp_path_factory: pytest.TempPathFactory,
    log: list[Record],
    at: int,
    wanted: int,
    partitions: int,
    owner_bytes: int,
) -> None:
    folding.OWNER_BYTES = owner_bytes  # set back by the fixture
    location = Location.parse(tmp_path_factory.mktemp("snapshots"))
    base = _by_tasks(location, "base", log[:at], WrittenRows([], {}, 0), wanted, partitions)
    assert base == _plain(location, log[:at])
    ends = _by_tasks(location, "ends", log[at:], base, wanted, partitions)
    assert ends == _plain(location, log)
    whole = _by_tasks(location, "whole", log, WrittenRows([], {}, 0), wanted, partitions)
    assert whole == ends
    for part in ends.parts:
        assert location.read(f"ends/{part.name}") == location.read(f"plain/{part.name}")


ONE, OTHER = Subject(".", "s"), Subject(".", "t")
versions_of_one = st.tuples(
    st.integers(1, 3).flatmap(
        lambda number: st.sampled_from([
            records.schema_key(ONE, number),
            b'{"subject":"s","keytype":"SCHEMA","version":%d,"magic":1}' % number,
        ])
    ),
    st.builds(
        lambda number, references, deleted: values.schema_value(
            ONE, 1, number, '"int"', references=references, deleted=deleted
        ),
        st.integers(1, 3), st.lists(st.just(Reference("n", "a", 1)), max_size=1), st.booleans(),
    ) | st.sampled_from([None, b"{}", b"null"]),
)  # fmt: skip
marks_of_one = st.tuples(
    st.just(records.delete_subject_key(ONE)),
    st.integers(0, 3).map(lambda upto: values.delete_subject_value(ONE, upto))
    | st.sampled_from([None, b"{}"]),
)
others_of_one = st.tuples(
    st.sampled_from(
        [records.clear_subject_key(ONE), records.config_key(ONE), records.schema_key(Subject(".", "t"), 1)]
    ),
    st.sampled_from([None, b"{}", values.schema_value(Subject(".", "t"), 1, 9, "x")]),
)
# Logs of a subject with marks of deletion, by which alone its records change the rows of versions.
logs_of_one = st.lists(
    versions_of_one | versions_of_one | marks_of_one | others_of_one, min_size=4, max_size=12
).map(lambda said: [Record(offset, 7, *each) for offset, each in enumerate(said)])


@settings(max_examples=200)
@given(logs_of_one, st.sampled_from([0, 0, 2, 5]), st.sampled_from([1, 1, 1_000, 1 << 20]), st.integers(1, 9))
def test_folding_gives_the_rows_of_the_fold_whether_owners_are_large_or_small(
    log: list[Record], at: int, owner_bytes: int, batch: int
) -> None:
    folding.OWNER_BYTES = owner_bytes  # set back by the fixture
    base = rows_of(log[:at])
    stream = [_owned(each) for each in log[at:]]
    owners = {each[0] for each in stream}
    stream += [
        (own, owned_records.version_of_row(key), owned_records.BASE_ROW, 0, key, value)
        for key, value in base.items()
        if key[:1] not in base_rows.NEVER_ASKED and (own := layout.owner_of(key)) in owners
    ]
    stream.sort(key=itemgetter(0, 1, 2))
    changes: dict[bytes, bytes | None] = {}
    for made in folding.fold(_batches(stream, batch)):
        for _, _, data, summary in _tuples(made):
            found = _listed(chunks.unpack(data)) if summary is None else []
            assert not changes.keys() & dict(found).keys(), "a key is in one chunk"
            changes |= dict(found)
    rows = {key: value for key, value in (base | changes).items() if value is not None}
    assert rows == rows_of(log)


def _plain(location: Location, log: list[Record]) -> WrittenRows:
    return write_run(location, "plain", [list(rows_of(log).items())])


def _by_tasks(
    location: Location, id: str, log: list[Record], base: WrittenRows, wanted: int, partitions: int
) -> WrittenRows:
    """Run the steps of :mod:`snapshots.spark.engine`, with lists in place of Spark."""
    places = range(partitions)
    sent = list(bundles.read(Value(places), _read(log)))
    owners = tuple(sorted({owner(each.key) for each in log}))
    if base.parts:
        asked = [number for number, part in enumerate(base.parts) if base_rows.may_be_asked(part)]
        wish = base_rows.BaseQuery(location.uri, "base", tuple(base.parts), owners, places)
        numbers = pa.record_batch([pa.array(asked, pa.int64())], names=["id"])
        sent += base_rows.pick(Value(wish), [numbers])
    lines = [line for batch in sent for line in _tuples(batch)]
    made: list[pa.RecordBatch] = []
    for number in places:
        mine = sorted(each[1:] for each in lines if each[0] == number)
        made += folding.fold_bundles(_bundles(mine))
    found = [decode(summary) for batch in made for *_, summary in _tuples(batch) if summary is not None]
    plan = writing.Plan(location.uri, id, "base", plan_ranges(found, base.parts, wanted))
    cuts = chunks.Cuts([units[0].low for units in plan.ranges], range(len(plan.ranges)))
    lines = [(number, None, None) for number in range(len(plan.ranges))]
    folded = [batch.select(["first", "last", "data"]) for batch in made if batch["data"].null_count == 0]
    lines += [line[1:] for batch in chunks.cut(Value(cuts), folded) for line in _tuples(batch)]
    lines.sort(key=lambda line: (line[0], line[1] or b""))
    types = (pa.int32(), BINARY, BINARY)
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*lines, strict=True), types, strict=True)]
    answers = [
        writing.decode(answer)
        for batch in writing.write(Value(plan), [pa.record_batch(arrays, names=["range", "first", "data"])])
        for (answer,) in _tuples(batch)
    ]
    written = [WrittenRows(each.parts, *summaries.loads(each.gone)) for each in answers]
    written += [WrittenRows([], *summary.tally.value) for summary in found]
    united = merge_runs([*written, base._replace(parts=[])])
    return united._replace(counts={table: count for table, count in united.counts.items() if count})


def _owned(record: Record) -> owned_records.OwnedRecord:
    """Return a record with its owner and version."""
    (own, version), key = owned_records.place_of(record.key), record.key
    plain = key is not None and fast_path.plain_key(key) is not None
    assert not plain or owned_records.plain_key(own, version) == key
    return own, version, record.offset, record.ts, None if plain else key, record.value


def _read(log: list[Record], size: int = 4) -> Iterator[pa.RecordBatch]:
    """Return records as Spark reads them from a log."""
    for begin in range(0, len(log), size):
        some = log[begin : begin + size]
        columns = ([getattr(each, name) for each in some] for name in ("key", "offset", "ts", "value"))
        arrays = map(pa.array, columns, (BINARY, pa.int64(), pa.int64(), BINARY))
        yield pa.record_batch(list(arrays), names=["key", "offset", "ts", "value"])


def _bundles(lines: list[Any], size: int = 3) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(lines), size):
        columns = zip(*lines[begin : begin + size], strict=True)
        yield pa.record_batch([pa.array(each, BINARY) for each in columns], names=["first", "data"])


def _tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _batches(said: list[Any], size: int = 5) -> Iterator[pa.RecordBatch]:
    types = (BINARY, pa.int32(), pa.int64(), pa.int64(), BINARY, BINARY)
    for begin in range(0, len(said), size):
        listed = zip(*said[begin : begin + size], strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(listed, types, strict=True)]
        yield pa.record_batch(arrays, names=["owner", "version", "offset", "ts", "key", "value"])


texts = st.text(max_size=9) | st.sampled_from([
    '"int"', '{"a":"\\\\"}', "\x7f\x00\u2028", "\U0001f600", "\\u00ff", "\x1f", "u\n", "\u00e9\uffff",
])  # fmt: skip
plain_values = st.builds(
    lambda *given: values.schema_value(*given[:4], schema_type=given[4], deleted=given[5]),
    st.just(Subject(".", "a")), st.just(1), st.integers(0, 2**31 - 1), texts,
    st.sampled_from(["AVRO", "JSON", "PROTOBUF", "OTHER"]), st.booleans(),
)  # fmt: skip
plain_records = st.tuples(
    st.from_regex(rb"(?!:\.)[ !#-\[\]-~]{1,120}", fullmatch=True),
    st.integers(1, 999_999_999),
    st.integers(0, 2**62),
    st.integers(-1, 2**62),
    plain_values
    | st.sampled_from([b"", b"{}", b'{"schema":"","id":1}', b'{"schema":"x","id":1,"md5":"AA=="}']),
)


@given(st.lists(plain_records, min_size=1, max_size=5))
def test_rows_made_by_columns_are_those_of_the_fold(found: list[Any]) -> None:
    names, versions, offsets, times, raw = (list(each) for each in zip(*found, strict=True))
    owners = pa.array([b".\0%b\0" % name for name in names], BINARY)
    numbers = [np.array(each, np.int64) for each in (versions, offsets, times)]
    rows, odd = plain_versions.rows_of(plain_versions.PlainVersions._make([owners, *numbers, raw]))
    expected = []
    for at, (name, version, offset, ts, value) in enumerate(found):
        key = fast_path.plain_key(
            b'{"keytype":"SCHEMA","subject":"%b","version":%d,"magic":1}' % (name, version)
        )
        assert key is not None
        plain = fast_path.plain_schema(value)
        assert (plain is None) == (at in odd)
        expected += [] if plain is None else fast_path.plain_rows([(key, plain, offset, ts)])[0]
    assert sorted(_listed(rows) if rows else []) == sorted(expected)


def test_plain_versions_are_not_folded_one_by_one() -> None:
    """Versions of a large subject are not, either; those of one with a mark of deletion are."""

    def records_of(name: bytes, count: int, first: int) -> Iterator[Any]:
        for version in range(1, count + 1):
            value = values.schema_value(Subject(".", name.decode()), version, first + version, f'"{version}"')
            yield b".\0%b\0" % name, version, first + version, 7, None, value

    mark = (
        b".\0c\0",
        0,
        9_999,
        7,
        records.delete_subject_key(Subject(".", "c")),
        b'{"subject":"c","version":2}',
    )
    stream = [*records_of(b"a", 20, 0), *records_of(b"b", 1, 50), mark, *records_of(b"c", 3, 100)]
    again = [(*each[:2], each[2] + 1_000, *each[3:]) for each in records_of(b"d", 3, 200)]
    stream += sorted([*records_of(b"d", 3, 200), *again], key=itemgetter(1, 2))
    plain = plain_versions.PlainBatches(_batches(stream))
    others = [each for each in plain.others() if each != plain_versions.PAUSE]
    assert [each[0] for each in others] == [b".\0c\0"] * 4
    assert sum(len(each.keys) for each in plain.take()) == 3 * (20 + 1 + 3), "the last record of each version"


@pytest.mark.parametrize("references", [(), (Reference("n", "a", 1),)])
def test_chunks_are_made_while_records_arrive(references: Sequence[Reference]) -> None:
    """Neither plain versions nor others pile up in memory until the task ends."""
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for number in range(400):
            read = number + 1
            subject = Subject(".", "s")
            version = number + 1
            value = values.schema_value(subject, version, version, f'"{number}"', references=references)
            key = records.schema_key(subject, version) if references and not number % 2 else None
            yield from _batches([(b".\0s\0", version, number, 7, key, value)])

    folding.OWNER_BYTES = 1_000  # set back by the fixture
    made = folding.fold(batches())
    next(made)
    assert read < 40
    list(made)
    assert read == 400


def test_a_large_owner_is_folded_in_memory_for_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark among 300 versions makes the fold look at each, but never at all of them together.

    Nor does it look at all the records of a version that was written 200 times with a foreign key.
    """
    monkeypatch.setattr(folding, "OWNER_BYTES", 10_000)
    folded: list[int] = []

    def counting(view: Any, given: list[Record], changes: Any) -> Any:
        folded.append(len(given))
        return apply_all(view, given, changes)

    monkeypatch.setattr(folding, "apply_all", counting)
    subject = Subject(".", "s")
    log = [
        Record(n, 7, records.schema_key(subject, n + 1), values.schema_value(subject, n + 1, n + 1, f'"{n}"'))
        for n in range(300)
    ]
    log.append(Record(300, 7, records.delete_subject_key(subject), values.delete_subject_value(subject, 150)))
    foreign = b'{"subject":"s","keytype":"SCHEMA","version":1,"magic":1}'
    log += [Record(301 + n, 7, foreign, values.schema_value(subject, 1, n + 1, f'"{n}"')) for n in range(200)]
    rows = {}
    stream = sorted((_owned(each) for each in log), key=itemgetter(0, 1, 2))
    for batch in folding.fold(_batches(stream)):
        for *_, data, summary in _tuples(batch):
            rows |= dict(_listed(chunks.unpack(data))) if summary is None else {}
    assert {key: value for key, value in rows.items() if value is not None} == rows_of(log)
    assert len(folded) > 300
    assert max(folded) <= 3


@given(logs)
def test_what_the_fold_asks_for_is_what_is_picked_from_the_base(log: list[Record]) -> None:
    table = rows_of(log)
    base = columns.columns_of(dict(sorted(table.items())))
    for each in {owner(record.key) for record in log}:
        picked = base_rows.rows_of(base.keys, lambda: base.values, (each,))
        expected = {key: value for key, value in table.items() if layout.owner_of(key) == each}
        assert {key: value for _, key, value in picked} == {
            key: value for key, value in expected.items() if key[:1] not in base_rows.NEVER_ASKED
        }
        assert {own for own, _, _ in picked} <= {each}


class Asked:
    """A view that refuses access to rows that are not selected."""

    def __init__(self, view: DictView) -> None:
        self.view = view
        self.seek, self.seek_back = view.seek, view.seek_back

    def get(self, key: bytes) -> bytes | None:
        assert key[:1] not in base_rows.NEVER_ASKED
        return self.view.get(key)


@given(logs)
def test_the_fold_never_asks_for_index_rows(log: list[Record]) -> None:
    view = DictView()
    for record in log:
        view.commit(apply(Asked(view), record))
    assert digest.of_rows(view.rows()) == digest.of_rows(fold(log).rows())


@given(st.lists(some_rows.filter(bool), max_size=3), st.integers(1, 9))
def test_every_key_is_in_one_range(runs: list[list[parts.Row]], wanted: int) -> None:
    summaries = [FoldSummary() for _ in runs]
    for run, summary in zip(runs, summaries, strict=True):
        assert list(chunks.chunks_of(_shuffled(run), summary))
    ranges = plan_ranges([decode(summary.dumps()) for summary in summaries], (), wanted)
    units = [unit for each in ranges for unit in each]
    assert all(ranges)
    assert units[0].low == b""
    assert units[-1].high is None
    assert [unit.high for unit in units[:-1]] == [unit.low for unit in units[1:]]
    assert all(parts.begins_part(unit.low) for unit in units[1:])


def test_a_part_of_the_base_that_was_changed_is_refused(tmp_path: Path) -> None:
    location = Location.parse(tmp_path)
    written = write_run(location, "base", [[(b"Va\0", b"1")]])
    part = written.parts[0]
    location.write(f"base/{part.name}", location.read(f"base/{part.name}")[:-1] + b"!")
    wish = base_rows.BaseQuery(location.uri, "base", tuple(written.parts), (), [0])
    numbers = pa.record_batch([pa.array([0], pa.int64())], names=["id"])
    with pytest.raises(UnusableSnapshot, match="damaged"):
        list(base_rows.pick(Value(wish), [numbers]))
    plan = writing.Plan(location.uri, "new", "base", plan_ranges([], [part], 1))
    # The location copies it; reading all parts again before they are announced finds it.
    assert writing.write_range(location, plan, plan.ranges[0], []).parts == [part]
    with pytest.raises(WrongPart, match="SHA-256"):
        list(tally_files(location.uri, "new", parts_table([part]).to_batches()))
    gone = Part("part-0000000000000000.arrow", 1, 1, "0" * 64, b"V", b"V")
    with pytest.raises(UnusableSnapshot, match="missing"):
        writing.write_range(location, plan, plan_ranges([], [gone], 1)[0], [])


def test_the_archive_for_executors_holds_all_that_tasks_import(tmp_path: Path) -> None:
    archive = tmp_path / "executors.zip"
    shipping.write_archive(archive)
    tasks = [name for name in shipping.py_files() if "spark/tasks/" in name and "__init__" not in name]
    names = [name.removesuffix(".py").replace("/", ".") for name in tasks]
    lines = [
        "import sys",
        f"sys.path[:0] = [{str(archive)!r}, {sysconfig.get_path('purelib')!r}]",
        *(f"import {name}" for name in names),
        "from snapshots.format.location import Location",
        f"Location.parse({str(tmp_path)!r})",
        "print(*(getattr(sys.modules[name], '__file__', None) for name in sys.modules"
        " if name.partition('.')[0] in ('registry', 'snapshots', 'election')))",
    ]
    # Without what .pth files say, this project is found in the archive alone.
    command = [sys.executable, "-I", "-S", "-c", "\n".join(lines)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(names) >= 7
    assert all(file.startswith(str(archive)) for file in done.stdout.split())


def test_the_archive_is_a_function_of_the_files(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        shipping.write_archive(tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
