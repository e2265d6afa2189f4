"""The history of a store: kept by the follower, filled from the log, and the same whichever did it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from registry.domain.history.entries import packed_owner, slice_of
from registry.domain.history.moment import entries
from registry.domain.log_format.records import Entry, config_key
from registry.domain.model import Subject
from registry.domain.rows.view import Span
from registry.log.embedded.log import EmbeddedLog
from registry.node.past.thread import HistoryFiller
from registry.node.replication.follower import Follower
from registry.store import layout
from registry.store.layout import META_HISTORY
from registry.store.lmdb import Store
from registry.store.open import open_store
from tests.process.node.test_follower import history as said

MAP = 256 << 20


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    made = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path, log: EmbeddedLog) -> Iterator[Store]:
    made, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=MAP)
    yield made
    made.close()


def follow(follower: Follower, log: EmbeddedLog, store: Store) -> None:
    while store.applied < log.end():
        assert follower.step()


def whole(store: Store) -> list[tuple[bytes, bytes]]:
    """Return all entries of the store's history."""
    found, key = [], b""
    with store.view() as view:
        history = view.history()
        assert history is not None
        while (entry := history.seek(key)) is not None:
            found.append(entry)
            key = entry[0] + b"\0"
    return found


def expected(log: EmbeddedLog) -> list[tuple[bytes, bytes]]:
    return sorted(slice_of(0, log.read(0, 1 << 20, 1 << 30).records, log.end()).entries)


def spans(store: Store) -> tuple[Span, ...]:
    with store.view() as view:
        history = view.history()
        assert history is not None
        return history.spans()


def filled(log: EmbeddedLog, store: Store) -> None:
    fill = HistoryFiller(log, store)
    while not fill.step():
        pass
    assert store.history_gap() is None


def test_the_follower_keeps_the_history_of_what_it_applies(log: EmbeddedLog, store: Store) -> None:
    log.append(said(500))
    follow(Follower(log, store, history=True), log, store)
    assert whole(store) == expected(log)
    assert spans(store) == (Span(0, 0, 500),)
    assert store.history_gap() is None


def test_what_was_folded_in_a_second_process_is_filled_from_the_newest_to_the_oldest(
    log: EmbeddedLog, store: Store
) -> None:
    log.append(said(3000))
    follower = Follower(log, store, far_behind=100, history=True)
    while store.applied < log.end():
        follower.step(300)
    assert store.history_gap() is not None
    log.append(said(10))
    follow(follower, log, store)
    follower.close()
    assert spans(store)[-1].end == 3010
    HistoryFiller(log, store, window=700).step()
    begin, end = store.history_gap() or (0, 0)
    assert begin > 2000, "the newest records come first"
    assert end == 2700
    filled(log, store)
    assert whole(store) == expected(log)
    assert spans(store) == (Span(0, 0, 3010),)


def test_a_store_without_history_is_filled_while_records_come(log: EmbeddedLog, store: Store) -> None:
    log.append(said(900))
    follow(Follower(log, store), log, store)
    assert store.meta(META_HISTORY) == b""
    fill, follower = HistoryFiller(log, store), Follower(log, store, history=True)
    for _ in range(3):
        fill.step()
        log.append(said(5))
        follow(follower, log, store)
    filled(log, store)
    assert whole(store) == expected(log)
    assert spans(store) == (Span(0, 0, 915),)


def test_entries_stay_when_their_records_are_compacted_away(log: EmbeddedLog, store: Store) -> None:
    log.append(said(400, subjects=20))
    follow(Follower(log, store, history=True), log, store)
    before = whole(store)
    while log.compact(1 << 60, 0, 0):
        pass
    assert log.count() < 100
    assert whole(store) == before
    assert spans(store) == (Span(0, 0, 400),)


def test_a_history_that_is_filled_from_a_compacted_log_says_what_it_lacks(
    log: EmbeddedLog, store: Store
) -> None:
    log.append(said(400, subjects=20))
    while log.compact(1 << 60, 0, 0):
        pass
    log.append(said(3))
    follow(Follower(log, store), log, store)
    filled(log, store)
    assert whole(store) == expected(log)
    (span,) = spans(store)
    offsets = {record.offset for record in log.read(0, 1 << 20, 1 << 30).records}
    assert (span.begin, span.end) == (0, 403)
    assert span.since - 1 not in offsets
    assert offsets >= set(range(span.since, 403))


def test_the_history_of_one_subject_is_its_own(log: EmbeddedLog, store: Store) -> None:
    log.append(said(300, subjects=20))
    follow(Follower(log, store, history=True), log, store)
    with store.view() as view:
        history = view.history()
        assert history is not None
        for name in ("subject-1", "subject-10", "subject-100"):
            found = {each.offset for each in entries(history, packed_owner(Subject(".", name)))}
            keys = {r.offset: r.key or b"" for r in log.read(0, 1 << 20, 1 << 30).records}
            assert found == {offset for offset, key in keys.items() if b'"%s"' % name.encode() in key}


def test_a_store_opened_again_goes_on(tmp_path: Path, log: EmbeddedLog, store: Store) -> None:
    log.append(said(50))
    follow(Follower(log, store, history=True), log, store)
    store.close()
    again, _ = open_store(tmp_path / "store", log.identity, log.end(), map_bytes=MAP)
    log.append(said(50))
    follow(Follower(log, again, history=True), log, again)
    assert whole(again) == expected(log)
    assert spans(again) == (Span(0, 0, 100),)
    again.close()


def test_a_history_is_not_filled_at_the_cost_of_the_room_for_rows(
    tmp_path: Path, log: EmbeddedLog, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """It is filled once there is room; and gives room to rows once it is no longer kept."""
    log.append([Entry(config_key(Subject(".", f"s{n % 9}")), b"{}") for n in range(20_000)])
    small, _ = open_store(tmp_path / "small", log.identity, 0, map_bytes=1 << 20)
    follow(Follower(log, small), log, small)
    fill = HistoryFiller(log, small)
    while not fill.step():
        pass
    assert fill.step()
    (warning,) = (each.getMessage() for each in caplog.records)
    assert "is not filled, because the store has used 75% of store_map_bytes" in warning
    assert small.stat().bytes_used < 0.8 * small.stat().map_bytes
    assert small.history_gap() is not None
    small.close()
    larger, _ = open_store(tmp_path / "small", log.identity, log.end(), map_bytes=MAP)
    filled(log, larger)
    assert whole(larger) == expected(log)
    larger.clear_history()
    assert whole(larger) == []
    larger.commit([], log.end())  # LMDB frees the pages of a transaction with the next but one.
    used = larger.stat().bytes_used
    larger.commit([(b"Vnew%03d" % n, bytes(1000)) for n in range(500)], log.end())
    assert larger.stat().bytes_used == used, "rows take the freed pages"
    assert larger.history_gap() == (0, log.end())
    larger.close()


def test_a_history_of_another_format_is_filled_anew(tmp_path: Path, log: EmbeddedLog, store: Store) -> None:
    log.append(said(50))
    follow(Follower(log, store, history=True), log, store)
    store.close()
    with lmdb.open(str(store.path), max_dbs=layout.TABLES) as env:
        meta, table = env.open_db(layout.META), env.open_db(layout.HISTORY)
        with env.begin(write=True) as txn:
            txn.put(META_HISTORY, b"\x01" + bytes(24), db=meta)
            txn.put(b"no entry", b"of this format", db=table)
    again, _ = open_store(tmp_path / "store", log.identity, log.end(), map_bytes=MAP)
    assert whole(again) == []
    filled(log, again)
    assert whole(again) == expected(log)
    again.close()
