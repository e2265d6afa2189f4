"""Work that would keep an event loop too long: one thread does it, one piece after another.

Parsing a schema of five megabytes takes seconds, and so do some comparisons. Nobody knows beforehand what a
request will have parsed, because much of it may be remembered, so a handler begins on the loop with a limit;
where that does not suffice, it is run again here, from the start: handlers change nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Full, Queue
from typing import Any, TypeVar

from registry.domain.errors import UNAVAILABLE
from registry.domain.parsing import Parser

TEXT_AT_ONCE_MAX = 64 * 1024
"""Characters of schemas that are parsed on the loop for one request: some 30 ms."""
STEPS_AT_ONCE_MAX = 5_000
"""Steps of comparing on the loop for one request: some 30 ms."""
WAITING_MAX = 16
_TOO_MANY = "Too many large schemas are being parsed"

_T = TypeVar("_T")
_Piece = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Aside:
    """The thread, started when it is needed for the first time, and what it remembers."""

    def __init__(self) -> None:
        self.parser = Parser()
        """For pieces of work alone."""
        self._pieces: Queue[_Piece] = Queue(WAITING_MAX)
        self._thread: threading.Thread | None = None

    async def do(self, work: Callable[[], _T], timeout_s: float) -> _T:
        """What ``work`` gives or raises; 503 when too much waits, or when its turn does not come in time."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_T] = loop.create_future()
        try:
            self._pieces.put_nowait((work, loop, done))
        except Full:
            raise UNAVAILABLE(_TOO_MANY) from None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="aside", daemon=True)
            self._thread.start()
        try:
            async with asyncio.timeout(timeout_s):
                return await done
        except TimeoutError:
            raise UNAVAILABLE(_TOO_MANY) from None

    def _work(self) -> None:
        while True:
            work, loop, done = self._pieces.get()
            if done.cancelled():
                continue
            result, error = None, None
            try:
                result = work()
            except Exception as raised:
                error = raised
            loop.call_soon_threadsafe(_settle, done, result, error)
            del work, done, result, error  # nothing large is held while waiting


def _settle(done: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if done.cancelled():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)
