"""Fair use of the event loop: large messages take turns, so that small ones hardly wait for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

# A few milliseconds of reading, making or writing large messages.
BYTES_PER_ITERATION = 1 << 20


class Turns:
    """Lets so many bytes of large messages move in one iteration of the event loop, first come first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int = BYTES_PER_ITERATION) -> None:
        self._loop = loop
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()
        self._scheduled = False

    def call(self, size: int, act: Callable[[], object]) -> None:
        """Call ``act``, which moves ``size`` bytes, in a coming iteration of the event loop."""
        self._waiting.append((size, act))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._iterate)

    async def wait(self, size: int) -> None:
        """Wait for the turn to move ``size`` bytes."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self.call(size, lambda: turn.cancelled() or turn.set_result(None))  # type: ignore[func-returns-value]
        await turn

    def _iterate(self) -> None:
        left = self._bytes_max
        try:
            while self._waiting and left > 0:
                size, act = self._waiting.popleft()
                left -= size
                act()
        finally:
            self._scheduled = bool(self._waiting)
            if self._scheduled:
                self._loop.call_soon(self._iterate)
