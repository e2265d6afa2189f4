"""The follower: steps from the log into the store, alone or with a second process that folds."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.base.processes.child_process import receive
from registry.domain.fold.fold import FOLD_VERSION, apply
from registry.domain.log_format.records import Entry
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import scan
from registry.log.embedded.log import EmbeddedLog
from registry.node.replication.follower import Follower
from registry.store.folding.parallel_fold import Outbox
from registry.store.layout import StoreError
from registry.store.lmdb import Store
from registry.store.open import open_store

MAP = 256 << 20


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    made = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path, log: EmbeddedLog) -> Iterator[Store]:
    made, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=MAP, fold=FOLD_VERSION)
    yield made
    made.close()


def history(records: int, subjects: int = 200) -> list[Entry]:
    """Return versions that are added, written again, soft-deleted and deleted, and an unreadable record."""
    entries = []
    for n in range(records):
        subject, version = b"subject-%d" % (n * 31 % subjects), n % 3 + 1
        key = b'{"keytype":"SCHEMA","subject":"%s","version":%d,"magic":1}' % (subject, version)
        value = b'{"subject":"%s","version":%d,"id":%d,"schema":"\\"int\\"","deleted":%s}'
        entry = Entry(key, value % (subject, version, n + 1, b"true" if n % 5 == 0 else b"false"))
        if n % 13 == 0:
            entry = Entry(key, None)
        elif n % 17 == 0:
            mark = b'{"subject":"%s","version":3}' % subject
            entry = Entry(b'{"keytype":"DELETE_SUBJECT","subject":"%s","magic":0}' % subject, mark)
        elif n % 101 == 0:
            entry = Entry(b"\xff what is this", b"?")
        entries.append(entry)
    return entries


def plain_rows(log: EmbeddedLog) -> list[tuple[bytes, bytes]]:
    plain = DictView()
    for record in log.read(0, 1 << 20, 1 << 30).records:
        plain.commit(apply(plain, record))
    return list(plain.rows())


def stored_rows(store: Store) -> list[tuple[bytes, bytes]]:
    with store.view() as view:
        return list(scan(view, b"", b""))


@pytest.mark.parametrize("far_behind", [None, 500])
@pytest.mark.parametrize("records_max", [1, 7, 300])
def test_the_store_becomes_the_fold_of_the_log(
    log: EmbeddedLog, store: Store, far_behind: int | None, records_max: int
) -> None:
    """Both ways of folding, and batches that end anywhere, give the rows of the plain fold."""
    follower = Follower(log, store, far_behind=far_behind)
    assert follower.step() == 0
    log.append(history(1500))
    steps = []
    while went := follower.step(records_max):
        steps.append(went)
    assert sum(steps) == store.applied == log.end()
    assert max(steps) <= records_max
    assert stored_rows(store) == plain_rows(log)
    log.append(history(50))
    while follower.step(records_max):
        pass
    assert stored_rows(store) == plain_rows(log)
    follower.close()


def test_a_step_over_many_subjects_puts_new_rows_and_replaces_known_ones(
    log: EmbeddedLog, store: Store
) -> None:
    follower = Follower(log, store, far_behind=None, history=True)
    for subjects in (2500, 3500):
        log.append(history(3000, subjects))
        assert follower.step() == 3000
    assert stored_rows(store) == plain_rows(log)
    while not store.verify_step():
        pass


def test_a_step_over_few_subjects_keeps_the_counts(log: EmbeddedLog, store: Store) -> None:
    follower = Follower(log, store, far_behind=None)
    while not store.count_step():
        pass
    log.append(history(1500, subjects=100))
    assert follower.step() == 1500
    assert store.count_step(), "nothing is left to count"
    log.append(history(3000, subjects=2500))
    assert follower.step() == 3000
    assert not store.count_step(), "many subjects are counted once, when the store has caught up"


def test_a_batch_sees_what_the_one_before_it_changed(log: EmbeddedLog, store: Store) -> None:
    """The second process is a batch ahead of the commits; here all batches write the same few versions."""
    log.append(history(3000, subjects=2))
    follower = Follower(log, store, far_behind=100)
    while follower.step(20):
        pass
    assert stored_rows(store) == plain_rows(log)


def test_batches_wait_for_the_second_process_and_for_the_commit(log: EmbeddedLog, store: Store) -> None:
    log.append(history(3000))
    follower = Follower(log, store, far_behind=100)
    assert follower.step(20) == 20
    assert follower.position == 60
    assert follower.step(20) == 20
    assert follower.position == 80
    follower.close()


def test_a_full_pipe_stops_nobody_who_sends() -> None:
    inlet, outlet = os.pipe()
    with os.fdopen(inlet, "rb") as here:
        outbox = Outbox(os.fdopen(outlet, "wb"))
        messages = [bytes([number]) * (3 << 20) for number in range(3)]
        for message in messages:
            outbox.put(message)
        outbox.close()
        assert [receive(here) for _ in messages] == messages
        assert receive(here) is None
    outbox.join()


def test_what_is_sent_to_a_process_that_has_ended_is_dropped() -> None:
    inlet, outlet = os.pipe()
    outbox = Outbox(os.fdopen(outlet, "wb"))
    outbox.put(bytes(3 << 20))
    os.close(inlet)
    outbox.put(b"more")
    outbox.close()
    outbox.join()


def test_holes_of_compaction_are_stepped_over(log: EmbeddedLog, store: Store) -> None:
    log.append(history(600))
    while log.compact(1 << 50, 0, 1 << 50):
        pass
    assert log.count() < 600
    follower = Follower(log, store)
    while follower.step(10):
        pass
    assert store.applied == 600
    assert stored_rows(store) == plain_rows(log)


def test_a_second_process_that_dies_is_done_without(log: EmbeddedLog, store: Store) -> None:
    log.append(history(3000))
    follower = Follower(log, store, far_behind=100)
    assert follower.step(20) == 20
    assert follower.second
    os.kill(follower.second, signal.SIGKILL)
    while follower.step(20):
        pass
    assert follower.second is None
    assert stored_rows(store) == plain_rows(log)


def test_what_was_folded_and_not_committed_is_folded_again(tmp_path: Path, log: EmbeddedLog) -> None:
    """A store without room commits no batch; the later ones, which depend on it, must not be committed
    instead.
    """
    store, _ = open_store(tmp_path / "small", log.identity, 0, map_bytes=1 << 20, fold=FOLD_VERSION)
    log.append(history(12_000, subjects=6_000))
    follower = Follower(log, store, far_behind=100)
    full = False
    while not full:
        try:
            follower.step(500)
        except StoreError:
            full = True
    store._env.set_mapsize(MAP)
    while follower.step(500):
        pass
    assert stored_rows(store) == plain_rows(log)
    follower.close()
    store.close()


def test_progress_says_how_far_how_fast_and_how_long(log: EmbeddedLog, store: Store) -> None:
    now = [100.0]
    follower = Follower(log, store, clock=lambda: now[0])
    assert follower.progress() == (0, 0, 0.0, 0.0)
    log.append(history(500))
    assert follower.progress() == (0, 500, 0.0, None)
    now[0] += 1
    follower.step(0 + 100)
    now[0] += 2
    follower.step(100)
    assert follower.progress() == (200, 500, 100.0, 3.0)
    while follower.step():
        pass
    assert follower.progress().eta_s == 0.0
