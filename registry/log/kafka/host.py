"""The machine that a log runs on: connections, an event loop, clocks and waiting.

The simulation replaces all of them, and nothing else of this package.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol, TypeVar

import uvloop

from .broker_connection import login_with
from .connection import Connections
from .security import Security
from .timestamps import boot_s

T = TypeVar("T")


class EventLoopHost(Protocol):
    """An event loop for callers that block."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        ...

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None) -> T:
        """Run ``call`` on the loop and return its result; ``None``: wait as long as it takes.

        Raises ``TimeoutError`` when the time is up, and ``concurrent.futures.CancelledError`` if the call was
        cancelled on the loop.
        """
        ...

    def stop(self, last: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """Run ``last``, then end the loop for good."""
        ...


class EventLoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, name: str) -> None:
        # A wake-up and an answer take a fifth less on it than on asyncio's own loop.
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, call: Coroutine[Any, Any, T], timeout_s: float | None) -> T:
        """Run ``call`` on the loop, see :meth:`EventLoopHost.run`."""
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(call, self.loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise

    def stop(self, last: Coroutine[Any, Any, None], timeout_s: float) -> None:
        """End the loop and its thread, see :meth:`EventLoopHost.stop`."""
        asyncio.run_coroutine_threadsafe(last, self.loop).result(timeout_s)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout_s)
        self.loop.close()


class Host(NamedTuple):
    """The parts of the machine; the defaults are those of production."""

    connections: Connections
    event_loop: EventLoopHost
    # Monotonic, in seconds; the second one goes on while the machine sleeps.
    clock: Callable[[], float] = time.monotonic
    boot_clock: Callable[[], float] = boot_s
    # What a reader waits on.
    condition: Callable[[], threading.Condition] = threading.Condition


def this_host(security: Security) -> Host:
    """Start an event loop. Raises :class:`.contract.LogError` if ``security`` cannot be used."""
    return Host(Connections(login_with(security)), EventLoopThread("kafka"))
