"""The index of words: how it is filled, continued, replaced, and read by other processes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from registry.domain.lookup.matching import Matching
from registry.domain.lookup.search import KINDS
from registry.domain.schemas import FORMATS, SchemaField
from registry.log.contract import LogError, Unreachable
from registry.search.build import Builder, Step
from registry.search.filler import IndexFiller
from registry.search.index import Progress, SearchIndex
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
    one = Step(view_s=0, pairs=1)
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


@pytest.mark.parametrize("fault", ["crash", "format", "garbage", "cut"])
def test_an_index_that_cannot_be_trusted_is_removed(filled: Searching, fault: str) -> None:
    path = filled.rows.path / "search"
    if fault == "garbage":
        (path / "data.mdb").write_bytes(b"\1" * 8192)
    elif fault == "cut":  # reading it would kill the process
        os.truncate(path / "data.mdb", 3 * mmap.PAGESIZE)
    else:
        with lmdb.open(str(path), map_size=MAP_BYTES, max_dbs=3) as env:
            meta = env.open_db(b"meta")
            with env.begin(meta, write=True) as txn:
                names = {"crash": ((b"boot", b"another"), (b"clean", b"0")), "format": ((b"format", b"?"),)}
                for name, value in names[fault]:
                    txn.put(name, value)
    index = reopened(filled.rows.path)
    assert found(index, "r") == set()
    filler = IndexFiller(filled.rows, filled.rows, index)
    while not filler.step():
        pass
    assert found(index, "r") == {"one", "two"}
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
    assert "version 1 of 'odd' is not searched" in caplog.text
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


def test_readers_follow_an_index_that_is_replaced(tmp_path: Path) -> None:
    made = Searching(tmp_path / "data")
    place = str(tmp_path / "data" / "search")
    reader = subprocess.Popen(
        [sys.executable, "-c", READ, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None
    assert reader.stdout is not None

    def count() -> str:
        reader.stdin.write("\n")
        reader.stdin.flush()
        return reader.stdout.readline().strip()

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
    reader.communicate()
    assert reader.returncode == 0
