"""The local engine: its snapshot at an offset, together with the tail, is the fold of the whole log."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.base.config.settings import Settings
from registry.base.processes import file_lock
from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.records import Record
from registry.domain.rows import digest, layout
from registry.domain.rows.memory_views import DictView
from registry.log.contract import LogError, Unreachable
from registry.log.embedded.log import EmbeddedLog, now_ms
from snapshots.backup import stores
from snapshots.building import builder, heartbeat, local
from snapshots.building.sources import open_source, time_before
from snapshots.building.task import BuildFailed, Progress, TooSlow, WrongRows, silent
from snapshots.catalogue.catalogue import BuildProgress, Entry, take_request
from snapshots.catalogue.open import open_catalogue
from snapshots.format import stored
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST, new_id
from snapshots.format.parts import begins_part
from snapshots.format.verify import verify
from tests.support.running import ROOT, until
from tests.support.sample_snapshots import (
    DAY_MS,
    MAP,
    KnownLog,
    build,
    files_of,
    log_of,
    rows_in,
    sealed,
    source,
    task,
    version,
)
from tests.unit.random_logs import fold, logs, rows_of

LOG = log_of(version(f"s{number:02}", 1, number + 1) for number in range(30))
_numbers = itertools.count()


@settings(max_examples=25)
@given(logs, st.integers(0, 125), st.integers(0, 125))
def test_a_snapshot_and_the_tail_are_the_fold_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, log: list[Record], at: int, base_at: int
) -> None:
    data = tmp_path_factory.getbasetemp() / f"law-{next(_numbers)}"
    location = Location.parse(data / "snapshots")
    at, base_at = max(at, base_at), min(at, base_at)
    base = build(data, log, base_at, log_end=126)
    full = build(data, log, at, log_end=126)
    upon = build(data, log, at, base, log_end=126)
    rows = rows_in(location, full)
    before = [record for record in log if record.offset < at]
    assert dict(rows) == rows_of(before)
    assert (full.digest, full.offset, full.fold) == (digest.of_rows(rows), at, FOLD_VERSION)
    assert files_of(location, upon) == files_of(location, full)
    assert (upon.digest, upon.counts, upon.base) == (full.digest, full.counts, base.id)
    tail = [record for record in log if record.offset >= at]
    assert dict(fold(tail, DictView(rows)).rows()) == rows_of(log)


def test_a_log_that_is_far_behind_gives_the_same(tmp_path: Path) -> None:
    log = log_of(version(f"s{number * 7919 % 60_000:05}", 1, number + 1) for number in range(60_000))
    manifest = build(tmp_path, log)
    assert dict(rows_in(Location.parse(tmp_path / "snapshots"), manifest)) == rows_of(log)


def test_nothing_but_the_snapshot_is_left(tmp_path: Path) -> None:
    manifest = build(tmp_path, LOG)
    assert {each.name for each in tmp_path.iterdir()} == {"snapshots", "building.lock"}
    assert {MANIFEST, *(part.name for part in manifest.parts)} == {
        each.name for each in (tmp_path / "snapshots" / manifest.id).iterdir()
    }


def test_digests_compare_from_the_offset_where_reading_was_quick_enough(tmp_path: Path) -> None:
    quick = task(tmp_path, source(KnownLog(LOG), lag_ms=DAY_MS), 20)
    slow = task(tmp_path, source(KnownLog(LOG), lag_ms=0), 20)
    assert local.build(quick, silent).comparable_from == 20
    assert local.build(slow, silent).comparable_from == len(LOG)


def test_reading_for_longer_than_deletions_are_kept_is_no_snapshot(tmp_path: Path) -> None:
    location = Location.parse(tmp_path / "snapshots")
    base = build(tmp_path, LOG, 10)
    old = base._replace(at_end_ms=base.at_end_ms - DAY_MS)
    for given_base in (None, old):
        known = task(tmp_path, source(KnownLog(LOG), retention_ms=DAY_MS // 2), 20, given_base)
        with pytest.raises(TooSlow, match="deletions"):
            local.build(replace(known, clock=lambda: now_ms() + DAY_MS), silent)
    assert [each.id for each in stored.manifests(location)] == [base.id]


def test_a_base_whose_digest_is_wrong_is_not_built_upon(tmp_path: Path) -> None:
    base = build(tmp_path, LOG, 10)
    with pytest.raises(WrongRows, match="digest"):
        local.build(task(tmp_path, source(KnownLog(LOG)), 20, base._replace(digest=base.digest ^ 1)), silent)


def test_a_part_that_is_damaged_after_it_was_written_is_noticed_before_anything_is_announced(
    tmp_path: Path,
) -> None:
    with closing(EmbeddedLog(tmp_path / "log")) as log:
        log.append([version(name, 1, number + 1) for number, name in enumerate(beginning_parts(3))])
    known = Settings(data=tmp_path, store_map_bytes=MAP)

    def damaging(times: int) -> Progress:
        damaged = 0

        def progress(step: str, done: int, total: int) -> None:
            nonlocal damaged
            if step == local.VERIFYING and done < total and damaged < times:
                damaged += 1
                for part in tmp_path.glob("snapshots/*/part-*"):
                    if not (part.parent / MANIFEST).exists():
                        part.write_bytes(part.read_bytes()[:-1] + b"!")

        return progress

    made = builder.build_now(known, None, "local", damaging(1))
    location = Location.parse(known.snapshots_location)
    assert len(made.parts) > 2
    assert not list(verify(location, made.id, lambda done, total: None))
    with pytest.raises(BuildFailed, match="cannot be read"):
        builder.build_now(known, None, "local", damaging(2), extend=False)
    assert [each.id for each in stored.manifests(location)] == [made.id]


def beginning_parts(count: int) -> list[str]:
    """Return names of subjects whose first version begins a part."""
    names = (f"n{number}" for number in itertools.count())
    return list(
        itertools.islice(
            (n for n in names if begins_part(b"V.\0%b\0%b" % (n.encode(), layout.number(1)))), count
        )
    )


def test_a_base_that_was_replaced_after_it_was_announced_is_not_built_upon(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    location = Location.parse(known.snapshots_location)
    with closing(open_catalogue(known)) as catalogue:
        older, newer = (builder.build_now(known, catalogue, "local", silent, offset=at) for at in (10, 15))
        assert catalogue.entries()[newer.id].manifest == newer.sha256
        location.write(f"{newer.id}/{MANIFEST}", newer._replace(created_ms=0).dumps())
        made = builder.build_now(known, catalogue, "local", silent)
        assert made.base == older.id
        location.write(f"{newer.id}/{MANIFEST}", newer.dumps())
        assert builder.build_now(known, catalogue, "local", silent, offset=16).base == newer.id


def test_a_log_that_falls_silent_fails_the_build(tmp_path: Path) -> None:
    class Silent(KnownLog):
        def read(self, offset: int, records_max: int, bytes_max: int):
            raise Unreachable("no broker answers")

    with pytest.raises(LogError, match="no broker"):
        local.build(task(tmp_path, source(Silent(LOG)), 20), silent)
    assert not list(stored.manifests(Location.parse(tmp_path / "snapshots")))


def test_the_time_before_an_offset_is_that_of_the_record_before_it() -> None:
    log = KnownLog([record for record in LOG if record.offset not in (9, 10)])
    assert time_before(log, 20) == 1019
    assert time_before(log, 11) == 1008
    assert time_before(log, 0) == 0


# Builds as by a command, from an embedded log.


def embedded(data: Path, entries: int, first: int = 0) -> Settings:
    with closing(EmbeddedLog(data / "log", map_bytes=64 << 20)) as log:
        log.append([version(f"s{number:02}", 1, number + 1) for number in range(first, first + entries)])
    return Settings(data=data, store_map_bytes=256 << 20)


def test_a_build_takes_the_logs_end_and_the_newest_base_and_reports_to_the_catalogue(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    with closing(open_catalogue(known)) as catalogue:
        first = builder.build_now(known, catalogue, "local", silent)
        embedded(tmp_path, 10, first=20)
        second = builder.build_now(known, catalogue, "local", silent)
        whole = builder.build_now(known, catalogue, "local", silent, extend=False)
        entries = catalogue.entries()
    assert (first.offset, second.offset, second.base, whole.base) == (20, 30, first.id, "")
    assert [part.sha256 for part in second.parts] == [part.sha256 for part in whole.parts]
    assert {entry.state for entry in entries.values()} == {"ready"}
    assert entries[second.id].digest == digest.text(second.digest)


def test_an_end_beyond_the_logs_is_refused_and_an_earlier_one_is_built(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    with pytest.raises(builder.BuildRefused, match="ends at 20"):
        builder.build_now(known, None, "local", silent, offset=21)
    assert builder.build_now(known, None, "local", silent, offset=7).offset == 7


def test_a_base_of_another_log_or_ahead_or_damaged_is_left_alone(tmp_path: Path) -> None:
    known = embedded(tmp_path / "data", 20)
    location = Location.parse(known.snapshots_location)
    sealed(location, [], offset=3)
    ahead = builder.build_now(known, None, "local", silent)
    assert builder.build_now(known, None, "local", silent, offset=19).base == ""
    location.write(f"{ahead.id}/{ahead.parts[0].name}", b"")
    upon = builder.build_now(known, None, "local", silent)
    assert upon.base != ahead.id
    assert not list(verify(location, upon.id, lambda done, total: None))


def requested(known: Settings, offset: int) -> Entry:
    now = now_ms()
    opened = open_source(known)
    with closing(opened.log):
        identity = opened.log.identity
    return Entry(
        id=new_id(offset, now, 1), state="requested", log=identity, offset=offset,
        uri=known.snapshots_location, requested_ms=now, updated_ms=now,
    )  # fmt: skip


def test_a_request_is_built_at_its_offset_and_once(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 12))
        ready = builder.build_request(known, catalogue, entry, "local", silent)
        assert (ready.state, ready.offset, ready.schemas) == ("ready", 12, 12)
        with pytest.raises(builder.BuildRefused):
            builder.build_request(known, catalogue, entry, "local", silent)


def test_a_request_that_cannot_be_built_says_why(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 21))
        failed = builder.build_request(known, catalogue, entry, "local", silent)
    assert (failed.state, "ends at 20" in failed.reason) == ("failed", True)


def test_a_build_that_takes_too_long_fails_and_another_builder_may_claim_it(tmp_path: Path) -> None:
    known = replace(embedded(tmp_path, 20), snapshots_build_timeout_s=1.0)

    def hang(step: str, done: int, total: int) -> None:
        threading.Event().wait(600)

    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 12))
        failed = builder.build_request(known, catalogue, entry, "local", hang)
        assert failed.state == "failed"
        assert failed.reason == "it took longer than 1 s (snapshots_build_timeout_s)"
        assert failed.is_free(now_ms())
        with pytest.raises(BuildFailed, match="longer than 1 s"):
            builder.build_now(known, catalogue, "local", hang)
        assert set(catalogue.entries()) == {entry.id}


def test_the_claim_ends_even_if_the_build_cannot_be_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a build in a thread, which no alarm interrupts."""
    monkeypatch.setattr(heartbeat, "PROGRESS_S", 0.01)
    monkeypatch.setattr(heartbeat, "GRACE_S", 0.01)
    known = replace(embedded(tmp_path, 20), snapshots_build_timeout_s=0.01)
    over = threading.Event()
    with closing(open_catalogue(known)) as catalogue, ThreadPoolExecutor(1) as thread:
        catalogue.put(entry := requested(known, 12))
        built = thread.submit(
            builder.build_request, known, catalogue, entry, "local", lambda *_: bool(over.wait(600))
        )
        try:
            until(
                lambda: catalogue.entries()[entry.id].state == "failed",
                60,
                "the end of its hold of the request",
            )
        finally:
            over.set()
        assert built.result().state == "failed", "another builder may be deleting its files"
        (manifest,) = Path(known.snapshots_location).glob(f"*/{MANIFEST}")
        written = manifest.read_bytes()
        assert builder.build_request(known, catalogue, entry, "local", silent).state == "ready"
        assert manifest.read_bytes() == written, "its files are no worse for being late"


def test_a_builder_that_was_replaced_announces_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was frozen, taken for dead, and continues while another one builds the same files."""
    known = embedded(tmp_path, 20)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 12))
        others = entry.in_state("building", now_ms(), builder="another", attempts=2)

        def replaced(step: str, done: int, total: int) -> None:
            if step == local.VERIFYING:
                catalogue.forget(entry.id)
                catalogue.put(others)

        assert builder.build_request(known, catalogue, entry, "local", replaced) == others
        assert "is building by now, because its builder was too slow" in caplog.text


def test_a_late_manifest_whose_files_were_deleted_is_not_announced(tmp_path: Path) -> None:
    """As by a later build, which deletes what a failed one has left, at the same moment."""
    known = embedded(tmp_path, 20)
    location = Location.parse(known.snapshots_location)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 12))
        ready = builder.build_request(known, catalogue, entry, "local", silent)
        catalogue.forget(entry.id)
        catalogue.put(entry)
        for part in stored.read_manifest(location, entry.id).parts:
            Path(known.snapshots_location, entry.id, part.name).unlink()
        again = builder.build_request(known, catalogue, entry, "local", silent)
        assert (again.state, again.digest) == ("ready", ready.digest)
        assert not list(verify(location, entry.id, lambda done, total: None))


def test_what_is_deleted_while_it_is_built_does_not_come_back(tmp_path: Path) -> None:
    """Its builder was frozen, taken for dead, and continues when the first files are gone."""
    known = embedded(tmp_path, 20)
    location = Location.parse(known.snapshots_location)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 12))

        def told(step: str, done: int, total: int) -> None:
            if step == local.WRITING and entry.id in catalogue.entries():
                location.delete(entry.id)
                catalogue.forget(entry.id)

        builder.build_request(known, catalogue, entry, "local", told)
        assert catalogue.entries() == {}
        assert location.folders() == []
        heartbeat.BuildHeartbeat(catalogue, entry, known=True).beat()
        assert catalogue.entries() == {}


def test_a_build_waits_for_another_one_beside_the_same_data(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that failed for that reason would soon have failed permanently."""
    known = embedded(tmp_path, 20)
    lock = file_lock.hold(tmp_path / "building.lock")
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(1) as thread:
        built = thread.submit(builder.build_now, known, None, "local", silent)
        until(lambda: "waiting for process" in caplog.text, 30, "the build to wait")
        assert not built.done()
        os.close(lock)
        assert built.result().offset == 20


def test_the_catalogue_knows_the_base_while_a_build_goes_on(tmp_path: Path) -> None:
    known = embedded(tmp_path, 20)
    base = builder.build_now(known, None, "local", silent)
    embedded(tmp_path, 10, first=20)
    seen = set()
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 30))

        def told(step: str, done: int, total: int) -> None:
            seen.add((catalogue.entries()[entry.id].state, catalogue.entries()[entry.id].base))

        builder.build_request(known, catalogue, entry, "local", told)
        assert seen == {("building", base.id)}
        taken_up = catalogue.entries()[entry.id].in_state("failed", now_ms())
        catalogue.forget(entry.id)
        catalogue.put(taken_up)
        taken = take_request(catalogue, entry.id, "another", now_ms())
    assert taken is not None
    assert taken.base == "", "another builder may choose another one"


def test_the_catalogue_reports_how_far_a_build_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "PROGRESS_S", 0.01)
    known = embedded(tmp_path, 20)
    base = builder.build_now(known, None, "local", silent)
    embedded(tmp_path, 10, first=20)
    told: dict[str, tuple[int, int]] = {}
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 30))

        def tell(step: str, done: int, total: int) -> None:
            wanted = BuildProgress(step, done, total)
            until(lambda: catalogue.entries()[entry.id].progress == wanted, 30, f"{wanted} in the catalogue")
            told[step] = done, total
            shown = stores.as_table([*catalogue.entries().values()])
            assert f"  building {wanted.percent}%  " in shown
            assert f"{entry.id} is being built: {step}, {done} of {total}" in shown

        ready = builder.build_request(known, catalogue, entry, "local", tell)
    assert told == {
        local.LOADING: (base.rows, base.rows),
        local.READING: (10, 10),
        local.WRITING: (ready.rows, ready.rows),
        local.VERIFYING: (ready.rows, ready.rows),
    }
    assert (ready.state, ready.progress) == ("ready", None)


def test_progress_adds_at_most_a_heartbeat_for_each_percent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "PROGRESS_S", 0.0001)
    monkeypatch.setattr(heartbeat, "HEARTBEAT_S", 3600.0)
    known = embedded(tmp_path, 20)
    written: list[Entry] = []
    with closing(open_catalogue(known)) as catalogue:
        put = catalogue.put
        monkeypatch.setattr(catalogue, "put", lambda entry: written.append(entry) or put(entry))
        built = heartbeat.BuildHeartbeat.first(catalogue, requested(known, 20))
        report = built.reporting(silent)
        with built.beating():
            for done in range(30_000):
                report("counting", done, 30_000)
            until(lambda: built.entry.progress and built.entry.progress.percent == 99, 30, "the last one")
    assert len(written) <= 101


KILLED = """
import os, signal, sys
from contextlib import closing
from pathlib import Path
from registry.base.config.settings import Settings
from snapshots.format import files
from snapshots.catalogue.open import open_catalogue
from snapshots.building import builder

data, step, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def reached(name):
    global count
    count -= name == step
    if name == step and count < 0:
        os.kill(os.getpid(), signal.SIGKILL)

def told(name, done, total):
    reached(name)

write = files.LocalFolder.write
def watched(self, path, content):
    kind = "manifest" if path.endswith("manifest.json") else "part"
    reached(f"before the {kind}")
    write(self, path, content)
    reached(f"after the {kind}")
files.LocalFolder.write = watched
settings = Settings(data=data, store_map_bytes=256 << 20)
with closing(open_catalogue(settings)) as catalogue:
    entry = next(each for each in catalogue.entries().values() if each.state == "requested")
    builder.build_request(settings, catalogue, entry, "local", told)
"""


@pytest.mark.parametrize(
    "step",
    [
        "loading the base",
        "reading the log",
        pytest.param("before the part", marks=pytest.mark.long),
        "after the part",
        pytest.param("writing the parts", marks=pytest.mark.long),
        "before the manifest",
        "after the manifest",
    ],
)
def test_a_build_that_is_killed_leaves_no_half_snapshot_and_the_next_one_succeeds(
    tmp_path: Path, step: str
) -> None:
    known = embedded(tmp_path, 20)
    location = Location.parse(known.snapshots_location)
    base = builder.build_now(known, None, "local", silent)
    embedded(tmp_path, 10, first=20)
    with closing(open_catalogue(known)) as catalogue:
        catalogue.put(entry := requested(known, 30))
    command = [sys.executable, "-c", KILLED, str(tmp_path), step, "0"]
    killed = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    finished = step == "after the manifest"
    ids = [each.id for each in stored.manifests(location)]
    assert sorted(ids) == sorted([base.id, entry.id] if finished else [base.id])
    with closing(open_catalogue(known)) as catalogue:
        left = catalogue.entries()[entry.id]
        assert left.state == "building"
        # Its builder is dead: the builder that takes over logs that.
        ready = builder.build_request(known, catalogue, left, "local", silent)
    assert (ready.state, ready.offset, ready.base) == ("ready", 30, base.id)
    assert not list(verify(location, entry.id, lambda done, total: None))


def test_what_builds_that_have_ended_left_is_removed(tmp_path: Path) -> None:
    location = Location.parse(tmp_path)
    now = now_ms()
    young, old, failed, going = (
        new_id(1, now - age, number) for number, age in enumerate((DAY_MS // 2, 2 * DAY_MS, 0, 2 * DAY_MS))
    )
    kept = sealed(location, [(b"Va", b"")])
    for each in (young, old, failed, going):
        location.write(f"{each}/part-0123456789abcdef.arrow", b"")
    (tmp_path / "of-somebody-else").mkdir()
    for _ in range(2):
        stored.sweep(location, {going}, {failed}, now)
    assert set(location.folders()) == {young, going, kept.id, "of-somebody-else"}
