"""The contract of every store of rows: ordered views, and in LMDB one moment, one commit, one digest."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.base.processes.child_process import module_command
from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import Record
from registry.domain.rows import digest
from registry.domain.rows.memory_views import DictView, OverlayView
from registry.domain.rows.view import Change, View, scan, scan_back
from registry.store import folder, layout
from registry.store.examination import begin, peek
from registry.store.folder import remove_rebuilt
from registry.store.layout import DamagedStore, StoreError, StoreMissing
from registry.store.lmdb import Store
from registry.store.offline import OfflineStore
from registry.store.open import NotServable, known_log, open_kept, open_store
from registry.store.reader import StoreReader
from tests.support.disks import Disk

MAP = 64 << 20
LOG = "a-log"


def opened(path: Path, log: str = LOG, log_end: int = 1000, fold: int = 1) -> Store:
    store, _ = open_store(path / "store", log, log_end, map_bytes=MAP, fold=fold)
    return store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = opened(tmp_path)
    yield made
    made.close()


Commit = Callable[[list[Change]], None]


@pytest.fixture(params=["dict", "overlay", "lmdb", "reader"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Callable[[], View], Commit]]:
    """Yield a function that returns a view of the rows, and one that changes them."""
    if request.param == "dict":
        rows = DictView()
        yield lambda: rows, rows.commit
        return
    if request.param == "overlay":
        overlay = OverlayView(DictView([(b"under", b"covered"), (b"b", b"under")]))
        overlay.commit([(b"under", None), (b"b", None)])
        yield lambda: overlay, overlay.commit
        return
    if request.param == "lmdb":
        store = opened(tmp_path)
        yield store.view, lambda changes: store.commit(changes, store.applied + 1)
        store.close()
        return
    reader = StoreReader(tmp_path / "store")

    def commit(changes: list[Change]) -> None:
        # A process can have an environment open only once, so the two take turns.
        reader.close()
        store = opened(tmp_path)
        store.commit(changes, store.applied + 1)
        store.close()

    def view() -> View:
        assert reader.refresh()
        return reader.view()

    yield view, commit
    reader.close()


def test_a_view_is_returned_unless_the_rows_are_those_of_the_moment_that_is_known(tmp_path: Path) -> None:
    reader = StoreReader(tmp_path / "store")
    with pytest.raises(StoreMissing):
        reader.view_unless(None)
    moments: list[int | None] = [None]
    for number in range(3):
        reader.close()
        store = opened(tmp_path)
        store.commit([(b"a", b"%d" % number)], store.applied + 1)
        store.close()
        assert reader.refresh()
        for known in moments:
            view = reader.view_unless(known)
            assert view is not None
            with view:
                assert view.get(b"a") == b"%d" % number
        moments.append(view.moment)
        assert reader.view_unless(view.moment) is None
        with reader.view() as same:
            assert same.moment == view.moment
    reader.close()
    with pytest.raises(StoreMissing):
        reader.view_unless(moments[-1])
    assert len(set(moments)) == 4


def test_rows_are_found_by_key_and_in_order(place: tuple[Callable[[], View], Commit]) -> None:
    view, commit = place
    commit([(b"b", b"2"), (b"a", b"1"), (b"ab", b""), (b"c", b"x" * 5000)])
    seen = view()
    assert (seen.get(b"a"), seen.get(b"ab"), seen.get(b"aa")) == (b"1", b"", None)
    assert seen.seek(b"") == (b"a", b"1")
    assert seen.seek(b"aa") == (b"ab", b"")
    assert seen.seek(b"ab") == (b"ab", b"")
    assert seen.seek(b"d") is None
    assert seen.seek_back(b"a") is None
    assert seen.seek_back(b"b") == (b"ab", b"")
    assert seen.seek_back(b"zz") == (b"c", b"x" * 5000)
    assert [key for key, _ in scan(seen, b"a")] == [b"a", b"ab"]
    assert [key for key, _ in scan_back(seen, b"a")] == [b"ab", b"a"]


def test_the_last_change_of_a_key_counts(place: tuple[Callable[[], View], Commit]) -> None:
    view, commit = place
    commit([(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"b", None), (b"none", None)])
    commit([(b"c", b"1"), (b"a", b"3")])
    commit([(b"c", None)])
    seen = view()
    assert seen.seek(b"") == (b"a", b"3")
    assert seen.seek(b"b") is None
    assert seen.seek_back(b"z") == (b"a", b"3")


CHANGES = st.lists(
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"ba", b"c", b"d"]), st.none() | st.binary(max_size=2)),
        max_size=5,
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(batches=CHANGES, data=st.data())
def test_store_and_dict_agree_and_every_digest_is_that_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Change]], data: st.DataObject
) -> None:
    """Compare rows, digest and the digest computed during commits with a plain dict."""
    oracle = DictView()
    store = _fresh(tmp_path_factory)
    applied = store.applied
    for batch in batches:
        applied += len(batch)
        store.commit(batch, applied)
        oracle.commit(batch)
        for _ in range(data.draw(st.integers(0, 2))):
            store.verify_step(data.draw(st.integers(1, 3)))
    rows = list(oracle.rows())
    with store.view() as view:
        assert list(scan(view, b"", b"")) == rows
        assert (view.applied(), view.state()) == (applied, store.state)
    assert store.digest == digest.of_rows(rows)
    assert store.stat().rows == len(rows)
    while not store.verify_step(1):
        pass


_KEPT: dict[str, Store] = {}


def _fresh(factory: pytest.TempPathFactory) -> Store:
    """Open one store for all examples, emptied: opening one takes longer than an example."""
    if "store" not in _KEPT:
        _KEPT["store"] = opened(factory.mktemp("agree"))
    store = _KEPT["store"]
    with store.view() as view:
        gone = [(key, None) for key, _ in scan(view, b"", b"")]
    store.commit(gone, 0)
    assert store.digest == digest.EMPTY
    return store


def test_rows_offset_and_digest_are_there_after_a_restart(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.applied == 0
    store.commit([(b"a", b"1")], 7)
    state = store.state
    store.close()
    store.close()
    again = opened(tmp_path)
    assert again.state == state
    with again.view() as view:
        assert view.get(b"a") == b"1"
    assert again.at_end_ms() > 0
    again.mark_at_end(9_000)
    again.close()
    assert peek(tmp_path / "store") == (7, 9_000, NOTHING)


def test_a_lineage_is_kept_with_the_rows(tmp_path: Path) -> None:
    lineage = NOTHING.with_records([Record(6, 1, b"k", b"v")], 3, 7)
    store = opened(tmp_path)
    assert store.lineage == NOTHING
    store.commit([(b"a", b"1")], 7, lineage)
    store.commit([(b"a", b"2")], 8)
    assert store.lineage == lineage, "what is not told stays"
    with store.view() as view:
        assert view.lineage() == lineage
    store.close()
    found = peek(tmp_path / "store")
    assert found is not None
    assert (found.applied, found.lineage) == (8, lineage)
    again = opened(tmp_path)
    assert again.lineage == lineage
    again.close()
    assert known_log(tmp_path / "store") == LOG


def test_a_view_keeps_its_moment(store: Store) -> None:
    store.commit([(b"a", b"1")], 1)
    with store.view() as before:
        store.commit([(b"a", b"2")], 2)
        assert (before.get(b"a"), before.applied()) == (b"1", 1)
        with store.view() as after:
            assert (after.get(b"a"), after.applied()) == (b"2", 2)


def test_views_are_opened_by_many_threads_while_commits_go_on(store: Store) -> None:
    torn: list[object] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            with store.view() as view:
                expected = b"%d" % view.applied()
                torn.extend({view.get(b"a"), view.get(b"b")} - {expected})

    store.commit([(b"a", b"1"), (b"b", b"1")], 1)
    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(2, 200):
        store.commit([(b"a", b"%d" % n), (b"b", b"%d" % n)], n)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not torn


def test_a_full_map_changes_nothing(tmp_path: Path) -> None:
    store, _ = open_store(tmp_path / "store", LOG, 0, map_bytes=1 << 20)
    store.commit([(b"a", b"1")], 1)
    state = store.state
    with pytest.raises(StoreError, match="map size"):
        store.commit([(b"%d" % n, b"x" * 100_000) for n in range(30)], 2)
    assert store.state == state
    store.commit([(b"a", b"2")], 2)
    assert store.applied == 2
    store.close()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """LMDB calls what a full disk does to it an input/output error."""
    with Disk(tmp_path / "store") as disk:
        store = opened(tmp_path)
        disk.fill()
        with pytest.raises(StoreError, match=r"cannot be written: .*; the disk is full$"):
            store.commit([(b"%d" % number, b"x" * 1000) for number in range(1000)], 1)
        disk.free()
        store.commit([(b"a", b"1")], 1)
        store.close()


def test_new_rows_are_put_beside_changed_ones(store: Store) -> None:
    store.commit([(b"a", b"1"), (b"c", b"3"), (b"d", b"4")], 1)
    assert not store.verify_step(2)
    new = [(b"b", b"2"), (b"e", b"5")]
    store.commit_folded(new, [(b"a", b"0"), (b"d", None), (b"x", None)], 2)
    left = [(b"a", b"0"), (b"b", b"2"), (b"c", b"3"), (b"e", b"5")]
    assert store.state == (2, digest.of_rows(left))
    with store.view() as view:
        assert list(scan(view, b"", b"a")) == left
    while not store.verify_step(2):
        pass


def test_a_new_row_that_was_there_is_damage_and_changes_nothing(store: Store) -> None:
    store.commit([(b"b", b"1")], 1)
    state, new = store.state, [(b"a", b"2"), (b"b", b"1"), (b"c", b"3")]
    with pytest.raises(DamagedStore):
        store.commit_folded(new, [], 2)
    assert store.state == state
    with store.view() as view:
        assert (view.get(b"a"), view.get(b"b")) == (None, b"1")


def test_changed_rows_are_found_by_the_digest(store: Store) -> None:
    store.commit([(b"%03d" % n, b"v") for n in range(100)], 1)
    store._digest.state = store.state._replace(digest=store.digest + 1)
    assert not store.verify_step(60)
    assert not store.verify_step(60)
    with pytest.raises(DamagedStore, match="digest"):
        store.verify_step(60)


# Stores that cannot be used.


@pytest.mark.parametrize(
    ("log", "log_end", "fold", "reason", "name"),
    [
        ("another", 1000, 1, "was built from another log", "other-log"),
        (LOG, 6, 1, "has applied the log up to offset 7, but the log ends at 6", "other-log"),
        (LOG, 6, 2, "has applied the log up to offset 7, but the log ends at 6", "other-log"),
        (LOG, 1000, 2, "must be rebuilt: it has rows of fold version 1, and this release needs", "outdated"),
    ],
)
def test_a_store_that_does_not_fit_stays_until_another_is_complete(
    tmp_path: Path, log: str, log_end: int, fold: int, reason: str, name: str
) -> None:
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7)
    store.complete()
    store.close()
    again, messages = open_store(tmp_path / "store", log, log_end, map_bytes=MAP, fold=fold)
    (message,) = messages
    assert message.startswith(f"The store {tmp_path / 'store' / 'store-1'} {reason}")
    assert message.endswith("It is kept until the rows have been rebuilt from the log.")
    assert again.state == (0, digest.EMPTY)
    with again.view() as view:
        assert view.seek(b"") is None
    assert again.former_served == (name == "outdated"), "rows of another log are not served"
    again.commit([(b"b", b"1")], 3)
    again.close()
    assert known_log(tmp_path / "store") == LOG
    same, messages = open_store(tmp_path / "store", log, log_end, map_bytes=MAP, fold=fold)
    assert (messages, same.path.name, same.applied) == ([], "store-2", 3), "a killed process is continued"
    aside = tmp_path / "store" / f"store-1.{name}"
    assert not aside.exists()
    same.complete()
    assert sorted(each.name for each in (tmp_path / "store").iterdir()) == [
        "current", "lock", aside.name, "store-2",
    ]  # fmt: skip
    same.close()
    last, messages = open_store(tmp_path / "store", log, log_end, map_bytes=MAP, fold=fold)
    assert (messages, last.path.name, last.applied) == ([], "store-2", 3)
    last.close()


@pytest.mark.parametrize(
    ("log", "applied", "lost", "kept"),
    [
        (LOG, 7, None, False),
        (LOG, 6, None, True),
        (LOG, 7, 5, True),
        ("another", 7, None, True),
    ],
    ids=["read again", "not read so far", "lost by the log", "of another log"],
)
def test_a_former_store_is_removed_only_if_the_log_gave_its_rows_again(
    tmp_path: Path, log: str, applied: int, lost: int | None, kept: bool
) -> None:
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7, NOTHING.with_records([Record(6, 1, b"k", b"v")], 3, 7))
    store.close()
    store = opened(tmp_path, fold=2)
    store.commit([(b"a", b"1")], applied)
    store.complete()
    asked: list[Lineage] = []

    def divergence(lineage: Lineage) -> int | None:
        asked.append(lineage)
        return lost

    remove_rebuilt(store, log, divergence)
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert names == ["current", "lock", *(["store-1.other-log"] if kept else []), "store-2"]
    assert all(each != NOTHING for each in asked)
    store.close()


def test_what_was_set_aside_stays(tmp_path: Path) -> None:
    for log in ("a", "b", "c"):
        store = opened(tmp_path, log)
        store.complete()
        store.close()
    file = tmp_path / "store" / "store-3" / "data.mdb"
    file.write_bytes(b"")
    store = opened(tmp_path, "c")
    store.complete()
    remove_rebuilt(store, "c", lambda _: None)
    store.close()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == [
        "current", "lock", "store-1.other-log", "store-2.other-log", "store-3.damaged", "store-4",
    ]  # fmt: skip


@pytest.mark.parametrize("at", ["write_current", "set_aside"])
def test_a_process_killed_while_one_store_takes_the_place_of_another_loses_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7)
    store.close()
    store = opened(tmp_path, fold=2)

    def killed(*_: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(folder, at, killed)
        with pytest.raises(StoreError):
            store.complete()
    store.close()
    store = opened(tmp_path, fold=2)
    store.complete()
    assert store.path.name == "store-2"
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert names == ["current", "lock", "store-1.outdated", "store-2"]
    store.close()


def test_what_a_killed_opening_left_is_cleared_away(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for name in ("store-8", "store-9.new"):
        (tmp_path / "store" / name).mkdir()
    (tmp_path / "store" / "store-9.new" / "data.mdb").write_bytes(bytes(100))
    opened(tmp_path).close()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["current", "lock", "store-1"]


def test_a_store_that_no_file_names_is_set_aside(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "store" / "current").unlink()
    opened(tmp_path).close()
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == [
        "current", "lock", "store-1.outdated", "store-2",
    ]  # fmt: skip


# Stores whose log is not known yet.


def entries(path: Path) -> dict[str, bytes]:
    """Return the names of all entries, and the contents of those that say which store is which."""
    found = (each for each in (path / "store").iterdir() if each.name != "lock")
    return {each.name: b"" if each.is_dir() else each.read_bytes() for each in found}


def kept(path: Path, fold: int = 1) -> Store:
    return open_kept(path / "store", map_bytes=MAP, fold=fold)


def test_a_complete_store_is_served_without_its_log(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7)
    store.complete()
    store.close()
    store = kept(tmp_path)
    assert (store.applied, store.is_complete, store.read_only) == (7, True, False)
    store.close()


@pytest.mark.parametrize("rebuilding", [False, True])
def test_a_store_of_a_former_fold_is_only_read(tmp_path: Path, rebuilding: bool) -> None:
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7)
    store.complete()
    store.close()
    if rebuilding:
        store = opened(tmp_path, fold=2)
        store.commit([(b"b", b"1")], 3)
        store.close()
    before, file = entries(tmp_path), tmp_path / "store" / "store-1" / "data.mdb"
    content = file.read_bytes()
    store = kept(tmp_path, fold=2)
    assert (store.applied, store.read_only) == (7, True)
    with store.view() as view:
        assert view.get(b"a") == b"1"
    with pytest.raises(StoreError, match="only read"):
        store.commit([(b"b", b"2")], 8)
    store.close()
    assert entries(tmp_path) == before
    assert file.read_bytes() == content


def test_a_store_that_was_never_complete_is_neither_served_nor_changed(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7)
    store.close()
    before = entries(tmp_path)
    with pytest.raises(NotServable, match="not yet built up to the log's end"):
        kept(tmp_path)
    assert entries(tmp_path) == before


@pytest.mark.parametrize("damage", ["data", "current", "newer fold"])
def test_a_store_that_cannot_be_served_is_not_changed(tmp_path: Path, damage: str) -> None:
    store = opened(tmp_path, fold=99 if damage == "newer fold" else 1)
    store.commit([(b"a", b"1")], 7)
    store.complete()
    store.close()
    if damage == "data":
        (tmp_path / "store" / "store-1" / "data.mdb").write_bytes(b"")
    elif damage == "current":
        (tmp_path / "store" / "current").write_bytes(b"")
    before = entries(tmp_path)
    with pytest.raises(NotServable):
        kept(tmp_path)
    assert entries(tmp_path) == before


def test_a_store_that_an_older_release_was_rebuilding_gives_way_to_the_one_before(tmp_path: Path) -> None:
    """Releases that named the new store at once set the former one aside until all rows were read."""
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7)
    store.complete()
    store.close()
    (tmp_path / "store" / "store-1").rename(tmp_path / "store" / "store-1.outdated")
    (tmp_path / "store" / "current").unlink()
    store = opened(tmp_path)
    with store._env.begin(store._meta, write=True) as txn:
        txn.delete(layout.META_BUILT)
    store.close()
    store = kept(tmp_path)
    assert (store.path.name, store.applied) == ("store-1", 7)
    store.close()
    assert entries(tmp_path) == {
        "current": b"store-1 a-log\n", "next": b"store-2 a-log\n", "store-1": b"", "store-2": b"",
    }  # fmt: skip


def test_a_store_that_was_open_when_the_machine_went_down_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = [b"one"]
    monkeypatch.setattr(layout, "boot_id", lambda: boot[0])
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 1)
    _kill(store)
    store, messages = open_store(tmp_path / "store", LOG, 9, map_bytes=MAP, fold=1)
    assert (messages, store.applied) == ([], 1), "the same boot: what was committed is whole"
    store.close()
    boot[0] = b"two"
    store, messages = open_store(tmp_path / "store", LOG, 9, map_bytes=MAP, fold=1)
    assert (messages, store.applied) == ([], 1), "another boot, but it was closed before"
    _kill(store)
    boot[0] = b"three"
    store, messages = open_store(tmp_path / "store", LOG, 9, map_bytes=MAP, fold=1)
    assert store.applied == 0
    assert "was open when the machine crashed" in messages[0]
    store.close()


def _kill(store: Store) -> None:
    """Release everything as the death of the process would: nothing is synced or marked."""
    store._closed = True
    store._env.close()
    os.close(store._lock_fd)  # type: ignore[attr-defined]


def test_a_second_process_is_refused_and_learns_who_has_the_store(tmp_path: Path, store: Store) -> None:
    with pytest.raises(StoreError, match=f"open for writing by process {os.getpid()}"):
        opened(tmp_path)


# Readers.


class Child:
    """Another process, which executes one statement after another."""

    PROGRAM = """
import sys
from pathlib import Path
from registry.store.open import open_store
from registry.store.reader import StoreReader
path = Path(sys.argv[1])
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""

    def __init__(self, path: Path) -> None:
        _, environment = module_command("registry")
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def __call__(self, statement: str) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    made = Child(tmp_path / "store")
    yield made
    made.kill()


def test_a_reader_waits_for_a_store_and_follows_another(tmp_path: Path, child: Child) -> None:
    reader = StoreReader(tmp_path / "store")
    assert not reader.refresh()
    with pytest.raises(StoreMissing):
        reader.view()
    child("store, _ = open_store(path, 'a', 9)")
    assert reader.refresh()
    child("store.commit([(b'a', b'1')], 1)")
    with reader.view() as view:
        assert (view.get(b"a"), view.applied()) == (b"1", 1)
    assert reader.state() == (1, digest.of_rows([(b"a", b"1")]))
    child("store.close(); store, _ = open_store(path, 'another', 9)")
    assert reader.refresh()
    with reader.view() as view:
        assert view.get(b"a") == b"1", "until the other store is complete, this one stays the current one"
    child("store.complete()")
    with reader.view() as view:
        assert view.get(b"a") == b"1", "until it refreshes, a reader keeps what it has"
    assert reader.refresh()
    with reader.view() as view:
        assert view.get(b"a") is None
    reader.close()


SMALL = "store, _ = open_store(path, 'a', 9, map_bytes=16 << 20)"
LARGE = "store, _ = open_store(path, 'a', 9, map_bytes=64 << 20)"
# More than fits the smaller map.
GROW = "store.commit([(b'row-%d' % n, bytes(4000)) for n in range(8_000)], store.applied + 1)"


@pytest.mark.parametrize("map_bytes", [0, 64 << 20], ids=["any map", "the node's map"])
@pytest.mark.parametrize("first", ["reader", "node"])
def test_a_reader_goes_on_with_a_store_whose_map_was_enlarged(
    tmp_path: Path, child: Child, first: str, map_bytes: int
) -> None:
    child(f"{SMALL}; store.commit([(b'a', b'1')], 1); store.close()")
    if first == "node":
        child(LARGE)
    reader = StoreReader(tmp_path / "store", map_bytes)
    with reader.view() as view:
        assert view.get(b"a") == b"1"
    if first == "reader":
        child(LARGE)
    child(GROW)
    for _ in range(2):
        with reader.view() as view:
            assert (view.applied(), view.get(b"row-7999")) == (2, bytes(4000))
    reader.close()


def test_a_reader_that_still_has_a_view_opens_an_enlarged_store_after_it(
    tmp_path: Path, child: Child
) -> None:
    child(f"{SMALL}; store.commit([(b'a', b'1')], 1); store.close()")
    reader = StoreReader(tmp_path / "store")
    with reader.view() as before:
        child(f"{LARGE}; {GROW}")
        with pytest.raises(StoreMissing):
            reader.view()
        assert before.get(b"a") == b"1"
    with reader.view() as view:
        assert view.applied() == 2
    reader.close()


def test_a_killed_reader_is_forgotten(store: Store, child: Child) -> None:
    child("reader = StoreReader(path); view = reader.view()")
    assert store.reader_check() == 0
    child.kill()
    assert store.reader_check() == 1
    assert store.reader_check() == 0


def test_a_killed_node_leaves_what_it_committed(tmp_path: Path, child: Child) -> None:
    child("store, _ = open_store(path, 'a-log', 9, fold=1); store.commit([(b'a', b'1')], 3)")
    child.kill()
    store = opened(tmp_path)
    assert (store.applied, store.path.name) == (3, "store-1")
    assert store.verify_step() or store.verify_step()
    store.close()


# Opens a kept store as a node on Kafka does, and prints how many processes that started.
OPEN_AS_A_NODE = """
import sys
from pathlib import Path
from registry.store.examination import begin, peek
from registry.store.open import open_store
started, path = [], Path(sys.argv[1])
sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
begun = begin(path)
assert peek(path, begun).applied == 7
store, messages = open_store(path, "a-log", 1000, map_bytes=64 << 20, fold=1, begun=begun)
assert (store.applied, messages) == (7, [])
print(len(started))
"""


def test_a_node_has_its_store_examined_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([(b"a", b"1")], 7)
    store.close()
    _, environment = module_command("registry")
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AS_A_NODE, str(tmp_path / "store")],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.stdout == "1\n", done.stderr


def test_what_happens_to_a_store_after_its_examination_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "store"
    begun = None
    for applied in range(1, 4):
        store = opened(tmp_path)
        store.commit([(b"a", b"1")], applied)
        store.close()
        position = peek(path, begun)
        assert position is not None
        assert position.applied == applied
        begun = begin(path)
        assert peek(path, begun) == position
    file = store.path / "data.mdb"
    file.write_bytes(b"\0" * file.stat().st_size)
    again, messages = open_store(path, LOG, 1000, map_bytes=MAP, fold=1, begun=begun)
    again.close()
    assert "is damaged" in messages[0]


def test_a_store_that_may_not_be_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    """For a command; any error of the system will do, also one that root gets."""
    with pytest.raises(StoreError, match="cannot be read: File name too long") as raised:
        OfflineStore(tmp_path / ("x" * 300))
    assert not isinstance(raised.value, StoreMissing)
