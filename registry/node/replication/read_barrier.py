"""Staleness of rows, and the barrier at which reads wait for newer ones.

The log may have dropped a tombstone that the store has not applied, and the store would keep the deleted row
forever. A store that was behind the log's end for nearly the retention time is therefore rebuilt.

Across a restart only the wall clock measures that time; the margin covers the difference between this host's
clock and the brokers'. A mark in the future means that the clock was set back: the time is then unknown,
which counts as too long. Within a process a monotonic clock measures the time, so that jumps of the wall
clock do not affect a node that follows the log.

Requests wait on the event loop. One thread queries the log's end: one query serves all requests that came
before it was sent, and the next one serves those that came since.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from registry.domain.log_format.lineage import too_long
from registry.log.contract import Log, LogError
from registry.store.layout import StoreError
from registry.store.lmdb import Store

_LOOK_EVERY_S = 5.0
_LOOK_EVERY_MIN_S = 0.2


class StaleStore(StoreError):
    """The store was behind the log's end longer than the log retains tombstones; it must be rebuilt."""


class Moment(NamedTuple):
    """A point in time on both clocks."""

    # Milliseconds since the epoch.
    wall_ms: int
    # Milliseconds on a monotonic clock that also runs while the process is stopped or the machine
    # sleeps.
    running_ms: int


def running_ms() -> int:
    """Return the milliseconds on the monotonic clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class Staleness:
    """Keeps the mark of one store. ``retention_ms`` is called each time, because topics are reconfigured."""

    def __init__(
        self,
        store: Store,
        *,
        retention_ms: Callable[[], int | None],
        margin_ms: int,
        now: Callable[[], int],
    ) -> None:
        self._store = store
        self._retention_ms = retention_ms
        self._margin_ms = margin_ms
        self._now = now
        # The time at which the store was last at the log's end, on the running clock.
        self._at_end_ms = running_ms() - (now() - store.at_end_ms())

    def moment(self) -> Moment:
        """Return the current time."""
        return Moment(self._now(), running_ms())

    @property
    def look_every_s(self) -> float:
        """Seconds between checks that the store is at the log's end, short enough for the retention time."""
        retention_ms = self._retention_ms()
        if retention_ms is None:
            return _LOOK_EVERY_S
        return min(_LOOK_EVERY_S, max(_LOOK_EVERY_MIN_S, (retention_ms - self._margin_ms) / 4000))

    def at_end(self, asked: Moment) -> None:
        """Record that the store holds all that the log held at the moment ``asked``."""
        self._at_end_ms = asked.running_ms
        self._store.mark_at_end(asked.wall_ms)

    def too_long(self) -> str:
        """Return the reason why the store cannot resume; empty if it can."""
        why = too_long(self._at_end_ms, running_ms(), self._retention_ms(), self._margin_ms)
        return f"the store must be rebuilt: {why}" if why else ""


_Waiting = tuple[float, int, "asyncio.Future[bool]"]


class ReadBarrier:
    """Makes requests wait until the store is fresh enough. Created on the thread of the event loop.

    ``nudge`` is called when a request waits for records that the store does not hold yet, ``expect`` if the
    primary has appended them for it. ``on_reply`` is called after each query, with the error if it failed.
    ``stuck`` returns true if the store cannot be written: no request waits for it then. The thread in
    :meth:`run` waits on a ``condition``.
    """

    def __init__(
        self,
        log: Log,
        store: Store,
        *,
        ask_s: float,
        nudge: Callable[[], None],
        expect: Callable[[int], None],
        on_reply: Callable[[LogError | None], None],
        stuck: Callable[[], bool] = lambda: False,
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._store = store
        self._ask_s = ask_s
        self._nudge, self._expect = nudge, expect
        self._on_reply = on_reply
        self._stuck = stuck
        self._waiting: list[_Waiting] = []
        self._given_up = 0
        self._numbers = itertools.count()
        self._least: float = math.inf
        self._releasing = False
        self._collecting: asyncio.Future[bool] | None = None
        self._wanted = condition()
        self._stopping = False

    async def reach(self, offset: int, timeout_s: float, *, own: bool = False) -> bool:
        """Wait until the store holds the log up to ``offset``; return false if it does not in time.

        ``own``: the primary has appended for the request what it waits for.
        """
        if self._store.applied >= offset:
            return True
        if self._stuck():
            return False
        reached: asyncio.Future[bool] = self._loop.create_future()
        self._when_applied(offset, reached, partial(self._expect, offset) if own else self._nudge)
        await asyncio.wait((reached,), timeout=timeout_s)
        if reached.done():
            return reached.result()
        reached.cancel()
        self._forget_one()
        return False

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store is as fresh as the log was at the call; return false if it is not in time."""
        answered = self._collecting
        if answered is None:
            answered = self._loop.create_future()
            with self._wanted:
                self._collecting = answered
                self._wanted.notify()
        await asyncio.wait((answered,), timeout=timeout_s)
        return answered.done() and answered.result()

    def notify_advanced(self) -> None:
        """Notify waiting requests that the store has advanced; callable from any thread."""
        if self._store.applied >= self._least and not self._releasing:
            self._releasing = True
            self._soon(self._release)

    def stop_waiting(self) -> None:
        """Release all requests with false, because the store cannot be written; callable from any thread."""
        self._soon(self._give_up_all)

    def run(self) -> None:
        """Query the log's end on behalf of the waiting requests, until :meth:`stop`."""
        while True:
            with self._wanted:
                self._wanted.wait_for(lambda: self._collecting is not None or self._stopping)
                if self._stopping:
                    return
                asking, self._collecting = self._collecting, None
            assert asking is not None
            end: int | None = None
            try:
                end = self._log.query_end(self._ask_s)
                self._on_reply(None)
            except LogError as error:
                self._on_reply(error)
            self._soon(self._answer, asking, end)

    def stop(self) -> None:
        """Make :meth:`run` return soon."""
        with self._wanted:
            self._stopping = True
            self._wanted.notify()

    def _answer(self, asking: asyncio.Future[bool], end: int | None) -> None:
        if end is None:
            asking.set_result(False)
        elif self._store.applied >= end:
            asking.set_result(True)
        elif self._stuck():
            asking.set_result(False)
        else:
            self._when_applied(end, asking, self._nudge)
            if not asking.done():
                self._loop.call_later(self._ask_s, self._give_up, asking)

    def _give_up(self, asking: asyncio.Future[bool]) -> None:
        if not asking.done():
            asking.set_result(False)
            self._forget_one()

    def _give_up_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._given_up, self._least = 0, math.inf
        for _, _, reached in waiting:
            if not reached.done():
                reached.set_result(False)

    def _when_applied(self, offset: int, reached: asyncio.Future[bool], nudge: Callable[[], None]) -> None:
        heapq.heappush(self._waiting, (offset, next(self._numbers), reached))
        self._least = self._waiting[0][0]
        # Steps are noticed only from here on; this check catches one made since the caller's check.
        if self._store.applied >= offset:
            self._release()
        else:
            nudge()

    def _release(self) -> None:
        self._releasing = False
        applied = self._store.applied
        while self._waiting and self._waiting[0][0] <= applied:
            reached = heapq.heappop(self._waiting)[2]
            if not reached.done():
                reached.set_result(True)
        self._least = self._waiting[0][0] if self._waiting else math.inf
        # A step made before ``_least`` was updated has seen the old bound.
        if self._store.applied >= self._least:
            self._release()

    def _forget_one(self) -> None:
        self._given_up += 1
        if self._given_up * 2 > len(self._waiting):
            self._waiting = [each for each in self._waiting if not each[2].done()]
            heapq.heapify(self._waiting)
            self._given_up = 0

    def _soon(self, call: Callable[..., None], *args: object) -> None:
        with suppress(RuntimeError):  # The loop has ended, and no request waits.
            self._loop.call_soon_threadsafe(call, *args)
