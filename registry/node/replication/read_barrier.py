"""Waiting for the store to be new enough: for an offset, or for all that the log holds at this moment.

Whoever waits does so on the event loop. One thread asks the log where it ends: one question for all that came
before it was sent, and the next for those that came since.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
from collections.abc import Callable
from contextlib import suppress

from registry.log.contract import Log, LogError
from registry.store.lmdb import Store

_Waiting = tuple[float, int, "asyncio.Future[bool]"]


class ReadBarrier:
    """Made by the thread of the event loop.

    ``nudge`` is called when somebody waits for what the store does not hold yet, ``heard`` after each
    question, with the error when there was no answer. ``stuck`` tells if the store cannot be written: then
    nobody waits for it.
    """

    def __init__(
        self,
        log: Log,
        store: Store,
        *,
        ask_s: float,
        nudge: Callable[[], None],
        heard: Callable[[LogError | None], None],
        stuck: Callable[[], bool] = lambda: False,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._store = store
        self._ask_s = ask_s
        self._nudge = nudge
        self._heard = heard
        self._stuck = stuck
        self._waiting: list[_Waiting] = []
        self._given_up = 0
        self._numbers = itertools.count()
        self._least: float = math.inf
        self._releasing = False
        self._collecting: asyncio.Future[bool] | None = None
        self._wanted = threading.Condition()
        self._stopping = False

    async def reach(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store holds the log up to ``offset``; whether it came to that in time."""
        if self._store.applied >= offset:
            return True
        if self._stuck():
            return False
        reached: asyncio.Future[bool] = self._loop.create_future()
        self._when_applied(offset, reached)
        await asyncio.wait((reached,), timeout=timeout_s)
        if reached.done():
            return reached.result()
        reached.cancel()
        self._forget_one()
        return False

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store is as new as the log was at the call; whether it came to that in time."""
        answered = self._collecting
        if answered is None:
            answered = self._loop.create_future()
            with self._wanted:
                self._collecting = answered
                self._wanted.notify()
        await asyncio.wait((answered,), timeout=timeout_s)
        return answered.done() and answered.result()

    def advanced(self) -> None:
        """The store went on; from any thread."""
        if self._store.applied >= self._least and not self._releasing:
            self._releasing = True
            self._soon(self._release)

    def stop_waiting(self) -> None:
        """Answer all that wait for the store, because it cannot be written; from any thread."""
        self._soon(self._give_up_all)

    def run(self) -> None:
        """Ask the log for all that wait, until :meth:`stop`."""
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
                self._heard(None)
            except LogError as error:
                self._heard(error)
            self._soon(self._answered, asking, end)

    def stop(self) -> None:
        """Make :meth:`run` return soon."""
        with self._wanted:
            self._stopping = True
            self._wanted.notify()

    def _answered(self, asking: asyncio.Future[bool], end: int | None) -> None:
        if end is None:
            asking.set_result(False)
        elif self._store.applied >= end:
            asking.set_result(True)
        elif self._stuck():
            asking.set_result(False)
        else:
            self._when_applied(end, asking)
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

    def _when_applied(self, offset: int, reached: asyncio.Future[bool]) -> None:
        heapq.heappush(self._waiting, (offset, next(self._numbers), reached))
        self._least = self._waiting[0][0]
        # Only now will the next step be noticed; one that was made since the caller looked is seen here.
        if self._store.applied >= offset:
            self._release()
        else:
            self._nudge()

    def _release(self) -> None:
        self._releasing = False
        applied = self._store.applied
        while self._waiting and self._waiting[0][0] <= applied:
            reached = heapq.heappop(self._waiting)[2]
            if not reached.done():
                reached.set_result(True)
        self._least = self._waiting[0][0] if self._waiting else math.inf
        # A step between the two lines above has seen the old bound.
        if self._store.applied >= self._least:
            self._release()

    def _forget_one(self) -> None:
        self._given_up += 1
        if self._given_up * 2 > len(self._waiting):
            self._waiting = [each for each in self._waiting if not each[2].done()]
            heapq.heapify(self._waiting)
            self._given_up = 0

    def _soon(self, call: Callable[..., None], *given: object) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(call, *given)
