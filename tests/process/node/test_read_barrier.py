"""Waiting for records: up to an offset, and up to the log's end at the time of the request."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from registry.domain.log_format.records import NOOP_KEY, Entry
from registry.log.contract import LogError, Unreachable
from registry.log.embedded.log import EmbeddedLog
from registry.node.replication.follower import Follower
from registry.node.replication.read_barrier import ReadBarrier
from registry.store.lmdb import Store
from registry.store.open import open_store
from tests.support.running import until

MAP = 64 << 20
LONG_S, SHORT_S = 30.0, 0.05


class CountedLog(EmbeddedLog):
    """Counts queries, and can be disconnected or made to delay its answer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, map_bytes=MAP)
        self.asked = 0
        self.was_asked = threading.Event()
        self.away = False
        self.answering = threading.Event()
        self.answering.set()

    def query_end(self, timeout_s: float) -> int:
        self.asked += 1
        end = super().query_end(timeout_s)
        # Only now: the answer does not include records that are appended after this event.
        self.was_asked.set()
        assert self.answering.wait(LONG_S)
        if self.away:
            raise Unreachable("nobody listens")
        return end


class Host:
    """A log and a store that a test moves by hand."""

    def __init__(self, path: Path) -> None:
        self.log = CountedLog(path / "log")
        self.store: Store
        self.store, _ = open_store(path / "store", self.log.identity, 0, map_bytes=MAP)
        self.follower = Follower(self.log, self.store)
        self.nudges = 0
        self.expected: list[int] = []
        self.stuck = False
        self.replies: list[LogError | None] = []

    @contextmanager
    def freshness(self) -> Iterator[ReadBarrier]:
        fresh = ReadBarrier(
            self.log, self.store, ask_s=LONG_S,
            nudge=self.nudged, expect=self.expected.append, on_reply=self.replies.append,
            stuck=lambda: self.stuck,
        )  # fmt: skip
        thread = threading.Thread(target=fresh.run)
        thread.start()
        try:
            yield fresh
        finally:
            fresh.stop()
            thread.join(LONG_S)

    def nudged(self) -> None:
        self.nudges += 1

    def append(self) -> int:
        """Append one more record; return the log's end."""
        return self.log.append([Entry(NOOP_KEY, None)]) + 1

    def follow(self, fresh: ReadBarrier) -> None:
        while self.follower.step():
            fresh.notify_advanced()


async def until_begun() -> None:
    """Let all tasks that were created so far run until they wait."""
    await asyncio.sleep(0)


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(host: Host) -> None:
        asyncio.run(test(host))

    return run


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.store.close()
    made.log.close()


@on_a_loop
async def test_an_offset_is_reached_when_it_is_applied_and_not_before(host: Host) -> None:
    with host.freshness() as fresh:
        assert await fresh.reach(0, SHORT_S)
        end = host.append()
        assert not await fresh.reach(end, SHORT_S)
        assert host.nudges == 1
        waiting = [asyncio.ensure_future(fresh.reach(wanted, LONG_S)) for wanted in (end, end + 1)]
        await until_begun()
        await asyncio.to_thread(host.follow, fresh)
        assert await waiting[0]
        assert not waiting[1].done()
        host.append()
        await asyncio.to_thread(host.follow, fresh)
        assert await waiting[1]


@on_a_loop
async def test_who_waits_for_records_of_the_primary_for_itself_has_them_expected_and_nothing_else(
    host: Host,
) -> None:
    with host.freshness() as fresh:
        end = host.append()
        assert not await fresh.reach(end, SHORT_S, own=True)
        assert host.expected == [end]
        assert not host.nudges


@on_a_loop
async def test_a_store_is_confirmed_when_it_holds_what_the_log_held(host: Host) -> None:
    with host.freshness() as fresh:
        assert await fresh.confirm(LONG_S)
        host.append()
        assert not await fresh.confirm(SHORT_S)
        waiting = asyncio.ensure_future(fresh.confirm(LONG_S))
        await until_begun()
        await asyncio.to_thread(host.follow, fresh)
        assert await waiting


@on_a_loop
async def test_nobody_waits_for_a_store_that_cannot_be_written(host: Host) -> None:
    with host.freshness() as fresh:
        end = host.append()
        waiting = [asyncio.ensure_future(each) for each in (fresh.reach(end, LONG_S), fresh.confirm(LONG_S))]
        await asyncio.to_thread(until, lambda: host.nudges == 2, LONG_S, "both to wait")
        host.stuck = True
        fresh.stop_waiting()
        assert await asyncio.gather(*waiting) == [False, False]
        assert not await fresh.reach(end, LONG_S)
        assert not await fresh.confirm(LONG_S)
        assert await fresh.reach(end - 1, LONG_S)
        host.stuck = False
        await asyncio.to_thread(host.follow, fresh)
        assert await fresh.confirm(LONG_S)


@on_a_loop
async def test_all_that_wait_share_a_question_but_not_one_that_was_sent_before_they_came(host: Host) -> None:
    """A query sent before a write was acknowledged proves nothing about that write."""
    with host.freshness() as fresh:
        host.log.answering.clear()
        first = asyncio.ensure_future(fresh.confirm(LONG_S))
        await until_begun()
        assert await asyncio.to_thread(host.log.was_asked.wait, LONG_S)
        host.append()
        later = [asyncio.ensure_future(fresh.confirm(LONG_S)) for _ in range(100)]
        await until_begun()
        host.log.answering.set()
        assert await first
        assert not any(each.done() for each in later)
        await asyncio.to_thread(host.follow, fresh)
        assert all(await asyncio.gather(*later))
        assert host.log.asked == 2


@on_a_loop
async def test_cut_off_nothing_is_confirmed(host: Host) -> None:
    with host.freshness() as fresh:
        host.log.away = True
        assert not await fresh.confirm(LONG_S)
        host.log.away = False
        assert await fresh.confirm(LONG_S)
        assert [str(each) for each in host.replies] == ["nobody listens", "None"]
