"""Read barrier: one query to the node ("is the store as new as the log?") for all waiting requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

# How long a query may be in flight before another one is started in parallel. A request that arrives while a
# query is in flight needs the answer to a later one; but if answers are slow, because the log cannot be
# reached, no request should have to wait for two.
JOIN_S = 0.02

OnReply = Callable[[bool], None]


class ReadBarrier:
    """Groups requests that need up-to-date rows; ``ask`` queries the node and does not raise.

    Used on one event loop.
    """

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._waiting: list[OnReply] = []
        self._in_flight = 0
        self._queries: set[asyncio.Task[None]] = set()

    def then(self, on_reply: OnReply) -> None:
        """Call ``on_reply`` later: with true if the store holds all that the log held at this call."""
        self._waiting.append(on_reply)
        if len(self._waiting) > 1:
            return
        if self._in_flight:
            self._loop.call_later(JOIN_S, self._begin)
        else:
            # Not at once, so that requests that have arrived at the same time share the query.
            self._loop.call_soon(self._begin)

    async def confirmed(self) -> bool:
        """Wait for the same reply."""
        answer: asyncio.Future[bool] = self._loop.create_future()

        def on_reply(fresh: bool) -> None:
            if not answer.done():
                answer.set_result(fresh)

        self.then(on_reply)
        return await answer

    def _begin(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._in_flight += 1
            query = self._loop.create_task(self._query(waiting))
            self._queries.add(query)
            query.add_done_callback(self._queries.discard)

    async def _query(self, waiting: list[OnReply]) -> None:
        fresh = False
        try:
            fresh = await self._ask()
        finally:
            self._in_flight -= 1
            self._begin()
            for on_reply in waiting:
                on_reply(fresh)
