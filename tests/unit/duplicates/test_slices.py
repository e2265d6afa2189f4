"""Slices of a search: none holds a view for longer than it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from registry.base.config.settings import Settings
from registry.domain.lookup.duplicates import Duplicates
from registry.domain.queries.walks import Search
from registry.domain.rows.memory_views import MovingView
from registry.duplicates import process
from registry.store import layout
from registry.store.create import NewStore, Origin
from registry.store.reader import StoreReader

STEPS = 5


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of a data folder with a store."""
    folder, map_bytes = tmp_path / "store", 1 << 20
    folder.mkdir()
    with NewStore(folder / "store-1", map_bytes) as new:
        new.finish(Origin(1, "log", layout.State(0, 0), 0))
    layout.write_current(folder, layout.Current("store-1", "log"))
    return Settings(data=tmp_path, store_map_bytes=map_bytes)


def steps(count: int) -> Search[Duplicates]:
    for _ in range(count):
        yield
    return Duplicates([], count)


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the views that are opened."""
    opened: list[Any] = []
    view = StoreReader.view
    monkeypatch.setattr(StoreReader, "view", lambda store: opened.append(view(store)) or opened[-1])
    return opened


def test_each_slice_has_a_view_of_its_own(
    settings: Settings, views: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "SLICE_S", 0)
    still_open: list[bool] = []

    def between() -> None:
        still_open.append(any(each.get for each in views))

    assert process.in_slices(steps(STEPS), MovingView(), settings, None, between).total == STEPS
    assert (len(views), still_open) == (STEPS + 1, [False] * STEPS)
    monkeypatch.setattr(process, "SLICE_S", 3600)
    process.in_slices(steps(STEPS), MovingView(), settings, None, between)
    assert len(views) == STEPS + 2


def test_a_search_that_takes_too_long_is_given_up(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TIME_MAX_S", 0)
    with pytest.raises(process.TooLong):
        process.in_slices(steps(STEPS), MovingView(), settings, None, lambda: None)
