"""Loading a snapshot: it and the tail give the right rows, and no damage or kill leaves a partial store."""

from __future__ import annotations

import hashlib
import itertools
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.domain.log_format.records import Record
from registry.domain.rows import digest
from registry.node.startup.snapshot_loader import verify_digest
from registry.store.layout import DamagedStore, StoreError
from registry.store.open import open_store
from snapshots.catalogue.catalogue import Catalogue, CatalogueError, Entry
from snapshots.catalogue.open import EmbeddedCatalogue
from snapshots.format.location import Location
from snapshots.format.manifest import MANIFEST, Manifest, Part, part_name
from snapshots.format.parts import encode_rows
from snapshots.format.stored import UnusableSnapshot, read_manifest
from snapshots.format.verify import verify
from snapshots.format.writer import WrittenRows, merge_runs, publish, write_run
from snapshots.loading import load_newest as newest
from snapshots.loading.candidates import TargetLog, read_rejected
from snapshots.loading.load import load
from snapshots.loading.load_newest import LoadRequest, load_newest
from tests.process.snapshots.loading import (
    ANY_END,
    Damage,
    follow,
    loading,
    opened,
    parted,
    quiet,
    rows_in_store,
    verified,
)
from tests.support.running import ROOT
from tests.support.sample_snapshots import DAY_MS, LOG, MAP, about, build, sealed
from tests.unit.random_logs import logs, rows_of
from tests.unit.snapshots.test_parts import FORGED

RUNS = [[(b"V%d%03d" % (run, n), b"%d" % n * 40) for n in range(200)] for run in range(3)]
ROWS = [row for run in RUNS for row in run]
_numbers = itertools.count()


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location.parse(tmp_path / "snapshots")


# The loaded rows


@settings(max_examples=20)
@given(logs, st.integers(0, 125))
def test_a_snapshot_loaded_and_the_tail_are_the_fold_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, log: list[Record], at: int
) -> None:
    data = tmp_path_factory.getbasetemp() / f"loaded-{next(_numbers)}"
    manifest = build(data, log, at, log_end=200)
    store = opened(data, loading(Location.parse(data / "snapshots"), manifest))
    assert (store.applied, store.loaded_from) == (at, manifest.id)
    verify_digest(store, threading.Event())
    assert not store.loaded_from
    follow(store, (record for record in log if record.offset >= at))
    whole = rows_of(log)
    assert dict(rows_in_store(store)) == whole
    assert store.digest == digest.of_rows(whole.items())
    assert verified(store)
    store.close()


def test_what_was_loaded_takes_the_place_of_the_store_that_was_there(
    tmp_path: Path, location: Location
) -> None:
    store = opened(tmp_path)
    store.commit([(b"Vold", b"1")], 3)
    store.close()
    manifest = parted(location, RUNS)
    steps: list[tuple[str, int, int]] = []
    store = opened(tmp_path, loading(location, manifest, lambda *step: steps.append(step)))
    assert rows_in_store(store) == ROWS
    assert store.state == (7, digest.of_rows(ROWS))
    assert store.at_end_ms() == manifest.at_end_ms
    assert steps[0] == ("begun", 0, 0)
    assert [rows for step, rows, _ in steps if step == "part"] == [200, 400, 600]
    assert steps[-1] == ("synced", manifest.rows, manifest.size)
    store.complete()
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert names == ["current", "lock", "store-1.outdated", "store-2"]
    store.close()
    again = opened(tmp_path)
    assert rows_in_store(again) == ROWS
    again.close()


def test_one_that_is_not_to_go_on_is_set_aside_once_another_is_complete(
    tmp_path: Path, location: Location
) -> None:
    opened(tmp_path).close()
    store, messages = open_store(
        tmp_path / "store", LOG, ANY_END, map_bytes=MAP, stale=lambda _: "it was away",
        load=loading(location, parted(location, RUNS)),
    )  # fmt: skip
    assert store.applied == 7
    assert "it was away" in messages[0]
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert names == ["current", "lock", "next", "store-1", "store-2"]
    store.complete()
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert names == ["current", "lock", "store-1.outdated", "store-2"]
    store.close()


def test_an_empty_snapshot_is_one_too(tmp_path: Path, location: Location) -> None:
    store = opened(tmp_path, loading(location, sealed(location, [])))
    assert store.state == (7, digest.EMPTY)
    store.close()


def test_a_full_map_is_reported_and_leaves_nothing(tmp_path: Path, location: Location) -> None:
    manifest = sealed(location, [(b"V%d" % n, b"x" * 100_000) for n in range(30)])
    with pytest.raises(StoreError, match="store_map_bytes"):
        load(manifest, location, tmp_path / "store-1", map_bytes=1 << 20, on_step=quiet)
    assert not (tmp_path / "store-1").exists()


# Damage

DAMAGES: dict[str, Damage] = {
    "its first bit": lambda data: bytes([data[0] ^ 0x80]) + data[1:],
    "a bit in the middle": lambda data: _flipped(data, len(data) // 2),
    "a bit near the end": lambda data: _flipped(data, len(data) - 9),
    "its last bit": lambda data: _flipped(data, len(data) - 1),
    "half of it": lambda data: data[: len(data) // 2],
    "its last byte": lambda data: data[:-1],
    "all": lambda data: b"",
    "one byte too many": lambda data: data + b"\0",
    "gone": lambda data: None,
}
# Much like another one, so left to make test-long.
ALIKE = {"its first bit", "a bit near the end", "its last byte"}


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage", [pytest.param(each, marks=[pytest.mark.long] * (each in ALIKE)) for each in DAMAGES]
)
def test_any_damage_to_any_file_is_seen_and_nothing_is_loaded(
    tmp_path: Path, location: Location, damage: str
) -> None:
    manifest = parted(location, RUNS)
    store = opened(tmp_path)
    store.commit([(b"Vold", b"1")], 3)
    store.close()
    for name in (MANIFEST, *(part.name for part in manifest.parts)):
        file = tmp_path / "snapshots" / manifest.id / name
        whole = file.read_bytes()
        broken = DAMAGES[damage](whole)
        if broken is None:
            file.unlink()
        else:
            file.write_bytes(broken)
        with pytest.raises(UnusableSnapshot, match=r"manifest|damaged|missing|bytes, but"):
            opened(tmp_path, loading(location, read_manifest(location, manifest.id)))
        assert [path.name for path in (tmp_path / "store").glob("store-*")] == ["store-1"]
        file.write_bytes(whole)
    again = opened(tmp_path)
    assert (again.applied, rows_in_store(again)) == (3, [(b"Vold", b"1")])
    again.close()


def _with_part(
    location: Location, content: bytes, rows: int, first: bytes, last: bytes, offset: int = 7
) -> Manifest:
    """Write a snapshot with valid hashes and a single part of any content."""
    known = about(offset)
    sha256 = hashlib.sha256(content).hexdigest()
    location.write(f"{known.id}/{part_name(sha256)}", content)
    part = Part(part_name(sha256), rows, len(content), sha256, first, last)
    return publish(location, known, WrittenRows([part], {"V": rows}, digest.EMPTY))


@pytest.mark.parametrize(
    ("rows", "said", "why"),
    [
        ([(b"a", b"1"), (b"c", b"2"), (b"b", b"3"), (b"d", b"4")], (4, b"a", b"d"), "out of order"),
        ([(b"a", b"1"), (b"b", b"2"), (b"b", b"3"), (b"d", b"4")], (4, b"a", b"d"), "out of order"),
        ([(b"a", b"1"), (b"d", b"2")], (3, b"a", b"d"), "does not have the rows"),
        ([(b"a", b"1"), (b"d", b"2")], (2, b"a", b"e"), "does not have the rows"),
        ([(b"a", b"1"), (b"d", b"2")], (2, b"0", b"d"), "does not have the rows"),
    ],
)
def test_parts_that_are_not_what_the_manifest_says_are_refused_though_their_hashes_hold(
    tmp_path: Path,
    location: Location,
    rows: list[tuple[bytes, bytes]],
    said: tuple[int, bytes, bytes],
    why: str,
) -> None:
    manifest = _with_part(location, encode_rows(rows), *said)
    with pytest.raises(UnusableSnapshot, match=why):
        load(manifest, location, tmp_path / "store-1", map_bytes=MAP, on_step=quiet)
    assert not (tmp_path / "store-1").exists()


def test_parts_with_another_number_of_rows_than_the_manifest_are_refused(
    tmp_path: Path, location: Location
) -> None:
    manifest = _with_part(location, encode_rows([(b"a", b"1"), (b"d", b"2")]), 2, b"a", b"d")
    wrong = manifest._replace(counts={"V": 3})
    with pytest.raises(UnusableSnapshot, match="hold 2 rows, but its manifest says 3"):
        load(wrong, location, tmp_path / "store-1", map_bytes=MAP, on_step=quiet)
    assert not (tmp_path / "store-1").exists()


def test_a_file_that_is_no_part_is_refused_though_its_hash_holds(tmp_path: Path, location: Location) -> None:
    manifest = _with_part(location, b"no arrow at all", 1, b"a", b"a")
    with pytest.raises(UnusableSnapshot, match="damaged"):
        load(manifest, location, tmp_path / "store-1", map_bytes=MAP, on_step=quiet)


# Kills

KILLED = """
import os, signal, sys
from pathlib import Path
from registry.store import open as opening
from tests.process.snapshots.loading import loading, opened
from snapshots.format.location import Location
from snapshots.format.stored import read_manifest

folder, id = Path(sys.argv[1]), sys.argv[2]
location = Location.parse(folder / "snapshots")
write_current = opening.write_current

def die(step):
    if step == wanted:
        os.kill(os.getpid(), signal.SIGKILL)

def writing(path, current, file="current"):
    die("before it is named")
    write_current(path, current, file)
    die("when it is named")

opening.write_current = writing
for wanted in sys.argv[3:]:
    pid = os.fork()
    if not pid:
        manifest = read_manifest(location, id)
        store = opened(folder / wanted, loading(location, manifest, lambda step, *_: die(step)))
        die("when it is there")
        store.complete()
        die("when it is the current one")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, wanted
"""
STEPS = {
    "begun": 3, "part": 3, "rows": 3, "synced": 3, "before it is named": 3, "when it is named": 3,
    "when it is there": 7, "when it is the current one": 7,
}  # fmt: skip


def test_a_kill_at_any_step_leaves_the_store_of_before_or_the_whole_new_one(
    tmp_path: Path, location: Location
) -> None:
    manifest = parted(location, RUNS)
    for step in STEPS:
        store = opened(tmp_path / step)
        store.commit([(b"Vold", b"1")], 3)
        store.close()
    command = [sys.executable, "-c", KILLED, str(tmp_path), manifest.id, *STEPS]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    for step, applied in STEPS.items():
        store = opened(tmp_path / step)
        assert store.applied == applied, step
        assert rows_in_store(store) == (ROWS if applied == 7 else [(b"Vold", b"1")]), step
        assert verified(store)
        store.close()
        names = {path.name for path in (tmp_path / step / "store").glob("store-*")}
        former = {"store-1.outdated" if step == "when it is the current one" else "store-1"}
        assert names == former | ({"store-2"} if applied == 7 else set()), f"leftovers of {step} are gone"
        store = opened(tmp_path / step, loading(location, manifest))
        assert rows_in_store(store) == ROWS
        store.close()


# Rows that do not give their digest


def test_rows_that_are_wrong_are_condemned_and_their_snapshot_is_not_taken_again(
    tmp_path: Path, location: Location
) -> None:
    known = parted(location, RUNS)
    wrong = known._replace(digest=(known.digest + 1) % digest.MODULUS)
    location.write(f"{known.id}/{MANIFEST}", wrong.dumps())
    store = opened(tmp_path, loading(location, wrong))
    with pytest.raises(DamagedStore, match="do not match the stored digest"):
        verify_digest(store, threading.Event())
    store.close()
    refused = read_rejected(tmp_path / "store")
    assert list(refused) == [wrong.id]
    said: list[str] = []
    catalogue = EmbeddedCatalogue(tmp_path / "catalogue")
    assert load_newest(catalogue, location.uri, wanted(tmp_path, refused=refused), Hearing(said)) is None
    assert said == [f"The snapshot {wrong.id} is not used: {refused[wrong.id]}"]
    store, messages = open_store(tmp_path / "store", LOG, ANY_END, map_bytes=MAP)
    assert "do not match the stored digest" in messages[0]
    assert store.applied == 0
    verify_digest(store, threading.Event())
    store.close()


def test_rows_that_change_after_they_were_loaded_are_not_its_fault(
    tmp_path: Path, location: Location
) -> None:
    store = opened(tmp_path, loading(location, parted(location, RUNS)))
    store.commit([(ROWS[5][0], b"changed"), (b"Vnew", b"1"), (ROWS[8][0], None)], 9)
    verify_digest(store, threading.Event())
    assert not store.loaded_from
    store.close()


# The choice of the snapshot


class Hearing:
    def __init__(self, said: list[str]) -> None:
        self.sentences = said
        self.waited: list[str] = []

    def on_message(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def on_waiting(self, sentence: str) -> None:
        self.waited.append(sentence)

    def on_chosen(self, manifest: Manifest) -> None:
        pass

    def on_step(self, step: str, rows: int, size: int) -> None:
        pass


def wanted(
    path: Path, *, applied: int = 0, end: int = 1000, refused: dict[str, str] | None = None
) -> LoadRequest:
    now = about().created_ms
    situation = TargetLog(LOG, end, 7 * DAY_MS, 1000, now, refused or {})
    return LoadRequest(situation, applied, 1, path / "taken", MAP)


def entered(catalogue: Catalogue, location: Location, manifest: Manifest) -> Manifest:
    catalogue.put(
        Entry(
            id=manifest.id, state="ready", log=manifest.log, offset=manifest.offset, uri=location.uri,
            requested_ms=1, updated_ms=1, rows=manifest.rows, comparable_from=manifest.comparable_from,
            at_end_ms=manifest.at_end_ms, fold=manifest.fold, format=manifest.format,
            manifest=manifest.sha256,
        )
    )  # fmt: skip
    return manifest


class Away:
    """A catalogue that cannot be reached."""

    def entries(self) -> dict[str, Entry]:
        raise CatalogueError("the catalogue of snapshots cannot be used: nobody answers")


def test_the_next_older_one_is_taken_and_each_that_is_not_is_said(tmp_path: Path, location: Location) -> None:
    catalogue = EmbeddedCatalogue(tmp_path / "catalogue")
    elsewhere = Location.parse(tmp_path / "elsewhere")
    good = entered(catalogue, elsewhere, parted(elsewhere, RUNS, 500))
    damaged = entered(catalogue, location, parted(location, RUNS[:2], 600))
    file = tmp_path / "snapshots" / damaged.id / damaged.parts[1].name
    file.write_bytes(_flipped(file.read_bytes(), 100))
    removed = entered(catalogue, location, parted(location, RUNS, 700))
    location.delete(removed.id)
    entered(catalogue, location, parted(location, RUNS, 2000))
    said: list[str] = []
    taken = load_newest(catalogue, location.uri, wanted(tmp_path), Hearing(said))
    assert taken == good
    assert [sentence.split()[2].split("-")[1] for sentence in said] == [
        "000000002000", "000000000700", "000000000600",
    ]  # fmt: skip
    beyond, half, broken = said
    assert "needs the log up to offset 2000, but the log ends at 1000" in beyond
    assert "has no manifest of it" in half
    assert "damaged" in broken


@pytest.mark.parametrize(("content", "rows", "first", "last", "why"), FORGED)
def test_parts_that_no_store_could_hold_mean_the_next_older_snapshot(
    tmp_path: Path, location: Location, content: bytes, rows: int, first: bytes, last: bytes, why: str
) -> None:
    catalogue = EmbeddedCatalogue(tmp_path / "catalogue")
    good = entered(catalogue, location, parted(location, RUNS, 500))
    forged = entered(catalogue, location, _with_part(location, content, rows, first, last, 600))
    said: list[str] = []
    assert load_newest(catalogue, location.uri, wanted(tmp_path), Hearing(said)) == good
    (sentence,) = said
    assert sentence.startswith(f"The snapshot {forged.id} is not used: {forged.parts[0].name} is damaged")
    assert why in sentence


def test_a_snapshot_that_was_replaced_after_it_was_announced_is_not_loaded(
    tmp_path: Path, location: Location
) -> None:
    """Everything in the location fits together, but it is not what the catalogue knows."""
    catalogue = EmbeddedCatalogue(tmp_path / "catalogue")
    good = entered(catalogue, location, parted(location, RUNS, 500))
    known = entered(catalogue, location, parted(location, RUNS, 600))
    forged = parted(location, RUNS[:1], 600)
    for part in forged.parts:
        location.write(f"{known.id}/{part.name}", location.read(f"{forged.id}/{part.name}"))
    location.write(f"{known.id}/{MANIFEST}", forged._replace(id=known.id).dumps())
    location.delete(forged.id)
    assert not list(verify(location, known.id, lambda done, total: None))
    [finding] = verify(location, known.id, lambda done, total: None, known.sha256)
    assert finding.startswith(f"{MANIFEST} is not the one that the catalogue announced")
    said: list[str] = []
    assert load_newest(catalogue, location.uri, wanted(tmp_path), Hearing(said)) == good
    assert said == [
        f"The snapshot {known.id} is not used: its manifest is not the one that the catalogue announced:"
        " it was damaged or replaced"
    ]


def test_without_a_catalogue_the_location_is_looked_through(tmp_path: Path, location: Location) -> None:
    older = parted(location, RUNS, 500)
    foreign = about(800, log="another")
    publish(location, foreign, merge_runs([write_run(location, foreign.id, [ROWS])]))
    (tmp_path / "snapshots" / foreign.id.replace("000800", "000900")).mkdir()
    (tmp_path / "snapshots" / "something else").mkdir()
    said: list[str] = []
    taken = load_newest(Away(), location.uri, wanted(tmp_path), Hearing(said))  # type: ignore[arg-type]
    assert taken == older
    assert "nobody answers; searching for snapshots in their location only" in said[0]
    assert "has no manifest of it" in said[1]
    assert "it is of another log, another" in said[2]
    assert len(said) == 3


def test_a_location_that_cannot_be_read_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    catalogue = EmbeddedCatalogue(tmp_path / "catalogue")
    said: list[str] = []
    assert load_newest(catalogue, "ftp://nowhere/at/all", wanted(tmp_path), Hearing(said)) is None
    assert len(said) == 1
    assert load_newest(catalogue, str(tmp_path / "nothing here"), wanted(tmp_path), Hearing(said)) is None
    assert len(said) == 1, "nothing is there: nothing to say"


def test_a_place_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3's client would retry for minutes, for each snapshot again."""
    monkeypatch.setattr(newest, "ANSWER_S", 3.0)
    local = Location.parse(tmp_path / "snapshots")
    catalogue = EmbeddedCatalogue(tmp_path / "catalogue")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"endpoint_override=127.0.0.1%3A{silent.getsockname()[1]}&scheme=http&region=us-east-1"
        away = Location.parse(f"s3://u:p@bucket/x?{where}")
        for offset in (600, 700):
            entered(catalogue, away, parted(local, RUNS, offset))
        good = entered(catalogue, local, parted(local, RUNS, 500))
        hearing = Hearing([])
        assert load_newest(catalogue, away.uri, wanted(tmp_path), hearing) == good, "the others are tried"
        assert hearing.waited == [f"waiting for the snapshots in {away}, at most 3 s"]
        (sentence,) = hearing.sentences
        assert sentence.startswith(f"The snapshots in {away} are not used: there was no answer")


def test_what_is_not_ahead_is_not_even_looked_at(tmp_path: Path, location: Location) -> None:
    manifest = parted(location, RUNS, 500)
    (tmp_path / "snapshots" / manifest.id / MANIFEST).write_text("{}")
    said: list[str] = []
    catalogue = EmbeddedCatalogue(tmp_path / "catalogue")
    assert load_newest(catalogue, location.uri, wanted(tmp_path, applied=500), Hearing(said)) is None
    assert not said
    assert load_newest(catalogue, location.uri, wanted(tmp_path, applied=499), Hearing(said)) is None
    assert len(said) == 1


def test_lines_of_refused_snapshots_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    assert read_rejected(tmp_path) == {}
    lines = ["{", json.dumps({"id": "a", "reason": "wrong"}), json.dumps([]), json.dumps({"id": "b"})]
    (tmp_path / "refused-snapshots").write_text("\n".join(lines))
    assert read_rejected(tmp_path) == {"a": "wrong"}


def test_what_libraries_print_is_not_taken_for_a_report() -> None:
    """Libraries of some locations print anything, and the node reads lines of JSON."""
    code = """
import os
from registry.node.startup.load_process import _Reporter
reporter = _Reporter()
print("noise", flush=True)
os.system("echo more of it")
reporter.on_message("a sentence")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert orjson.loads(done.stdout) == {"message": "a sentence"}
    assert done.stderr.split() == [b"noise", b"more", b"of", b"it"]
