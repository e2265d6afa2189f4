"""The search index: how it is filled, continued, replaced, and read by other processes."""

from __future__ import annotations

import mmap
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import lmdb
import pytest

from registry.base.config.settings import Settings
from registry.domain import errors as e
from registry.domain.lookup.matching import Matching
from registry.domain.lookup.search import KINDS
from registry.domain.schemas import FORMATS, SchemaField
from registry.log.contract import LogError, Unreachable
from registry.search.build import Builder, StepLimits
from registry.search.filler import IndexFiller
from registry.search.index import OPENED_MAX, SearchIndex
from registry.search.view import COUNTING, MERGING, DamagedIndex, Progress, Update
from tests.api.driver import Api
from tests.api.searching import MAP_BYTES, Rows, Searching
from tests.api.test_search import register, schema
from tests.support.word_format import WordFormat


def found(index: SearchIndex, *words: str) -> set[str]:
    with index.view() as rows:
        assert rows is not None
        numbers = Matching(words, tuple(KINDS)).following(rows)
        subjects = [rows.subject(each) for each in numbers if each is not None]
    return {each.qualified for each in subjects if each is not None}


def reopened(folder: Path) -> SearchIndex:
    index = SearchIndex(folder / "search", MAP_BYTES, writable=True)
    index.open()
    return index


@pytest.fixture
def filled(tmp_path: Path) -> Searching:
    """Return a registry whose index holds two subjects, and is closed."""
    made = Searching(tmp_path / "data")
    for name in ("one", "two"):
        register(made.api, name, schema("R", f"{name}Field"))
    made.fill()
    made.close()
    return made


def test_an_index_continues_from_the_log(filled: Searching) -> None:
    at = len(filled.rows.backend.log)
    with Api(filled.rows.backend) as api:
        register(api, "three", schema("R", "threeField"))
        api.request("DELETE", "/subjects/one")
    index = reopened(filled.rows.path)
    filler = IndexFiller(filled.rows, filled.rows, index)
    while not filler.step():
        pass
    assert filled.rows.read_from == [at]
    assert found(index, "r") == {"two", "three"}
    assert found(index, "threefield") == {"three"}
    assert found(index, "onefield") == set()
    index.close()


def test_words_that_the_latest_version_no_longer_has_are_taken_back(filled: Searching) -> None:
    with Api(filled.rows.backend) as api:
        api.put("/config/one", {"compatibility": "NONE"})
        register(api, "one", schema("R", "otherField"))
    index = reopened(filled.rows.path)
    filled_again(IndexFiller(filled.rows, filled.rows, index))
    assert (found(index, "otherfield"), found(index, "onefield")) == ({"one"}, set())
    with index.view() as view:
        assert view is not None
        assert (view.keys(b"fother", 1), view.keys(b"fone", 1)) == ([b"fother"], [])
    index.close()


def test_a_version_that_was_replaced_under_its_number_is_found_by_its_own_words(filled: Searching) -> None:
    """Which words the index has of the former one is not known any more."""
    with Api(filled.rows.backend) as api:
        for permanent in ("", "?permanent=true"):
            assert api.request("DELETE", f"/subjects/one{permanent}").json == [1]
        register(api, "one", schema("R", "otherField"))
        assert api.get("/subjects/one/versions").json == [1]
    index = reopened(filled.rows.path)
    filled_again(IndexFiller(filled.rows, filled.rows, index))
    assert found(index, "otherfield") == {"one"}
    index.close()


def test_an_index_of_other_rows_is_built_again(filled: Searching, tmp_path: Path) -> None:
    index = reopened(filled.rows.path)
    with Api() as api:
        register(api, "two", schema("R", "twoField"))
        register(api, "four", schema("R", "fourField"))
        rows = Rows(api.backend, tmp_path / "store-2")
        filler = IndexFiller(rows, rows, index)
        assert not filler.step()
        with index.view() as view:
            assert view is not None
            assert (view.state().complete, view.state().built) == (False, 0.0)
        while not filler.step():
            pass
    assert found(index, "r") == {"two", "four"}
    assert rows.read_from == []
    index.close()


def test_an_index_of_the_same_store_but_another_log_is_built_again(filled: Searching) -> None:
    index = reopened(filled.rows.path)
    with Api() as api:
        for name in ("four", "five", "six"):  # so that its end is no hint
            register(api, name, schema("R", "field"))
        rows = Rows(api.backend, filled.rows.path)
        rows.identity = "another"
        filler = IndexFiller(rows, rows, index)
        while not filler.step():
            pass
    assert found(index, "r") == {"four", "five", "six"}
    index.close()


def test_an_index_is_built_again_if_the_log_lacks_what_it_needs(filled: Searching) -> None:
    with Api(filled.rows.backend) as api:
        register(api, "three", schema("R", "threeField"))
    index = reopened(filled.rows.path)
    filler = IndexFiller(filled.rows, filled.rows, index)
    filled.rows.lost = Unreachable("away")
    with pytest.raises(Unreachable):
        filler.step()
    assert found(index, "r") == {"one", "two"}
    filled.rows.lost = LogError("cut")
    while not filler.step():
        pass
    assert found(index, "r") == {"one", "two", "three"}
    with Api(filled.rows.backend) as api:
        register(api, "four", schema("R", "fourField"))
    with pytest.raises(LogError, match="cut"):  # not again and again
        filler.step()
    index.close()


def test_a_build_continues_where_it_was_interrupted(filled: Searching) -> None:
    index = reopened(filled.rows.path)
    index.reset()
    index.change((), Progress("store", len(filled.rows.backend.log)))
    one = StepLimits(view_s=0, pairs=1)
    seen = [Builder(index, filled.rows.view).step(one).part_built]
    while seen[-1] < 1:
        index.close()
        index = reopened(filled.rows.path)
        seen.append(Builder(index, filled.rows.view).step(one).part_built)
    assert seen == sorted(seen)
    assert 0.45 in seen  # one of two subjects is read
    assert len(seen) > 6
    assert found(index, "r") == {"one", "two"}
    with index.view() as view:
        assert view is not None
        assert view.progress().done == view.progress().subjects == view.count() == 2
    index.close()


def test_changes_of_many_words_are_written_in_parts(
    filled: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.search.changes.PAIRS_MAX", 3)
    at, sizes = len(filled.rows.backend.log), list[int]()
    index = reopened(filled.rows.path)
    change = index.change

    def write(updates: Iterable[Update], progress: Progress) -> None:
        listed = list(updates)
        sizes.append(len(listed))
        assert (progress.offset == at) == (len(sizes) < 4)
        change(listed, progress)

    monkeypatch.setattr(index, "change", write)
    with Api(filled.rows.backend) as api:
        api.request("PUT", "/config", {"compatibility": "NONE"})
        api.request("DELETE", "/subjects/one")
        for name in ("two", "three"):
            register(api, name, schema("R", f"{name}Other"))
    filled_again(IndexFiller(filled.rows, filled.rows, index))
    assert sizes == [1, 1, 1, 0]
    assert (found(index, "r"), found(index, "other")) == ({"two", "three"}, {"two", "three"})
    index.close()


def test_words_that_nobody_can_take_back_make_it_begin_again(
    filled: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.search.filler._STALE_MIN", 0)
    index = reopened(filled.rows.path)
    with Api(filled.rows.backend) as api:
        for permanent in ("", "?permanent=true"):
            for name in ("one", "two"):
                api.request("DELETE", f"/subjects/{name}{permanent}")
    with index.view() as view:
        assert view is not None
        assert view.keys(b"fone", 1) == [b"fone"]
    filler = IndexFiller(filled.rows, filled.rows, index)
    while not filler.step():
        pass
    with index.view() as view:
        assert view is not None
        assert (view.keys(b"f", 9), view.count(), view.state().complete) == ([], 0, True)
    index.close()


FAULTS = {
    "crash": ((b"boot", b"another"), (b"opened", b"1")),
    "format": ((b"format", b"?"),),
    "killed": ((b"opened", b"%d" % OPENED_MAX),),
    "progress": ((b"progress", b"?"),),
}


def harm(path: Path, fault: str) -> None:
    if fault == "garbage":
        (path / "data.mdb").write_bytes(b"\1" * 8192)
    elif fault == "cut":  # reading it would kill the process
        os.truncate(path / "data.mdb", 3 * mmap.PAGESIZE)
    else:
        with lmdb.open(str(path), map_size=MAP_BYTES, max_dbs=3) as env:
            meta = env.open_db(b"meta")
            with env.begin(meta, write=True) as txn:
                for name, value in FAULTS[fault]:
                    txn.put(name, value)


def overwrite_pages(path: Path, text: bytes) -> None:
    """Overwrite the pages that have a text."""
    data = bytearray((path / "data.mdb").read_bytes())
    for at in range(2 * mmap.PAGESIZE, len(data), mmap.PAGESIZE):
        if text in data[at : at + mmap.PAGESIZE]:
            data[at : at + mmap.PAGESIZE] = bytes(mmap.PAGESIZE)
    (path / "data.mdb").write_bytes(data)


def filled_again(filler: IndexFiller) -> int:
    """Fill an index; return how often it was begun."""
    begun = 0
    while not filler.step():
        begun += filler.progress.sweep == COUNTING
    return begun


@pytest.mark.parametrize("fault", [*FAULTS, "garbage", "cut"])
def test_an_index_that_cannot_be_trusted_is_removed(filled: Searching, fault: str) -> None:
    harm(filled.rows.path / "search", fault)
    index = reopened(filled.rows.path)
    assert found(index, "r") == set()
    filled_again(IndexFiller(filled.rows, filled.rows, index))
    assert found(index, "r") == {"one", "two"}
    index.close()


def test_an_index_that_is_closed_may_be_opened_any_number_of_times(filled: Searching) -> None:
    for _ in range(OPENED_MAX + 1):
        index = reopened(filled.rows.path)
        assert found(index, "r") == {"one", "two"}
        index.close()


def test_damaged_pages_are_noticed_when_the_index_is_filled_and_built_once_more(filled: Searching) -> None:
    overwrite_pages(filled.rows.path / "search", b"one")
    with Api(filled.rows.backend) as api:
        register(api, "three", schema("R", "threeField"))
    index = reopened(filled.rows.path)
    filler = IndexFiller(filled.rows, filled.rows, index)
    assert filled_again(filler) == 1
    assert found(index, "r") == {"one", "two", "three"}
    assert filler.problem == ""
    (index.path / f"damaged-{(index.path / 'data.mdb').stat().st_ino}").touch()
    with pytest.raises(DamagedIndex):  # not again and again
        filler.step()
    index.close()


def test_damage_that_a_reader_finds_is_mended_by_the_node(filled: Searching) -> None:
    overwrite_pages(filled.rows.path / "search", b"fone")
    index = reopened(filled.rows.path)
    filler = IndexFiller(filled.rows, filled.rows, index)
    assert filler.step()
    read = "import sys; from tests.api.test_search_index import search_refused; search_refused(sys.argv[1])"
    subprocess.run([sys.executable, "-c", read, str(filled.rows.path)], check=True)
    assert filled_again(filler) == 1
    assert found(index, "r") == {"one", "two"}
    index.close()


def test_damage_of_a_file_that_the_node_has_replaced_is_not_that_of_the_new_one(
    filled: Searching, caplog: pytest.LogCaptureFixture
) -> None:
    reader = SearchIndex(filled.rows.path / "search", MAP_BYTES)
    for _ in range(2):
        with pytest.raises(e.RegistryError), reader.view():
            raise lmdb.CorruptedError("here")
    assert len(caplog.records) == 1, "searches that find the same damage say so once"
    former = ExitStack()
    former.enter_context(reader.view())
    index = reopened(filled.rows.path)
    with pytest.raises(e.RegistryError), former:
        raise lmdb.CorruptedError("here")
    assert len(list(index.path.glob("damaged-*"))) == 1
    assert not index.is_condemned
    index.close()


@pytest.mark.parametrize(
    ("kills", "steps", "kept"),
    [(OPENED_MAX - 1, 0, {"one", "two"}), (OPENED_MAX, 0, set[str]()), (OPENED_MAX, 1, {"one", "two"})],
)
def test_only_a_process_that_is_killed_before_any_step_again_and_again_loses_its_index(
    filled: Searching, kills: int, steps: int, kept: set[str]
) -> None:
    """A node that is killed at each deploy, or for another reason, does not build it again and again."""
    run = "import sys; from tests.api.test_search_index import open_and_be_killed as run; run(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", run, str(filled.rows.path), str(kills), str(steps)], check=True)
    index = reopened(filled.rows.path)
    assert found(index, "r") == kept
    index.close()


def open_and_be_killed(folder: str, times: str, steps: str) -> None:
    """Open an index in so many processes, each of which is killed, perhaps after a step."""
    for _ in range(int(times)):
        if (child := os.fork()) == 0:
            index = reopened(Path(folder))
            with index.view() as view:
                assert view is not None
                rows = Rows(cast("Any", SimpleNamespace(log=[None] * view.state().offset)), Path(folder))
            for _ in range(int(steps)):
                assert IndexFiller(rows, rows, index).step()
            os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL


def search_refused(folder: str) -> None:
    """Search as a reader, in a process of its own."""
    with Api(index=SearchIndex(Path(folder) / "search", MAP_BYTES)) as api:
        assert api.get("/search?query=one").error == (503, 503, e.INDEX_INCOMPLETE.template)


@pytest.mark.parametrize("harmed", ["missing", "short", "empty"])
def test_a_build_whose_files_are_damaged_is_begun_again(filled: Searching, harmed: str) -> None:
    index = reopened(filled.rows.path)
    index.reset()
    index.change((), Progress("data log", len(filled.rows.backend.log)))
    filler = IndexFiller(filled.rows, filled.rows, index)
    while not filler.progress.sweep.startswith(MERGING):
        assert not filler.step()
    [words] = index.files.glob("words-*")
    size = words.stat().st_size
    words.unlink()
    if harmed != "missing":
        words.write_bytes(bytes(3) if harmed == "short" else struct.pack(">HI", 1, size))
    assert filled_again(filler) == 1
    assert found(index, "r") == {"one", "two"}
    index.close()


def test_files_that_a_killed_build_has_left_are_removed(filled: Searching) -> None:
    left = filled.rows.path / "search" / "files"
    left.mkdir()
    (left / "words-1").touch()
    reopened(filled.rows.path).close()
    assert not left.exists()


def test_a_failure_is_retried_for_ever_at_growing_intervals(filled: Searching) -> None:
    class Waits(threading.Event):
        def __init__(self) -> None:
            super().__init__()
            self.waited: list[float] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.waited.append(timeout or 0.0)
            return False

    filler = IndexFiller(filled.rows, filled.rows, filled.index)
    filler._stopping = waits = Waits()
    for _ in range(1100):  # two to this power is no float
        filler._fail("full")
    assert waits.waited[:8] == [10, 20, 40, 80, 160, 320, 600, 600]
    assert waits.waited[-1] == 600
    filler._report("")
    filler._fail("full")
    assert waits.waited[-1] == 10


class Resting(threading.Event):
    """An event that says when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: queue.Queue[float | None] = queue.Queue()

    def wait(self, timeout: float | None = None) -> bool:
        self.rests.put(timeout)
        return super().wait(timeout)


@contextmanager
def running(filler: IndexFiller) -> Iterator[None]:
    thread = threading.Thread(target=filler.run)
    thread.start()
    try:
        yield
    finally:
        filler.stop()
        thread.join()


def test_a_filled_index_is_left_alone_until_the_store_advances(
    filled: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.search.filler._POLL_S", 0.001)
    started: list[object] = []
    monkeypatch.setattr("registry.search.process.start_module", lambda *_, **__: started.append(1))
    now = [0.0]
    filler = IndexFiller(
        filled.rows, filled.rows, reopened(filled.rows.path),
        clock=lambda: now[0], settings=Settings(data=filled.rows.path),
    )  # fmt: skip
    filler._news = news = Resting()
    with running(filler):
        assert news.rests.get(timeout=30) == 60
        with Api(filled.rows.backend) as api:
            register(api, "three", schema("R", "threeField"))
        now[0] += 1000  # so long a rest does not mean that others write without a pause
        filler.notify()
        assert news.rests.get(timeout=30) == 60
        assert started == []
        assert filler.progress.offset == len(filled.rows.backend.log)
    index = reopened(filled.rows.path)
    assert found(index, "r") == {"one", "two", "three"}
    index.close()


class Failing(WordFormat):
    def fields(self, text: str) -> Iterator[SchemaField]:
        raise ValueError("a fault of the format")


def test_a_schema_that_cannot_be_read_keeps_no_other_from_being_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(FORMATS, "WORDS", Failing())
    made = Searching(tmp_path / "data")
    register(made.api, "odd", "word", schemaType="WORDS")
    register(made.api, "sound", schema("R", "field"))
    made.fill()
    assert found(made.index, "field") == {"sound"}
    assert "version 1 of 'odd' is missing from the search index" in caplog.text
    made.close()


HOLD = """
import sys, pathlib
from registry.search.index import SearchIndex
with SearchIndex(pathlib.Path(sys.argv[1]), 1 << 26).view() as view:
    print(view.count(), flush=True)
    sys.stdin.read()
"""


def test_what_killed_readers_hold_is_released(filled: Searching) -> None:
    index = reopened(filled.rows.path)
    command = [sys.executable, "-c", HOLD, str(filled.rows.path / "search")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "2\n"
        assert index.release_slots() == 0
        reader.kill()
    assert index.release_slots() == 1
    index.close()


READ = """
import sys, pathlib
from registry.search.index import SearchIndex
index = SearchIndex(pathlib.Path(sys.argv[1]), 1 << 26)
for line in sys.stdin:
    with index.view() as view:
        print(None if view is None else view.count(), flush=True)
"""


@pytest.mark.parametrize("fault", ["crash", "cut"])
def test_readers_wait_until_the_node_has_replaced_what_a_crash_of_the_machine_has_left(
    filled: Searching, fault: str
) -> None:
    harm(filled.rows.path / "search", fault)
    with reading(filled.rows.path) as count:
        assert count() == "None"
        index = reopened(filled.rows.path)
        filled_again(IndexFiller(filled.rows, filled.rows, index))
        assert count() == "2"
        index.close()


@contextmanager
def reading(folder: Path) -> Iterator[Callable[[], str]]:
    """Count the subjects in another process, which must survive."""
    command = [sys.executable, "-c", READ, str(folder / "search")]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdin is not None
    assert reader.stdout is not None

    def count() -> str:
        reader.stdin.write("\n")
        reader.stdin.flush()
        return reader.stdout.readline().strip()

    yield count
    reader.communicate()
    assert reader.returncode == 0


def test_readers_follow_an_index_that_is_replaced(tmp_path: Path) -> None:
    made = Searching(tmp_path / "data")
    with reading(tmp_path / "data") as count:
        assert count() == "0"
        register(made.api, "one", schema("R", "field"))
        made.fill()
        assert count() == "1"
        made.close()
        (tmp_path / "data" / "search" / "data.mdb").unlink()
        assert count() == "None"
        again = reopened(tmp_path / "data")
        assert count() == "0"
        again.close()
