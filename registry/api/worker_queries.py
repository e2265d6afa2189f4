"""Handlers that query schemas, answered on the event loop if that is quick, otherwise by worker processes.

Parsing a schema of five megabytes takes seconds, and so do some comparisons. It is not known in advance how
much a request has to parse, because much of it may be cached, so a handler is first attempted on the loop,
within limits. A worker process answers the queries that exceed them, and the next attempt reads the rows as
they are then: no view stays open while a worker is busy. Handlers change nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TypeVar

from registry.domain.errors import UNAVAILABLE, RegistryError
from registry.domain.parsing.parser import Parser
from registry.domain.parsing.querying import Querying, Unanswered
from registry.domain.parsing.schema_queries import NOTHING, Facts, Key, SchemaAnswer, facts
from registry.domain.rows.view import View
from registry.workers.pool import SLOW, STEPS_AT_ONCE_MAX, TEXT_AT_ONCE_MAX, Answered, Pool

# Margin before a request's timeout, at which it gives up waiting for a worker.
SPARE_S = 0.5

_T = TypeVar("_T")


class WorkerQueries:
    """The parser and the worker pool that the handlers of one event loop share."""

    def __init__(self, pool: Pool) -> None:
        self.parser = Parser()
        self.memory = self.parser.memory
        self._pool = pool
        self._turn = asyncio.Lock()

    async def do(
        self,
        work: Callable[[View], _T | Querying[_T]],
        rows: Callable[[], AbstractContextManager[View]],
        timeout_s: float,
        *,
        large: bool = False,
    ) -> _T:
        """Return the result of ``work`` on the rows, or raise its error, within ``timeout_s``.

        ``large`` work blocks the loop for long even if it parses nothing: it is done one at a time, and other
        requests get as much of the loop. 422 if comparing takes longer than the budget; 503 if too many
        queries wait or the machine is too busy.
        """
        spent_s, known = 0.0, dict[Key, SchemaAnswer]()
        until = time.monotonic() + timeout_s - min(SPARE_S, timeout_s / 10)

        def attempt() -> _T | Unanswered:
            with rows() as view:
                result = work(view)
                return self.attempt(result, known) if isinstance(result, Generator) else result

        lacking: Unanswered | None = None
        if not large:  # mostly all that there is to do
            result = attempt()
            if not isinstance(result, Unanswered):
                return result
            lacking = result
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if lacking is not None:
                        answered = await self._ask(lacking, spent_s, until)
                        found = facts(lacking.query, answered.known)
                        known.update(found)
                        self.parser.learn(found)
                        spent_s += answered.took_s
                    result = await self._in_turn(attempt) if large else attempt()
                    if not isinstance(result, Unanswered):
                        return result
                    lacking = result
        except TimeoutError:
            raise UNAVAILABLE(SLOW) from None

    def attempt(self, steps: Querying[_T], known: Facts = NOTHING) -> _T | Unanswered:
        """Return the result of a computation if quick queries and the answers in ``known`` suffice."""
        return self.parser.attempt(steps, TEXT_AT_ONCE_MAX, STEPS_AT_ONCE_MAX, known)

    async def _in_turn(self, attempt: Callable[[], _T]) -> _T:
        async with self._turn:
            began = time.perf_counter()
            try:
                return attempt()
            finally:
                # Requests that arrived meanwhile take several iterations of the loop to be answered.
                await asyncio.sleep(time.perf_counter() - began)

    async def _ask(self, lacking: Unanswered, spent_s: float, until: float) -> Answered:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answered] = loop.create_future()

        def on_reply(outcome: Answered | RegistryError) -> None:
            loop.call_soon_threadsafe(_settle, done, outcome)

        self._pool.ask(lacking, on_reply, spent_s=spent_s, until=until, wanted=lambda: not done.cancelled())
        return await done


def _settle(done: asyncio.Future[Answered], outcome: Answered | RegistryError) -> None:
    if done.cancelled():
        return
    if isinstance(outcome, RegistryError):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)
