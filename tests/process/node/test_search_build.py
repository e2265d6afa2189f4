"""Large builds, and all work while others write, are done by a process of its own, which may die."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.search import Log, record
from registry.base.config.settings import Settings
from registry.base.processes.child_process import start_module
from registry.domain.fold.fold import apply
from registry.domain.lookup.matching import Matching
from registry.domain.lookup.search import KINDS
from registry.search.filler import IndexFiller
from registry.search.index import SearchIndex
from registry.search.process import SILENT_MAX_S
from registry.search.view import SearchIndexError
from registry.store.lmdb import Store
from registry.store.open import open_store

COUNT = 40


def commit(store: Store, number: int) -> None:
    with store.view() as view:
        changes = list(apply(view, record(number)))
    store.commit(changes, number + 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found, _ = open_store(tmp_path / "store", Log.identity, COUNT)
    for number in range(COUNT):
        commit(found, number)
    yield found
    found.close()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    found = SearchIndex(tmp_path / "search", 1 << 30, writable=True)
    found.open()
    yield found
    found.close()


@pytest.fixture
def filler(store: Store, index: SearchIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexFiller:
    monkeypatch.setattr("registry.search.filler.HERE_MAX", -1)
    # Built, it would wait for somebody to write.
    monkeypatch.setattr("registry.search.filler._IDLE_S", 0.0)
    return IndexFiller(Log(2 * COUNT), store, index, settings=Settings(data=tmp_path))


def names(index: SearchIndex) -> set[str]:
    """Return what a search finds."""
    with index.view() as rows:
        assert rows is not None
        numbers = [each for each in Matching(("subject",), tuple(KINDS)).following(rows) if each]
        return {found.qualified for each in numbers if (found := rows.subject(each)) is not None}


def test_a_large_index_is_built_by_another_process(filler: IndexFiller, index: SearchIndex) -> None:
    steps = 0
    while not filler.step():
        steps += 1
    assert steps == 2  # it begins, and has it built
    assert (filler.progress.part_built, filler.progress.done, filler.problem) == (1.0, COUNT, "")
    assert names(index) == {f"bench.subject-{number}-value" for number in range(COUNT)}


def test_a_build_that_is_killed_is_begun_again(
    filler: IndexFiller, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: Any, **more: Any) -> Any:
        process, line = start_module(*arguments, **more)
        os.kill(process.pid, signal.SIGKILL)
        return process, line

    assert not filler.step()
    monkeypatch.setattr("registry.search.process.start_module", killed)
    with pytest.raises(SearchIndexError, match=r"the process that fills it ended \(SIGKILL\)"):
        filler.step()
    monkeypatch.setattr("registry.search.process.start_module", start_module)
    while not filler.step():
        pass
    assert len(names(index)) == COUNT


def test_an_index_that_a_reader_condemns_while_a_process_starts_is_begun_again(
    filler: IndexFiller, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    read_from: list[int] = []
    read_again = Log.read_again

    def start(module: str, *given: Any, **more: Any) -> Any:
        if not started:
            (index.path / f"damaged-{(index.path / 'data.mdb').stat().st_ino}").touch()
        started.append(module)
        return start_module(module, *given, **more)

    def read(log: Log, offset: int, *limits: int) -> Any:
        read_from.append(offset)
        return read_again(log, offset, *limits)

    monkeypatch.setattr("registry.search.process.start_module", start)
    monkeypatch.setattr(Log, "read_again", read)
    while not filler.step():
        pass
    assert (len(started), read_from) == (2, [])
    assert len(names(index)) == COUNT


def test_a_process_that_hangs_is_replaced(
    store: Store, index: SearchIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filler: IndexFiller
) -> None:
    def stopped(*arguments: Any, **more: Any) -> Any:
        process, line = start_module(*arguments, **more)
        os.kill(process.pid, signal.SIGSTOP)
        pids.append(process.pid)
        return process, line

    pids: list[int] = []
    times = itertools.count(step=SILENT_MAX_S)
    settings = Settings(data=tmp_path)
    hasty = IndexFiller(Log(COUNT), store, index, settings=settings, clock=lambda: float(next(times)))
    assert not hasty.step()
    monkeypatch.setattr("registry.search.process.start_module", stopped)
    with pytest.raises(SearchIndexError, match="hangs"):
        hasty.step()
    assert "hangs" in hasty.problem
    assert not Path(f"/proc/{pids[0]}").exists()
    monkeypatch.setattr("registry.search.process.start_module", start_module)
    while not filler.step():
        pass
    assert len(names(index)) == COUNT


def test_a_process_of_another_release_leaves_the_index_as_it_is(
    filler: IndexFiller, index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package may be replaced while the node goes on."""
    while not filler.step():
        pass
    inode = (index.path / "data.mdb").stat().st_ino
    monkeypatch.setattr("registry.search.process.FORMAT", b"registrar-search 0")
    with pytest.raises(SearchIndexError, match="another release was installed; restart the registry"):
        filler._work_elsewhere(Settings(data=index.path.parent))
    assert (index.path / "data.mdb").stat().st_ino == inode
    assert len(names(index)) == COUNT


def test_an_index_of_other_rows_is_discarded_at_once_while_others_write(
    store: Store, index: SearchIndex, filler: IndexFiller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, answers would call it complete."""
    while not filler.step():
        pass
    monkeypatch.setattr("registry.search.filler._POLL_S", 0.001)

    class Elsewhere(Log):
        identity = "another log"

    states: list[bool] = []
    other = IndexFiller(Elsewhere(1000), Busy(store), index, settings=Settings(data=tmp_path))

    def wait(*_: object) -> bool:
        with index.view() as view:
            assert view is not None
            states.append(view.state().complete)
        if len(states) == 2:
            other.stop()
        return len(states) == 3

    monkeypatch.setattr(other._stopping, "wait", wait)
    other.run()
    assert states == [True, False, False]


def test_a_build_ends_with_the_node(filler: IndexFiller, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def stopping(*arguments: Any, **more: Any) -> Any:
        process, line = start_module(*arguments, **more)
        pids.append(process.pid)
        filler.stop()
        return process, line

    monkeypatch.setattr("registry.search.process.start_module", stopping)
    filler.run()
    assert len(pids) == 1
    assert not Path(f"/proc/{pids[0]}").exists()


def refuse(*_: object) -> None:
    raise AssertionError("indexed in this process")


def test_what_others_write_is_indexed_elsewhere(
    filler: IndexFiller, index: SearchIndex, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("build.describe", "changes.describe"):
        monkeypatch.setattr(f"registry.search.{place}", refuse)
    monkeypatch.setattr("registry.search.filler._BATCH_S", 0.0)
    monkeypatch.setattr("registry.search.filler._IDLE_S", 60.0)
    started: list[IndexFiller] = []
    seen: list[int] = []

    def tick() -> float:
        """Write another record whenever the last one is indexed, so that the process is not left alone."""
        for each in started:
            if each.progress.is_built and each.progress.offset == store.applied:
                if store.applied == 2 * COUNT:
                    each.stop()
                else:
                    seen.append(store.applied)
                    commit(store, store.applied)
        return time.monotonic()

    settings = Settings(data=tmp_path)
    filler = IndexFiller(Log(2 * COUNT), store, index, settings=settings, clock=tick)
    started.append(filler)
    assert not filler.step()
    assert not filler.step(elsewhere=True)
    assert seen == list(range(COUNT, 2 * COUNT))
    index.open()
    assert len(names(index)) == 2 * COUNT


class Busy:
    """A store to which somebody writes between any two looks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path, self.view = store.path, store.view

    @property
    def applied(self) -> int:
        commit(self._store, self._store.applied)
        return self._store.applied


def test_the_thread_does_nothing_itself_while_others_write(
    index: SearchIndex, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("build.describe", "changes.describe"):
        monkeypatch.setattr(f"registry.search.{place}", refuse)
    monkeypatch.setattr("registry.search.filler.BUSY_MAX_S", 0.0)
    monkeypatch.setattr("registry.search.filler._POLL_S", 0.001)
    filler = IndexFiller(Log(1000), Busy(store), index, settings=Settings(data=tmp_path))

    def start(*_: Any, **__: Any) -> Any:
        filler.stop()
        raise OSError("enough")

    monkeypatch.setattr("registry.search.process.start_module", start)
    filler.run()
    assert filler.progress.rows
    assert filler.progress.done == 0
