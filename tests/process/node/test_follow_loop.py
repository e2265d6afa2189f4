"""Following the log with a store that cannot apply it."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from election.contract import Won
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry
from registry.domain.model import Subject
from registry.log.contract import ForeignLog, LogError, Unreachable
from registry.log.embedded.log import EmbeddedLog, now_ms
from registry.node.leadership.role import RoleHolder
from registry.node.replication import loop
from registry.node.replication.follower import Follower
from registry.node.replication.loop import FollowLoop
from registry.node.replication.read_barrier import Staleness
from registry.node.replication.reconnecting_log import ReconnectingLog
from registry.store.layout import StoreError
from registry.store.lmdb import Store
from registry.store.open import open_store
from tests.support.running import until

TRIES = 5


class Counted(Follower):
    """Counts the steps that were begun; between two of them its store is given the room that it may use."""

    def __init__(self, log: EmbeddedLog, store: Store) -> None:
        super().__init__(log, store)
        self.begun, self.often = 0, threading.Event()
        self.room: SimpleQueue[int] = SimpleQueue()
        self._env = store._env

    def step(self) -> int:
        self.begun += 1
        if self.begun > TRIES:
            self.often.set()
        # LMDB lets no other thread read or write meanwhile.
        with suppress(Empty):
            self._env.set_mapsize(self.room.get_nowait())
        return super().step()


def test_that_a_store_is_full_is_said_once_and_so_is_that_it_is_not_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "_RETRY_S", 0.001)
    caplog.set_level(logging.INFO, "registry.node.replication.loop")
    log = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)
    schema = '{"type":"string","doc":"%s"}' % ("x" * 20_000)
    subjects = [Subject(".", f"s{number}") for number in range(100)]
    log.append(
        [
            Entry(records.schema_key(each, 1), values.schema_value(each, 1, number + 1, schema))
            for number, each in enumerate(subjects)
        ]
    )
    store, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=1 << 20)
    follower, there = Counted(log, store), threading.Event()
    node = FollowLoop(log, store, follower, caught_up=there.set)
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    assert follower.often.wait(30)
    assert "store_map_bytes" in node.last_error
    assert not there.is_set()
    follower.room.put(64 << 20)
    assert there.wait(30)
    assert not node.last_error
    node.stop()
    thread.join(30)
    said = [record.getMessage().rpartition(";")[2].strip() for record in caplog.records]
    assert said.count("retrying") == said.count("the store can be written again") == 1
    for each in (follower, store, log):
        each.close()


class Nudging(Counted):
    """Nudges its loop before the thread rests, as a change of the role during the start does."""

    def __init__(self, log: EmbeddedLog, store: Store) -> None:
        super().__init__(log, store)
        self.node: FollowLoop

    def step(self) -> int:
        if self.begun <= TRIES:
            self.node.nudge()
        return super().step()


def test_an_only_writer_stops_at_once_even_after_it_was_nudged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)
    store, _ = open_store(tmp_path / "store", log.identity, 0)
    follower, there = Nudging(log, store), threading.Event()
    follower.node = node = FollowLoop(log, store, follower, caught_up=there.set)
    monkeypatch.setattr(loop, "_WAIT_S", 3600.0)
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    assert there.wait(30)
    assert follower.often.wait(30)
    node.stop()
    thread.join(30)
    assert not thread.is_alive()
    for each in (follower, store, log):
        each.close()


class Noticed(threading.Event):
    """Records for how long the thread wants to wait, unless it is nudged."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return super().wait(timeout)


@pytest.mark.parametrize("feed_is_read", [False, True])
def test_records_that_nobody_waits_for_are_taken_together_and_at_once_when_somebody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feed_is_read: bool
) -> None:
    monkeypatch.setattr(loop, "_COLLECT_FOR_FEED_S" if feed_is_read else "_COLLECT_S", 3600.0)
    log = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)
    store, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=64 << 20)
    staleness = Staleness(store, retention_ms=lambda: None, margin_ms=0, now=now_ms)
    there, went = threading.Event(), SimpleQueue[int]()
    follower = Follower(log, store)
    node = FollowLoop(
        log, store, follower,
        caught_up=there.set, advanced=lambda: went.put(store.applied), staleness=staleness,
        feed_is_read=lambda: feed_is_read,
    )  # fmt: skip
    node._nudged = nudged = Noticed()
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    assert there.wait(30)
    log.append([Entry(records.NOOP_KEY, None)])
    assert went.get(timeout=30) == 1
    until(lambda: nudged.waits[:1] == [3600.0], 30, "records to be let accumulate")
    node.expect()
    log.append([Entry(records.NOOP_KEY, None)])
    assert went.get(timeout=30) == 2
    until(lambda: nudged.waits[1:2] == [3600.0], 30, "records to be let accumulate, as nobody has waited")
    for _ in range(3):
        log.append([Entry(records.NOOP_KEY, None)])
    node.nudge()
    assert went.get(timeout=30) == 5
    until(lambda: nudged.waits[2:3] == [loop._ANSWER_S], 30, "the answer to go out before the next fetch")
    log.append([Entry(records.NOOP_KEY, None)])
    assert went.get(timeout=30) == 6, "who waited lately does not wait for others"
    node.stop()
    thread.join(30)
    for each in (follower, store, log):
        each.close()


class OnBrokers(EmbeddedLog):
    """An embedded log in the place of a topic."""

    brokers = "one broker"


def test_a_node_has_not_started_before_an_attached_log_said_where_it_ends(tmp_path: Path) -> None:
    """Nor is its store complete, which would let the former one be removed."""
    log = OnBrokers(tmp_path / "log", map_bytes=64 << 20)
    log.append([Entry(records.NOOP_KEY, None)] * 50)
    away, asked, there = threading.Event(), threading.Event(), threading.Event()

    def open_log() -> Any:
        asked.set()
        if not away.is_set():
            raise Unreachable("Kafka does not answer")
        return log

    store, _ = open_store(tmp_path / "store", log.identity, log.end(), map_bytes=64 << 20)
    connected = ReconnectingLog(
        open_log, lambda _: None, identity=log.identity, applied=0, error=Unreachable("away"), retry_s=0.01
    )
    follower = Follower(connected, store)
    staleness = Staleness(store, retention_ms=lambda: None, margin_ms=0, now=now_ms)
    node = FollowLoop(connected, store, follower, caught_up=there.set, staleness=staleness)
    thread = threading.Thread(target=node.run, daemon=True)
    thread.start()
    until(lambda: node.last_error and asked.is_set(), 30, "the log to be found away")
    assert (node.started, there.is_set(), store.is_complete) == (False, False, False)
    away.set()
    assert there.wait(30)
    assert (node.started, store.applied, store.is_complete) == (True, 50, True)
    node.stop()
    thread.join(30)
    for each in (follower, store, connected):
        each.close()


def test_a_log_that_does_not_answer_is_an_error_only_if_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry.node.replication.loop")
    log = EmbeddedLog(tmp_path / "log", map_bytes=16 << 20)
    store, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=16 << 20)
    node = FollowLoop(log, store, Follower(log, store), caught_up=lambda: None)

    def levels(*answers: LogError | None) -> list[str]:
        caplog.clear()
        for each in answers:
            node.on_reply(each)
        return [record.levelname for record in caplog.records]

    late, foreign = Unreachable("no answer"), ForeignLog("it was deleted")
    assert levels(late, late, None) == ["WARNING", "INFO"]
    assert levels(foreign, foreign, None) == ["ERROR", "INFO"]
    assert levels(late, foreign, None) == ["WARNING", "ERROR", "INFO"]
    monkeypatch.setattr(loop, "_ERROR_AFTER_S", 0.0)
    assert levels(late, late, None) == ["ERROR", "INFO"]
    for each in (store, log):
        each.close()


def test_a_primary_whose_log_is_another_one_is_none_before_it_says_so(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log", map_bytes=16 << 20)
    store, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=16 << 20)
    said: list[tuple[str, str]] = []
    holder = RoleHolder(switched=lambda role: said.append((role.name, node.foreign)), changed=lambda: None)

    def claim() -> None:
        holder.claiming()
        holder.claim(0)

    node = FollowLoop(log, store, Follower(log, store), caught_up=lambda: None, lost=holder.depose)
    holder.on_event(Won())
    claim()
    for error in (Unreachable("no answer"), None):
        node.on_reply(error)
        assert holder.role.name == "primary"
    node.on_reply(ForeignLog("its end was cut off"))
    assert said == [("primary", ""), ("following", "")]
    assert (node.foreign, holder.role.reason) == ("its end was cut off", "its end was cut off")
    node.on_reply(None)
    claim()
    node.on_reply(ForeignLog("it was deleted"))
    assert holder.role.name == "following"
    for each in (store, log):
        each.close()


Started = tuple[EmbeddedLog, Store, FollowLoop]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """A node that has read its log, whose thread does not follow it."""
    log = EmbeddedLog(tmp_path / "log", map_bytes=64 << 20)
    store, _ = open_store(tmp_path / "store", log.identity, 0, map_bytes=64 << 20)
    staleness = Staleness(store, retention_ms=lambda: None, margin_ms=0, now=now_ms)
    follower = Follower(log, store)
    node = FollowLoop(log, store, follower, caught_up=lambda: None, staleness=staleness)
    node._caught_up = node.stop
    node.run()
    yield log, store, node
    for each in (follower, store, log):
        each.close()


def test_another_thread_applies_what_is_at_hand_and_wakes_nobody(started: Started) -> None:
    log, store, node = started
    node._nudged.clear()
    log.append([Entry(records.NOOP_KEY, None)])
    node.step_at_hand(is_busy=False)
    assert store.applied == log.end()
    assert not node._nudged.is_set()


def test_a_thread_that_makes_a_step_or_waits_for_the_log_is_not_nudged_for_what_is_at_hand(
    started: Started,
) -> None:
    log, store, node = started
    node._nudged.clear()
    log.append([Entry(records.NOOP_KEY, None)])
    with node._stepping:
        node.step_at_hand(is_busy=False)
    node.expect_up_to(log.end())
    assert store.applied < log.end()
    assert not node._nudged.is_set()
    node.expect_up_to(log.end() + 1)
    assert node._nudged.is_set()


def test_a_step_that_would_take_long_or_wait_is_left_to_the_thread_which_is_nudged(started: Started) -> None:
    log, store, node = started
    before = store.applied
    log.append([Entry(records.NOOP_KEY, None)])

    def leaves(*, is_busy: bool = False) -> bool:
        node._nudged.clear()
        node.step_at_hand(is_busy=is_busy)
        return store.applied == before and node._nudged.is_set()

    assert leaves(is_busy=True)
    node.on_reply(Unreachable("no answer"))
    assert leaves()
    node.on_reply(None)
    node._slow_until = math.inf
    assert leaves()
    node._slow_until = 0.0
    log.append([Entry(records.NOOP_KEY, None)] * loop._HERE_MAX)
    assert leaves()


def test_after_a_step_that_took_long_the_next_ones_are_left_to_the_thread(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, store, node = started
    monkeypatch.setattr(loop, "_SLOW_S", 0.0)
    monkeypatch.setattr(loop, "_SLOW_PAUSE_S", 3600.0)
    for _ in range(2):
        log.append([Entry(records.NOOP_KEY, None)])
        node.step_at_hand(is_busy=False)
    assert store.applied == log.end() - 1


def test_a_step_that_fails_is_left_to_the_thread(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _, node = started
    node._nudged.clear()
    log.append([Entry(records.NOOP_KEY, None)])
    monkeypatch.setattr(node._follower, "step", _fail)
    node.step_at_hand(is_busy=False)
    assert "full" in node.last_error
    assert node._nudged.is_set()


def _fail() -> int:
    raise StoreError("the disk is full")
