"""Listening, the clock of all connections, and the orderly stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from .answers import Answer, LargeAnswers, Later, date_line
from .connection import Connection
from .exchange import App
from .intake import Intake
from .limits import Limits
from .request import Header, Request
from .turns import Turns
from .unread import Unread

Quick = Callable[[Request], Answer | Later | None]
Observe = Callable[[Request | None, int, float, int, str], None]
"""Told of every answer: the request (none when it could not be read), status, seconds, body bytes, route."""

Standing = Callable[[Iterable[Header]], Iterable[Header]]
"""From a request's headers to those that every answer to it has."""

_TICK_S = 0.25


class Server:
    """Serves an ASGI application; ``quick`` is asked first and answers what it can, at once or later.

    The application gives its answers the ``standing`` headers itself; the server does so where it refuses.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits | None = None,
        quick: Quick = lambda _: None,
        observe: Observe = lambda *_: None,
        route_of: Callable[[Mapping[str, Any]], str] = lambda _: "",
        standing: Standing = lambda _: (),
    ) -> None:
        self.app = app
        self.quick = quick
        self.observe = observe
        self.route_of = route_of
        self.standing = standing
        self.limits = limits or Limits()
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time()
        """Event-loop time, a quarter of a second exact: deadlines need no more, and reading a clock costs."""
        self.date_line = date_line()
        self.intake = Intake(self.limits.bodies_bytes_max)
        self.turns = Turns(self.loop)
        self.large_answers = LargeAnswers()
        self.unread = Unread(self.limits.unread_bytes_max)
        self.stopping = False
        self.address: tuple[str, int] | None = None
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._queue: socket.socket | None = None
        """The listening socket once more, for those that the kernel took and this process has not."""
        self._empty = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    async def start(self, listener: socket.socket) -> None:
        """Serve what connects to ``listener``, a bound socket."""
        name = listener.getsockname()
        self.address = (name[0], name[1]) if isinstance(name, tuple) else None
        self._clock = self.loop.create_task(self._watch())
        self._queue = listener.dup()
        self._listener = await self.loop.create_server(lambda: Connection(self), sock=listener, backlog=1024)

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, finish what is under way for at most ``grace_s``, then drop the rest."""
        self.stopping = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.stop()
        await self._take_the_last()
        if self._connections:
            self._empty.clear()
            try:
                async with asyncio.timeout(grace_s):
                    await self._empty.wait()
            except TimeoutError:
                for connection in list(self._connections):
                    connection.output.abort()
        if self._clock is not None:
            self._clock.cancel()

    async def _take_the_last(self) -> None:
        """Serve who has connected already: closing the socket would reset them, with what they have sent."""
        if self._queue is None:
            return
        waiting = []
        with self._queue as queue, suppress(OSError):
            queue.setblocking(False)
            while True:
                waiting.append(queue.accept()[0])
        for each in waiting:
            each.setblocking(False)
            await self.loop.connect_accepted_socket(lambda: Connection(self), each)

    def joined(self, connection: Connection) -> bool:
        """A connection came; whether there is room for it."""
        self._connections.add(connection)
        return len(self._connections) <= self.limits.connections_max

    def left(self, connection: Connection) -> None:
        """A connection went."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.now = self.loop.time()
            self.date_line = date_line()
            self.unread.look()
            for connection in [each for each in self._connections if each.deadline < self.now]:
                connection.overdue()
