"""Listening, the deadlines of all connections, and the orderly stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from .connection import Connection
from .request import Limits
from .service import App, CommonHeaders, FastPath, Observe, Service

_TICK_S = 0.25


class Server:
    """Serves an ASGI application; ``fast_path`` is asked first and may answer instead of it.

    The application adds the ``common_headers`` to its answers itself; the server adds them to its refusals.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits | None = None,
        fast_path: FastPath = lambda _: None,
        observe: Observe = lambda *_: None,
        route_of: Callable[[Mapping[str, Any]], str] = lambda _: "",
        common_headers: CommonHeaders = lambda _: (),
    ) -> None:
        self.service = Service(app, limits or Limits(), fast_path, observe, route_of, common_headers)
        self._loop = self.service.loop
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        # A duplicate of the listening socket, for connections that the kernel has accepted and this process
        # has not.
        self._backlog: socket.socket | None = None
        self._empty = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def start(self, listener: socket.socket) -> None:
        """Serve what connects to ``listener``, a bound socket."""
        name = listener.getsockname()
        self.service.address = (name[0], name[1]) if isinstance(name, tuple) else None
        self._clock = self._loop.create_task(self._watch())
        self._backlog = listener.dup()
        self._listener = await self._loop.create_server(self._connection, sock=listener, backlog=1024)

    async def stop(self, grace_s: float) -> None:
        """Accept no more connections, finish requests in flight for up to ``grace_s``, then drop the rest."""
        self.service.stopping = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.stop()
        await self._accept_backlog()
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

    def _connection(self) -> Connection:
        return Connection(self.service, self._on_open, self._on_close)

    async def _accept_backlog(self) -> None:
        """Serve clients that have connected already: closing the socket would reset them."""
        if self._backlog is None:
            return
        waiting = []
        with self._backlog as backlog, suppress(OSError):
            backlog.setblocking(False)
            while True:
                waiting.append(backlog.accept()[0])
        for each in waiting:
            each.setblocking(False)
            await self._loop.connect_accepted_socket(self._connection, each)

    def _on_open(self, connection: Connection) -> bool:
        """Count a new connection; return false if it is one too many."""
        self._connections.add(connection)
        return len(self._connections) <= self.service.limits.connections_max

    def _on_close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.service.tick()
            self.service.unread.look()
            for connection in [each for each in self._connections if each.deadline < self.service.now]:
                connection.overdue()
