"""Snapshots that hold only what changed since an earlier one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from hashlib import shake_128
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.base.config.settings import Settings
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import Entry as LogEntry
from registry.domain.log_format.records import Record
from registry.domain.model import TOP, Subject
from registry.domain.rows import digest
from registry.log.embedded.log import EmbeddedLog, now_ms
from snapshots.building import builder, delta
from snapshots.building.base_view import SnapshotView
from snapshots.building.delta import DeltaLimits, reason_for_full
from snapshots.building.task import Progress, silent
from snapshots.catalogue.catalogue import Catalogue
from snapshots.catalogue.open import open_catalogue
from snapshots.catalogue.retention import delete, retire
from snapshots.format import stored
from snapshots.format.files import Files, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import DELTA_FORMAT, FORMAT, MANIFEST, Delta, Manifest, Part, new_id
from snapshots.format.stored import UnusableSnapshot
from snapshots.format.verify import verify
from tests.process.snapshots.loading import loading, opened, rows_in_store, verified
from tests.support.sample_snapshots import (
    DAY_MS,
    LOG,
    MAP,
    KnownLog,
    build,
    log_of,
    rows_in,
    source,
    task,
    version,
)
from tests.unit.random_logs import logs, rows_of

SMALL = DeltaLimits(most=2, full_bytes_min=0, share=1)
_numbers = itertools.count()


def build_delta(
    data: Path, log: list[Record], base: Manifest, end: int, log_end: int, location: Location | None = None
) -> Manifest:
    return delta.build(task(data, source(KnownLog(log, log_end)), end, base, location), silent)


def sound(location: Location, id: str) -> bool:
    return list(verify(location, id, lambda done, total: None)) == []


@settings(max_examples=40)
@given(logs, st.lists(st.integers(0, 125), min_size=2, max_size=5))
def test_deltas_upon_a_full_snapshot_are_the_fold_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, log: list[Record], cuts: list[int]
) -> None:
    data = tmp_path_factory.getbasetemp() / f"deltas-{next(_numbers)}"
    location = Location.parse(data / "snapshots")
    first, *others = sorted(cuts)
    made = build(data, log, first, log_end=126)
    for end in others:
        made = build_delta(data, log, made, end, 126)
        rows = rows_in(location, made)
        assert rows == sorted(rows_of([record for record in log if record.offset < end]).items())
        assert (made.digest, made.rows) == (digest.of_rows(rows), len(rows))
        assert sound(location, made.id)
        view = SnapshotView(location, made)
        assert [view.get(key) for key, _ in rows] == [value for _, value in rows]
    full = build(data, log, others[-1], log_end=126)
    assert (made.counts, made.digest) == (full.counts, full.digest)


class CountedFiles:
    """Files that count the bytes which are moved, and that fail after so many calls that change something."""

    def __init__(self, files: Files, changes: int = 1 << 30) -> None:
        self.moved = 0
        self._files, self._changes = files, changes

    def read(self, path: str, most: int) -> bytes:
        return self._counted(self._files.read(path, most))

    def read_range(self, path: str, begin: int, length: int) -> bytes:
        return self._counted(self._files.read_range(path, begin, length))

    def _counted(self, content: bytes) -> bytes:
        self.moved += len(content)
        return content

    def write(self, path: str, data: bytes) -> None:
        self._change()
        self._counted(data)
        self._files.write(path, data)

    def copy(self, path: str, new: str) -> bool:
        self._change()
        return self._files.copy(path, new)

    def names(self, path: str, *, folders: bool) -> list[str]:
        return self._files.names(path, folders=folders)

    def delete(self, path: str) -> None:
        self._change()
        self._files.delete(path)

    def delete_folder(self, path: str) -> None:
        self._change()
        self._files.delete_folder(path)

    def _change(self) -> None:
        if not self._changes:
            raise LocationUnreachable("no more than that")
        self._changes -= 1


def counted(location: Location, changes: int = 1 << 30) -> tuple[Location, CountedFiles]:
    files = CountedFiles(location.backing, changes)
    return Location(location.uri, files), files


def _text(number: int) -> str:
    """Return a schema that hardly compresses."""
    return f'"{shake_128(number.to_bytes(4)).hexdigest(150)}"'


LARGE = log_of(
    version(f"s{number * 7919 % 20_000:05}", 1, number + 1, _text(number)) for number in range(20_000)
)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    data = tmp_path_factory.mktemp("large")
    return data, build(data, LARGE)


def test_few_new_versions_move_few_bytes(large: tuple[Path, Manifest]) -> None:
    data, base = large
    names = [f"s{number * 97 % 20_000:05}" for number in range(100)] + [f"t{number}" for number in range(100)]
    log = [*LARGE, *log_of(version(name, 2, 1, '"long"') for name in names)]
    log = [record._replace(offset=offset) for offset, record in enumerate(log)]
    location, files = counted(Location.parse(data / "snapshots"))
    made = build_delta(data, log, base, len(log), len(log), location)
    assert files.moved < base.size / 5, "the keys, a delta, and the manifest"
    assert dict(rows_in(location, made)) == rows_of(log)


def test_a_changed_version_is_read_without_its_index_rows(large: tuple[Path, Manifest]) -> None:
    data, base = large
    changed = [
        version("s00007", 1, 5, '"bytes"'),
        LogEntry(records.schema_key(Subject(".", "s19999"), 1), None),
    ]
    log = [*LARGE, *(Record(20_000 + at, 5, *each) for at, each in enumerate(changed))]
    location, files = counted(Location.parse(data / "snapshots"))
    made = build_delta(data, log, base, len(log), len(log), location)
    assert files.moved < base.size / 4, "the keys, and the batches of both"
    assert dict(rows_in(location, made)) == rows_of(log)
    assert made.rows == base.rows - 3


@pytest.fixture
def known(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, store_map_bytes=MAP, snapshots_keep=1)


@pytest.fixture
def catalogue(known: Settings) -> Iterator[Catalogue]:
    with closing(open_catalogue(known)) as opened_catalogue:
        yield opened_catalogue


def appended(known: Settings, number: int, count: int = 30) -> None:
    """Append versions, and delete some that were there before."""
    delete = LogEntry(
        records.delete_subject_key(Subject(".", f"s{number - 1}-1")), values.delete_subject_value(TOP, 1)
    )
    with closing(EmbeddedLog(known.data / "log", map_bytes=MAP)) as log:
        log.append([version(f"s{number}-{each}", 1, 100 * number + each + 1) for each in range(count)])
        log.append([delete, version(f"s{number - 1}-2", 1, 7, '"other"')])


def built(
    known: Settings,
    catalogue: Catalogue | None,
    limits: DeltaLimits = SMALL,
    progress: Progress = silent,
    **given: Any,
) -> Manifest:
    return builder.build_now(known, catalogue, "local", progress, limits=limits, **given)


def state(known: Settings) -> Mapping[bytes, bytes]:
    """Return the rows of the whole log."""
    with closing(EmbeddedLog(known.data / "log", map_bytes=MAP)) as log:
        return rows_of(log.read(0, 10_000, 1 << 30).records)


def test_every_few_builds_are_full_and_what_the_kept_ones_need_is_kept(
    known: Settings, catalogue: Catalogue
) -> None:
    location = Location.parse(known.snapshots_location)
    made: list[Manifest] = []
    for number in range(5):
        appended(known, number, 100 if number == 0 else 10)
        made.append(built(known, catalogue))
        retire(catalogue, 1, now_ms())
        assert dict(rows_in(location, made[-1])) == state(known)
        assert {entry.id for entry in catalogue.entries().values()} == {made[-1].id, *made[-1].needs}
        assert {*location.folders()} == {made[-1].id, *made[-1].needs}
        assert all(sound(location, entry) for entry in catalogue.entries())
    formats = [each.format for each in made]
    assert formats == [FORMAT, DELTA_FORMAT, DELTA_FORMAT, FORMAT, DELTA_FORMAT]
    assert [each.engine for each in made] == ["local", "delta", "delta", "local", "delta"]
    assert made[3].base == made[0].id, "the engine extends the full one"
    assert made[2].needs == {made[0].id, made[1].id}
    assert catalogue.entries()[made[4].id].needs == (made[3].id,)


FULL = Manifest(
    new_id(7, 0, 1), FORMAT, 4, LOG, 7, 7, 1_000_000, 0, "local", "", {"V": 1}, 0,
    (Part("part-0123456789abcdef.arrow", 1, 80 << 20, "0" * 64, b"V", b"V"),),
)  # fmt: skip
OLD = FULL._replace(at_end_ms=1_000_000 - 4 * DAY_MS)


def upon(full: Manifest, count: int, size: int = 1 << 20) -> Manifest:
    """Return a snapshot with ``count`` deltas of ``size`` bytes."""
    part = Part("delta-0123456789abcdef.arrow", 1, size, "0" * 64, b"V", b"V")
    deltas = tuple(Delta(new_id(8 + number, 0, 1), (part,)) for number in range(count))
    return full._replace(id=new_id(9, 0, 1), offset=9, format=DELTA_FORMAT, full=full.id, deltas=deltas)


@pytest.mark.parametrize(
    ("base", "end", "full", "limits", "why"),
    [
        (FULL, 9, FULL, DeltaLimits(8), ""),
        (upon(FULL, 7), 9, FULL, DeltaLimits(8), ""),
        (FULL, 9, FULL, DeltaLimits(0), "snapshots_deltas is 0"),
        (upon(FULL, 8), 9, FULL, DeltaLimits(8), "has 8 deltas"),
        (upon(FULL, 1, 11 << 20), 9, FULL, DeltaLimits(8), "have 11534336 bytes"),
        (FULL, 9, FULL, DeltaLimits(8, full_bytes_min=81 << 20), "are written soon"),
        (FULL, 8 + delta.RECORDS_MAX, FULL, DeltaLimits(8), "are more than is folded at once"),
        (upon(OLD, 1), 9, OLD, DeltaLimits(8), "gets old"),
        # It is too late to extend it.
        (upon(OLD, 1), 9, None, DeltaLimits(8), ""),
    ],
)
def test_a_full_snapshot_is_due_when_deltas_are_many_or_large_or_their_base_gets_old(
    tmp_path: Path, base: Manifest, end: int, full: Manifest | None, limits: DeltaLimits, why: str
) -> None:
    known = replace(task(tmp_path, source(KnownLog([])), end), clock=lambda: 1_000_000)
    found = reason_for_full(base, known, full, limits)
    assert (why in found) if why else not found


def test_what_the_catalogue_does_not_have_is_full(known: Settings, catalogue: Catalogue) -> None:
    appended(known, 0)
    built(known, catalogue)
    appended(known, 1, 3)
    # Nothing would keep the files of its base.
    assert built(known, None).format == FORMAT


def at_step(step: str, do: Callable[[], object]) -> Progress:
    """Return a progress that does something once, when a step is reported."""
    left = [do]

    def progress(at: str, done: int, total: int) -> None:
        if at == step and left:
            left.pop()()

    return progress


@pytest.mark.parametrize("files", ["there", "gone"])
def test_a_delta_whose_base_is_deleted_meanwhile_gives_way_to_a_full_snapshot(
    known: Settings, catalogue: Catalogue, files: str
) -> None:
    """Its builder was frozen and taken for dead, so its base counted as one that nobody needs."""
    appended(known, 0)
    base = built(known, catalogue)
    appended(known, 1, 3)

    def delete_base() -> None:
        entry = catalogue.entries()[base.id]
        if files == "gone":
            assert delete(catalogue, entry, now_ms())
        else:
            catalogue.put(entry.in_state("deleting", now_ms()))

    # The files of the base have been read by then.
    made = built(known, catalogue, progress=at_step(delta.WRITING, delete_base))
    assert (made.format, made.needs) == (FORMAT, frozenset())
    assert dict(rows_in(Location.parse(known.snapshots_location), made)) == state(known)
    assert [each.format for each in stored.manifests(Location.parse(known.snapshots_location))].count(
        DELTA_FORMAT
    ) == 0


def test_nothing_is_built_upon_what_is_not_ready(known: Settings, catalogue: Catalogue) -> None:
    """Its manifest is there, but its builder may still withdraw it."""
    appended(known, 0)
    base = built(known, catalogue)
    appended(known, 1, 3)
    unfinished = built(known, catalogue)
    entry = catalogue.entries()[unfinished.id]
    catalogue.forget(entry.id)
    catalogue.put(entry.in_state("building", now_ms(), builder="another"))
    appended(known, 2, 3)
    assert built(known, catalogue).needs == {base.id}


@pytest.mark.parametrize("damage", ["missing", "header", "rows"])
def test_a_base_that_cannot_be_read_means_a_full_snapshot(
    known: Settings, catalogue: Catalogue, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    appended(known, 0)
    base = built(known, catalogue)
    part = known.data / "snapshots" / base.id / base.parts[-1].name
    content = part.read_bytes()
    part.unlink()
    if damage == "header":
        part.write_bytes(content[:9] + b"\xff" + content[10:])
    if damage == "rows":
        part.write_bytes(content[: len(content) // 2])
    appended(known, 1, 3)
    caplog.set_level("WARNING")
    made = built(known, catalogue)
    assert (made.format, made.base) == (FORMAT, "")
    assert dict(rows_in(Location.parse(known.snapshots_location), made)) == state(known)
    assert f"cannot build a delta upon {base.id}" in caplog.text


def test_a_delta_is_loaded_into_a_store_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    log = log_of(
        [*(version(f"s{each:02}", 1, each + 1) for each in range(40)), version("s07", 1, 3, '"long"'),
         LogEntry(records.schema_key(Subject(".", "s39"), 1), None), version("t", 1, 99)]
    )  # fmt: skip
    location = Location.parse(tmp_path / "snapshots")
    base = build(tmp_path, log, 40, log_end=len(log))
    made = build_delta(tmp_path, log, base, 41, len(log))
    made = build_delta(tmp_path, log, made, len(log), len(log))
    with closing(opened(tmp_path, loading(location, made))) as store:
        assert (store.applied, store.digest, verified(store)) == (len(log), made.digest, True)
        assert dict(rows_in_store(store)) == rows_of(log)
    file = tmp_path / "snapshots" / made.deltas[0].snapshot / made.deltas[0].parts[0].name
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert list(verify(location, made.id, lambda done, total: None)) != []
    with pytest.raises(UnusableSnapshot, match=file.name):
        opened(tmp_path / "other", loading(location, made), LOG)
    file.unlink()
    with pytest.raises(UnusableSnapshot, match="is missing"):
        opened(tmp_path / "another", loading(location, made), LOG)


def test_a_build_that_ends_at_any_moment_leaves_sound_snapshots(tmp_path: Path) -> None:
    log = log_of(version(f"s{each:02}", 1, each + 1) for each in range(60))
    location = Location.parse(tmp_path / "snapshots")
    base = build(tmp_path, log, 40, log_end=60)
    for changes in itertools.count():
        failing, _ = counted(location, changes)
        try:
            made = build_delta(tmp_path, log, base, 60, 60, failing)
            break
        except LocationUnreachable:
            assert [each.id for each in stored.manifests(location)] == [base.id]
    assert changes == 2, "the delta and the manifest"
    assert sound(location, made.id)
    assert sound(location, base.id)


def test_a_deletion_that_ends_at_any_moment_leaves_sound_snapshots(
    known: Settings, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location.parse(known.snapshots_location)
    for number in range(4):
        appended(known, number, 100 if number == 0 else 3)
        newest = built(known, catalogue)
    assert (newest.format, len(location.folders())) == (FORMAT, 4)
    parse = Location.parse
    for changes in itertools.count():

        def failing(uri: str, *given: Any, changes: int = changes) -> Location:
            return counted(parse(uri, *given), changes)[0]

        with monkeypatch.context() as patch:
            patch.setattr(Location, "parse", failing)
            retire(catalogue, 1, now_ms())
        ready = [entry.id for entry in catalogue.entries().values() if entry.state == "ready"]
        assert all(sound(location, entry) for entry in ready)
        if location.folders() == [newest.id]:
            break
    assert [*catalogue.entries()] == [newest.id]


def test_the_files_of_a_snapshot_that_an_unknown_one_needs_are_left(
    known: Settings, catalogue: Catalogue
) -> None:
    location = Location.parse(known.snapshots_location)
    appended(known, 0, 100)
    base = built(known, catalogue)
    appended(known, 1, 3)
    made = built(known, catalogue)
    appended(known, 2, 3)
    newer = built(known, catalogue, extend=False)
    catalogue.forget(made.id)
    retire(catalogue, 1, now_ms())
    assert sound(location, made.id)
    assert {*location.folders()} == {base.id, made.id, newer.id}
    # A manifest of a later release may need anything.
    (known.data / "snapshots" / made.id / MANIFEST).write_bytes(
        made._replace(format="registrar-snapshot 3").dumps()
    )
    retire(catalogue, 1, now_ms())
    assert {*location.folders()} == {base.id, made.id, newer.id}
    location.delete(made.id)
    retire(catalogue, 1, now_ms())
    assert location.folders() == [newer.id]


def test_a_full_snapshot_shares_the_files_of_its_base_that_did_not_change(
    large: tuple[Path, Manifest], tmp_path: Path
) -> None:
    data, base = large
    config = subject_values.config_value(Subject(".", "s"), {"compatibilityLevel": "NONE"})
    log = [*LARGE, Record(20_000, 5, records.canonical_key(records.ConfigKey(Subject(".", "s"))), config)]
    made = build(data, log, base=base)
    (same,) = {*made.parts} & {*base.parts}
    files = [data / "snapshots" / each.id / same.name for each in (base, made)]
    assert files[0].samefile(files[1])
    assert sound(Location.parse(data / "snapshots"), made.id)
