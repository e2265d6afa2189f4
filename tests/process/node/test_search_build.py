"""A large index of words is built in a process of its own, which may die at any time."""

from __future__ import annotations

import os
import signal
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
from registry.search.index import SearchIndex, SearchIndexError
from registry.store.lmdb import Store
from registry.store.open import open_store

COUNT = 40


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found, _ = open_store(tmp_path / "store", Log.identity, COUNT)
    for number in range(COUNT):
        with found.view() as view:
            changes = list(apply(view, record(number)))
        found.commit(changes, number + 1)
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
    return IndexFiller(Log(COUNT), store, index, settings=Settings(data=tmp_path))


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
    monkeypatch.setattr("registry.search.filler.start_module", killed)
    with pytest.raises(SearchIndexError, match=r"the process that builds it ended \(SIGKILL\)"):
        filler.step()
    monkeypatch.setattr("registry.search.filler.start_module", start_module)
    while not filler.step():
        pass
    assert len(names(index)) == COUNT


def test_a_build_ends_with_the_node(filler: IndexFiller, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def stopping(*arguments: Any, **more: Any) -> Any:
        process, line = start_module(*arguments, **more)
        pids.append(process.pid)
        filler.stop()
        return process, line

    monkeypatch.setattr("registry.search.filler.start_module", stopping)
    filler.run()
    assert len(pids) == 1
    assert not Path(f"/proc/{pids[0]}").exists()
