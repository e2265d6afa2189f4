"""One question to the node, whether the store is as new as the log, for all that wait for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

JOIN_S = 0.02
"""How long a question may be under way before another is asked beside it.

Whoever comes while one is under way needs an answer to a later one; but where answers take long, because the
log is out of reach, nobody should wait for two.
"""

Told = Callable[[bool], None]


class Confirming:
    """``ask`` asks the node; it does not raise. Used on one event loop."""

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Told] = []
        self._under_way = 0
        self._questions: set[asyncio.Task[None]] = set()

    def then(self, told: Told) -> None:
        """Call ``told`` later, with whether the store holds all that the log held at this call."""
        self._waiting.append(told)
        if len(self._waiting) > 1:
            return
        if self._under_way:
            self._loop.call_later(JOIN_S, self._begin)
        else:
            # Those whose requests have arrived at the same time go along.
            self._loop.call_soon(self._begin)

    async def confirmed(self) -> bool:
        """Wait for the same answer."""
        answer: asyncio.Future[bool] = self._loop.create_future()

        def told(fresh: bool) -> None:
            if not answer.done():
                answer.set_result(fresh)

        self.then(told)
        return await answer

    def _begin(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._under_way += 1
            question = self._loop.create_task(self._question(waiting))
            self._questions.add(question)
            question.add_done_callback(self._questions.discard)

    async def _question(self, waiting: list[Told]) -> None:
        fresh = False
        try:
            fresh = await self._ask()
        finally:
            self._under_way -= 1
            self._begin()
            for told in waiting:
                told(fresh)
