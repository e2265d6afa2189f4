"""A store far behind its log, for which new rows are kept apart and committed at once."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest

from registry.base.processes.child_process import receive
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Entry
from registry.domain.rows import digest
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import scan
from registry.log.embedded.log import EmbeddedLog
from registry.store.folding import bulk_fold, spool
from registry.store.folding.bulk_fold import BulkFold
from registry.store.folding.log_fold import LogFold
from registry.store.folding.parallel_fold import receive_from
from registry.store.folding.spool import Spool
from registry.store.layout import FAR_BEHIND, StoreError
from registry.store.lmdb import Store
from registry.store.open import open_store

MAP = 256 << 20
STEP = 100


def version(name: str, number: int = 1, id: int = 1, text: str = '"int"') -> Entry:
    key = f'{{"keytype":"SCHEMA","subject":"{name}","version":{number},"magic":1}}'
    quoted = text.replace('"', '\\"')
    value = f'{{"subject":"{name}","version":{number},"id":{id},"schema":"{quoted}","deleted":false}}'
    return Entry(key.encode(), value.encode())


def new_versions(first: int, last: int, text: str = '"int"') -> list[Entry]:
    return [version(f"s{number * 7919 % 10_007}", 1, number + 1, text) for number in range(first, last)]


def others(count: int, seed: int) -> list[Entry]:
    """Return records that change what others have written: configs, deletions, versions written again."""
    chance, made = random.Random(seed), []
    for number in range(count):
        name = f"s{chance.randrange(10_007)}"
        made.append(
            chance.choice([
                version(name, chance.choice([1, 2]), 10_000 + number, '"long"'),
                Entry(version(name).key, None),
                Entry(f'{{"keytype":"CONFIG","subject":"{name}","magic":0}}'.encode(),
                      b'{"compatibilityLevel":"NONE"}'),
                Entry(f'{{"keytype":"DELETE_SUBJECT","subject":"{name}","magic":0}}'.encode(),
                      f'{{"subject":"{name}","version":1}}'.encode()),
                Entry(b"\xff what is this", b"?"),
            ])
        )  # fmt: skip
    return made


def mixed(count: int, seed: int = 1) -> list[Entry]:
    """Return mostly new versions."""
    made = new_versions(0, count) + others(count // 50, seed)
    random.Random(seed).shuffle(made)
    return made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    made = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    yield made
    made.close()


def opened(folder: Path, log: EmbeddedLog, map_bytes: int = MAP) -> Store:
    """Open a store that is written through its map, as one far behind its log."""
    store, messages = open_store(folder / "store", log.identity, log.end() + FAR_BEHIND, map_bytes=map_bytes)
    assert not messages
    return store


@pytest.fixture
def store(tmp_path: Path, log: EmbeddedLog) -> Iterator[Store]:
    made = opened(tmp_path, log)
    yield made
    made.close()


def check(store: Store, log: EmbeddedLog) -> None:
    """Compare the rows, their digest and the position with those of the log folded record by record."""
    plain = DictView()
    for record in log.read(0, 1 << 20, 1 << 30).records[: store.applied]:
        plain.commit(apply(plain, record))
    with store.view() as view:
        assert list(scan(view, b"")) == list(plain.rows())
    assert store.digest == digest.of_rows(plain.rows())


def moves(fold: LogFold, store: Store, records_max: int = STEP) -> list[int]:
    """Make steps to the log's end; return the offsets at which the store was committed."""
    committed = []
    while fold.step(records_max).advanced:
        if store.applied not in committed:
            committed.append(store.applied)
    return [each for each in committed if each]


def test_a_log_of_new_versions_is_committed_once(log: EmbeddedLog, store: Store) -> None:
    log.append(mixed(3000))
    fold = LogFold(log, store, far_behind=1000)
    assert moves(fold, store) == [log.end()]
    assert fold.process_id is None, "it has nothing left to do"
    check(store, log)
    while not store.verify_step():
        pass
    log.append(others(50, seed=2))
    assert moves(fold, store) == [log.end()]
    check(store, log)


def test_progress_is_that_of_the_fold_and_not_of_the_store(log: EmbeddedLog, store: Store) -> None:
    log.append(new_versions(0, 2000))
    fold = LogFold(log, store, far_behind=1000)
    assert [fold.step(STEP).advanced for _ in range(3)] == [STEP] * 3
    assert (fold.progress, store.applied) == (3 * STEP, 0)
    fold.close()
    assert (fold.progress, store.applied) == (0, 0)


def test_rows_in_a_packed_tree_take_less_room(tmp_path: Path, log: EmbeddedLog, store: Store) -> None:
    log.append(new_versions(0, 8000))
    fold = LogFold(log, store, far_behind=1000)
    moves(fold, store)
    other, _ = open_store(tmp_path / "other", log.identity, 0, map_bytes=MAP)
    moves(LogFold(log, other, far_behind=None), other)
    assert store.stat().rows == other.stat().rows
    assert store.stat().bytes_used < 0.75 * other.stat().bytes_used
    other.close()


def test_bounds_lead_to_earlier_commits(
    log: EmbeddedLog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_fold, "VERSIONS_MAX", 1000)
    log.append(new_versions(0, 3000))
    fold = LogFold(log, store, far_behind=500)
    assert moves(fold, store) == [1000, 2000, 3000]
    check(store, log)


@pytest.mark.parametrize(
    ("bound", "most"), [("WAITING_MAX", 10), ("WAITING_BYTES_MAX", 1000), ("SPOOL_BYTES_MAX", 300_000)]
)
def test_what_is_kept_is_bounded(
    log: EmbeddedLog, store: Store, bound: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_fold, bound, most)
    log.append(new_versions(0, 1000) + others(30, seed=1) + new_versions(1000, 3000))
    fold = LogFold(log, store, far_behind=500)
    assert len(moves(fold, store)) > 1
    check(store, log)


def test_a_log_of_other_records_is_folded_batch_by_batch(
    log: EmbeddedLog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process would fold all that waits, and the other one would do nothing."""
    monkeypatch.setattr(bulk_fold, "WAITING_MAX", 500)
    log.append(others(3000, seed=1))
    fold = LogFold(log, store, far_behind=500)
    commits = moves(fold, store)
    assert commits[0] >= 500
    assert [after - before for before, after in pairwise(commits)][:10] == [STEP] * 10
    check(store, log)


def test_a_store_that_is_not_written_through_its_map_is_folded_batch_by_batch(
    tmp_path: Path, log: EmbeddedLog
) -> None:
    """It would keep a copy of each new page in memory."""
    store, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=MAP)
    log.append(new_versions(0, 1000))
    assert moves(LogFold(log, store, far_behind=500), store) == list(range(STEP, 1001, STEP))
    store.close()


def test_a_process_that_dies_is_done_without(log: EmbeddedLog, store: Store) -> None:
    log.append(mixed(2000))
    fold = LogFold(log, store, far_behind=1000)
    fold.step(STEP)
    assert fold.process_id
    os.kill(fold.process_id, signal.SIGKILL)
    moves(fold, store)
    assert store.applied == log.end()
    check(store, log)


def test_a_process_that_dies_while_it_puts_rows_in_order_leaves_the_store_as_it_was(
    log: EmbeddedLog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(new_versions(0, 2000, f'"{"x" * 2000}"'))  # more than a pipe holds
    killed: list[int] = []

    def kill_after_the_first(pipe: IO[bytes] | None) -> bytes:
        message = receive_from(pipe)
        if not killed:
            assert isinstance(fold._process, BulkFold)
            process = fold._process._sorter
            assert process is not None
            process.kill()
            process.wait()
            killed.append(store.applied)
        return message

    monkeypatch.setattr(bulk_fold, "receive_from", kill_after_the_first)
    fold = LogFold(log, store, far_behind=1000)
    assert moves(fold, store)[0] < log.end(), "batch by batch, in this process"
    assert killed == [0]
    check(store, log)


def test_without_room_for_all_at_once_it_is_committed_in_parts(tmp_path: Path, log: EmbeddedLog) -> None:
    store = opened(tmp_path, log, map_bytes=1 << 20)
    log.append(new_versions(0, 6000))
    fold = LogFold(log, store, far_behind=1000)
    with pytest.raises(StoreError, match="map size"):
        moves(fold, store, 500)
    assert store.applied == 0
    with pytest.raises(StoreError, match="map size"):
        moves(fold, store, 500)
    assert store.applied > 0
    fold.close()
    store.close()


def test_a_disk_that_takes_no_rows_stops_nothing(
    log: EmbeddedLog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Spool, rows: Sequence[spool.Row]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "add", full)
    log.append(new_versions(0, 2000))
    fold = LogFold(log, store, far_behind=1000)
    with pytest.raises(StoreError, match="No space left"):
        fold.step(STEP)
    assert moves(fold, store)[0] == STEP
    assert store.applied == log.end()


def test_nothing_is_left_in_the_folder(log: EmbeddedLog, store: Store) -> None:
    before = set(store.path.parent.iterdir())
    log.append(new_versions(0, 2000))
    fold = LogFold(log, store, far_behind=1000)
    fold.step(STEP)
    assert isinstance(fold._process, BulkFold)
    assert set(store.path.parent.iterdir()) == before
    fold.close()


@pytest.mark.parametrize("value_bytes", [0, 200, 50_000])
def test_rows_of_all_batches_come_in_order_and_with_few_in_memory(tmp_path: Path, value_bytes: int) -> None:
    batches = [
        [(b"%05d" % (number * 7919 % 10_007), b"x" * value_bytes) for number in range(begun, begun + 100)]
        for begun in range(0, 2000 if value_bytes < 1000 else 500, 100)
    ]
    kept = Spool(tmp_path)
    for rows in batches:
        kept.add(rows)
    with kept.sorter() as process:
        pipe = process.stdout
        assert pipe is not None
        lists = list(iter(lambda: spool.decode_rows(receive(pipe) or b""), []))
    assert [row for rows in lists for row in rows] == sorted(row for rows in batches for row in rows)
    assert all(lists), "an empty one would end them"
    assert kept.hashes == digest.total([row for rows in batches for row in rows])
    sizes = [sum(len(key) + len(value) for key, value in rows) for rows in lists]
    assert max(sizes) < 4 << 20
    kept.close()
