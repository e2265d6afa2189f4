"""Handlers that would keep an event loop too long, begun again with what a process beside has found.

Parsing a schema of five megabytes takes seconds, and so do some comparisons. Nobody knows beforehand what a
request will have parsed, because much of it may be remembered, so a handler begins on the loop with a limit.
Where that does not suffice, what it lacks is asked beside, and it is run again from the start: handlers
change nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from registry.domain.errors import UNAVAILABLE, RegistryError
from registry.domain.parsing.parser import Parser, TooMuchText
from registry.domain.parsing.schema_queries import Facts, Key, SchemaAnswer, facts
from registry.workers.pool import SLOW, STEPS_AT_ONCE_MAX, TEXT_AT_ONCE_MAX, Answered, Pool

SPARE_S = 0.5
"""How long before its time is over a request is told that what it needs to know was not found out."""

_T = TypeVar("_T")


class WorkerQueries:
    """What the handlers of one event loop share."""

    def __init__(self, pool: Pool) -> None:
        self.parser = Parser()
        self._pool = pool
        self._turn = asyncio.Lock()

    async def do(self, work: Callable[[], _T], timeout_s: float, *, large: bool = False) -> _T:
        """What ``work`` gives or raises, within ``timeout_s``.

        ``large`` work keeps the loop for long even where it parses nothing: it is done one at a time, and
        others get as much of the loop. 422 where comparing takes longer than the budget; 503 when too much
        waits, or the machine is too busy.
        """
        spent_s, known = 0.0, dict[Key, SchemaAnswer]()
        until = time.monotonic() + timeout_s - min(SPARE_S, timeout_s / 10)
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    begin = partial(self._begin, work, known)
                    try:
                        return await self._in_turn(begin) if large else begin()
                    except TooMuchText as too_much:
                        question = too_much.question
                        answered = await self._asked(too_much, spent_s, until)
                    found = facts(question, answered.known)
                    known.update(found)
                    if question.lasts:
                        self.parser.learn(found)
                    spent_s += answered.took_s
        except TimeoutError:
            raise UNAVAILABLE(SLOW) from None

    def _begin(self, work: Callable[[], _T], known: Facts) -> _T:
        self.parser.allow(TEXT_AT_ONCE_MAX, STEPS_AT_ONCE_MAX, known)
        return work()

    async def _in_turn(self, begin: Callable[[], _T]) -> _T:
        async with self._turn:
            began = time.perf_counter()
            try:
                return begin()
            finally:
                # What came meanwhile takes several turns of the loop until it is answered.
                await asyncio.sleep(time.perf_counter() - began)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Work that is left undone where it does not suffice: :class:`.TooMuchText`."""
        self.parser.allow(TEXT_AT_ONCE_MAX, STEPS_AT_ONCE_MAX)
        yield

    async def _asked(self, too_much: TooMuchText, spent_s: float, until: float) -> Answered:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answered] = loop.create_future()

        def told(outcome: Answered | RegistryError) -> None:
            loop.call_soon_threadsafe(_settle, done, outcome)

        self._pool.ask(too_much, told, spent_s=spent_s, until=until, wanted=lambda: not done.cancelled())
        return await done


def _settle(done: asyncio.Future[Answered], outcome: Answered | RegistryError) -> None:
    if done.cancelled():
        return
    if isinstance(outcome, RegistryError):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
