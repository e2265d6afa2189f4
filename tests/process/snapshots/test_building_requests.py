"""Builders that wait for requests."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from registry.base.config.settings import Settings
from registry.domain.log_format.records import SNAPSHOT_KEY
from registry.domain.log_format.records import Entry as Record
from registry.log.embedded.log import EmbeddedLog, now_ms
from snapshots.building import requests
from snapshots.building.requests import build_next, watch
from snapshots.building.task import silent
from snapshots.catalogue.catalogue import SILENT_MS, Catalogue, Entry, builder_name
from snapshots.catalogue.open import open_catalogue
from snapshots.format.location import Location
from snapshots.format.manifest import new_id
from tests.support.running import until
from tests.support.sample_snapshots import version


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of a data folder whose log has three records and a marker."""
    settings = Settings(data=tmp_path, store_map_bytes=64 << 20, snapshots_keep=1)
    with closing(EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)) as log:
        log.append([version(f"s{number}", 1, number + 1) for number in range(3)])
        log.append([Record(SNAPSHOT_KEY, b'{"request":"aa11"}')])
    return settings


@pytest.fixture
def catalogue(settings: Settings) -> Iterator[Catalogue]:
    with closing(open_catalogue(settings)) as opened:
        yield opened


def requested(settings: Settings, offset: int = 4, **given: object) -> Entry:
    with closing(EmbeddedLog(settings.data / "log", map_bytes=64 << 20)) as log:
        identity = log.identity
    now = now_ms()
    entry = Entry(
        id=new_id(offset, now, offset), state="requested", log=identity, offset=offset,
        uri=settings.snapshots_location, requested_ms=now, updated_ms=now,
    )  # fmt: skip
    return entry.in_state("requested", now).in_state(given.pop("state", "requested"), now, **given)  # type: ignore[arg-type]


def next_built(settings: Settings, catalogue: Catalogue) -> Entry | None:
    return build_next(settings, catalogue, "local", lambda: silent)


def test_requests_are_built_the_newest_first_and_then_what_is_too_much_goes(
    settings: Settings, catalogue: Catalogue
) -> None:
    older, newer = requested(settings, 3), requested(settings, 4)
    for each in (older, newer):
        catalogue.put(each)
    built = next_built(settings, catalogue)
    assert built is not None
    assert (built.id, built.state, built.schemas, built.builder) == (
        newer.id,
        "ready",
        3,
        builder_name(os.getpid()),
    )
    built = next_built(settings, catalogue)
    assert built is not None
    assert (built.id, built.state) == (older.id, "ready")
    assert list(catalogue.entries()) == [newer.id]
    assert Location.parse(settings.snapshots_location).folders() == [newer.id]
    assert next_built(settings, catalogue) is None


def test_what_another_one_builds_is_left_alone_until_it_is_silent(
    settings: Settings, catalogue: Catalogue
) -> None:
    entry = requested(settings, state="building", builder="elsewhere:1", attempts=1)
    catalogue.put(entry)
    assert next_built(settings, catalogue) is None
    catalogue.forget(entry.id)
    catalogue.put(entry.in_state("building", entry.updated_ms - SILENT_MS - 1))
    built = next_built(settings, catalogue)
    assert built is not None
    assert (built.state, built.attempts, built.builder) == ("ready", 2, builder_name(os.getpid()))


def test_a_build_that_fails_is_tried_again_but_not_for_ever(settings: Settings, catalogue: Catalogue) -> None:
    catalogue.put(requested(settings, offset=1000))
    for attempt in (1, 2, 3):
        built = next_built(settings, catalogue)
        assert built is not None
        assert (built.state, built.attempts) == ("failed", attempt)
        assert "the log ends at 4" in built.reason
    assert next_built(settings, catalogue) is None


def test_a_watcher_that_is_asked_to_stop_leaves_its_request_as_it_was(
    settings: Settings, catalogue: Catalogue
) -> None:
    """The number of attempts does not matter: watchers are restarted now and then."""
    catalogue.put(entry := requested(settings))

    def stopped(step: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            build_next(settings, catalogue, "local", lambda: stopped)
        left = catalogue.entries()[entry.id]
        assert (left.state, left.attempts, left.reason) == ("requested", 0, "")
    built = next_built(settings, catalogue)
    assert built is not None
    assert built.state == "ready"


def test_two_watchers_build_each_request_once(
    settings: Settings,
    catalogue: Catalogue,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each has a process name of its own, as elsewhere: one process does not exclude itself.
    monkeypatch.setattr(requests, "builder_name", lambda pid: f"{builder_name(pid)}-{threading.get_ident()}")
    stop = threading.Event()
    watchers = [
        threading.Thread(target=watch, args=(settings, "local", lambda: silent, stop)) for _ in range(2)
    ]
    with caplog.at_level(logging.INFO):
        for each in watchers:
            each.start()
        entry = requested(settings)
        catalogue.put(entry)
        ready = until(
            lambda: (found := catalogue.entries().get(entry.id)) and found.state == "ready" and found,
            60,
            "the snapshot to be ready",
        )
        stop.set()
        for each in watchers:
            each.join()
    assert ready.attempts == 1
    assert caplog.text.count("is ready") == 1


def test_a_watcher_waits_for_a_catalogue_that_is_away(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    (settings.data / "catalogue").write_text("")
    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(settings, "local", lambda: silent, stop))
    watcher.start()
    until(lambda: "Not a directory" in caplog.text, 10, "the trouble to be said")
    assert watcher.is_alive()
    stop.set()
    watcher.join()
