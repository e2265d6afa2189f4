"""A new environment: where its pages go while rows are added."""

from __future__ import annotations

import os
from pathlib import Path

import lmdb
import pytest

from registry.base.processes.lmdb_check import DATA
from registry.store.create import NewStore, Origin, OutOfOrder
from registry.store.environment import COMMIT_BYTES, MAY_BE_MAPPED, bytes_used
from registry.store.layout import ROWS, TABLES, State

MAP = 1 << 30
ORIGIN = Origin(1, "log", State(0, 0), 0)
BATCHES = [[(b"V%d%03d" % (batch, row), b"x" * 400) for row in range(500)] for batch in range(3)]


def check(folder: Path) -> None:
    """Check that it holds the rows, and that its file ends with its last page."""
    with lmdb.open(str(folder), map_size=MAP, max_dbs=TABLES, create=False) as env:
        assert (folder / DATA).stat().st_size <= bytes_used(env)
        rows = env.open_db(ROWS, create=False)
        with env.begin(rows) as txn, txn.cursor() as cursor:
            assert list(cursor) == [row for batch in BATCHES for row in batch]


@pytest.mark.skipif(not MAY_BE_MAPPED, reason="room is taken on Linux only")
def test_room_for_many_commits_is_taken_at_once_and_what_is_left_is_given_back(tmp_path: Path) -> None:
    folder, sizes = tmp_path / "store-1", []
    with NewStore(folder, MAP) as new:
        for batch in BATCHES:
            assert new.append(batch) == len(batch)
            sizes.append((folder / DATA).stat().st_size)
        new.finish(ORIGIN)
    assert len(set(sizes)) == 1
    assert sizes[0] > COMMIT_BYTES
    check(folder)


def test_rows_are_added_where_no_room_can_be_taken_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def no_room(fd: int, begin: int, length: int) -> None:
        asked.append(length)
        raise OSError

    monkeypatch.setattr(os, "posix_fallocate", no_room, raising=False)
    folder = tmp_path / "store-1"
    with NewStore(folder, MAP) as new:
        for batch in BATCHES:
            new.append(batch)
        new.finish(ORIGIN)
    assert len(asked) <= 1, "not asked for again"
    check(folder)


@pytest.mark.parametrize("key", [b"a", b"b"])
def test_rows_out_of_order_are_refused_also_between_batches(tmp_path: Path, key: bytes) -> None:
    with NewStore(tmp_path / "store-1", MAP) as new:
        new.append([(b"a", b"1"), (b"b", b"2")])
        with pytest.raises(OutOfOrder, match="row 3 "):
            new.append([(key, b"3")])
