"""A store that is far behind its log, which is written through a writable map until the log was read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from registry.base.processes.lmdb_check import DATA
from registry.domain.rows import digest
from registry.domain.rows.view import Change, scan
from registry.store import environment
from registry.store.layout import FAR_BEHIND, StoreError
from registry.store.lmdb import Store
from registry.store.open import open_store
from tests.support.disks import ROOM, Disk

MAP = 64 << 20
COUNT = 4_000
# What a commit through the map still writes by calls: none of its pages.
FEW_BYTES = 16_384


def opened(path: Path, behind: int = FAR_BEHIND) -> Store:
    store, messages = open_store(path / "store", "a-log", behind, map_bytes=MAP)
    assert not messages
    return store


def rows(value: bytes = b"v") -> list[Change]:
    """Return rows, each on a page of its own or with a few others."""
    return [(hashlib.sha256(b"%d" % number).digest(), value * 400) for number in range(COUNT)]


def written() -> int:
    """Return how many bytes this process has written by system calls."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


def change_some(store: Store) -> int:
    """Change rows here and there; return how many bytes were written for that by system calls."""
    before = written()
    store.commit(rows(b"w")[::10], store.applied + 1)
    return written() - before


def grow(store: Store) -> None:
    """Add rows until the store has no room for them."""
    while True:
        store.commit([(b"%d" % store.applied, b"x" * 100_000)], store.applied + 1)


def check(store: Store) -> None:
    with store.view() as view:
        found = list(scan(view, b""))
    assert len(found) == COUNT
    assert digest.of_rows(found) == store.digest
    while not store.verify_step(COUNT):
        pass


def test_only_a_store_far_behind_is_written_by_changing_its_pages_in_place(tmp_path: Path) -> None:
    made = {}
    for name, behind in (("far", FAR_BEHIND), ("near", FAR_BEHIND - 1)):
        store = opened(tmp_path / name, behind)
        store.commit(rows(), 1)
        made[name] = change_some(store)
        check(store)
        store.close()
    assert made["far"] < FEW_BYTES
    assert made["near"] > 10 * FEW_BYTES


def test_a_store_that_has_reached_the_end_is_written_as_usual(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit(rows(), 1)
    state = store.state
    store.complete()
    assert store.state == state
    stat = store.stat()
    assert (store.path / DATA).stat().st_size <= stat.bytes_used < MAP
    assert change_some(store) > 10 * FEW_BYTES
    check(store)
    store.close()


def test_a_view_keeps_the_map_until_the_next_commit(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit(rows(), 1)
    with store.view() as view:
        store.complete()
        assert store.is_mapped
        assert len(list(scan(view, b""))) == COUNT
    change_some(store)
    assert not store.is_mapped
    check(store)
    store.close()


def test_a_store_that_is_closed_far_behind_leaves_a_file_of_its_own_length(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit(rows(), 1)
    used, file = store.stat().bytes_used, store.path / DATA
    assert file.stat().st_size == MAP
    store.close()
    assert file.stat().st_size <= used + MAP // 100
    store = opened(tmp_path)
    check(store)
    store.close()


def test_a_disk_that_fills_up_ends_the_map_and_not_the_process(tmp_path: Path) -> None:
    with Disk(tmp_path / "disk") as disk:
        store, _ = open_store(disk.place / "store", "a-log", FAR_BEHIND, map_bytes=1 << 30)
        store.commit(rows(), 1)
        assert store.is_mapped
        disk.fill()
        with pytest.raises(StoreError, match="cannot be written"):
            grow(store)
        assert not store.is_mapped
        disk.free()
        change_some(store)
        store.close()


def test_a_disk_without_room_for_two_commits_gets_no_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the map nothing is written to it, not even when the store is opened."""
    monkeypatch.setattr(environment, "COMMIT_BYTES", ROOM)
    with Disk(tmp_path / "disk") as disk:
        store, _ = open_store(disk.place / "store", "a-log", FAR_BEHIND, map_bytes=4 * ROOM)
        assert not store.is_mapped
        store.commit(rows(), 1)
        check(store)
        assert (store.path / DATA).stat().st_size <= store.stat().bytes_used
        store.close()
