"""Listening, the deadlines of all connections, and the orderly stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from registry.base.processes.tls_connections import CertifiedConnections, Handshakes

from .connection import Connection
from .messages import Limits
from .service import App, CommonHeaders, Details, Endpoint, FastPath, Observe, Service, Tls

_TICK_S = 0.25
# After a fault all clients of a node can come at once; the kernel shortens this to its own maximum.
_BACKLOG = 16_384


class _Listener(NamedTuple):
    endpoint: Endpoint
    tls: Tls | None
    connection: Callable[[], Connection]
    # A duplicate of the listening socket, for connections that the kernel has accepted and this process
    # has not.
    backlog: socket.socket
    server: asyncio.Server | None


class Server:
    """Serves an ASGI application; ``fast_path`` is asked first and may answer instead of it.

    The application adds the ``common_headers`` to its answers itself; the server adds them to its refusals.
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits | None = None,
        fast_path: FastPath = lambda *_: None,
        observe: Observe = lambda *_: None,
        details_of: Callable[[Mapping[str, Any]], Details] = lambda _: ("", b"", "", ""),
        common_headers: CommonHeaders = lambda _: (),
    ) -> None:
        self.service = Service(app, limits or Limits(), fast_path, observe, details_of, common_headers)
        self._loop = self.service.loop
        self._connections: set[Connection] = set()
        self._certified = CertifiedConnections()
        self._listeners: list[_Listener] = []
        self._handshakes = Handshakes(
            timeout_s=self.service.limits.header_timeout_s, has_room=self._has_room, on_end=self._note_end
        )
        self._empty = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None

    @property
    def connections(self) -> int:
        """The number of open connections and of TLS handshakes in progress."""
        return len(self._connections) + len(self._handshakes)

    @property
    def addresses(self) -> list[tuple[str, int] | None]:
        """The addresses on which the server listens; ``None`` for one that is not an IP address."""
        return [each.endpoint.address for each in self._listeners]

    async def start(self, listener: socket.socket, tls: Tls | None = None) -> None:
        """Serve what connects to ``listener``, a bound socket; may be called for several of them."""
        name = listener.getsockname()
        address = (name[0], name[1]) if isinstance(name, tuple) else None
        endpoint = Endpoint(address, tls)
        connection = partial(Connection, self.service, endpoint, self._on_open, self._on_close)
        self._clock = self._clock or self._loop.create_task(self._watch())
        backlog, server = listener.dup(), None
        if tls is None:
            server = await self._loop.create_server(connection, sock=listener, backlog=_BACKLOG)
        else:
            listener.listen(_BACKLOG)
            self._handshakes.listen(listener, tls, connection)
        self._listeners.append(_Listener(endpoint, tls, connection, backlog, server))

    async def stop(self, grace_s: float) -> None:
        """Accept no more connections, finish requests in flight for up to ``grace_s``, then drop the rest."""
        self.service.stopping = True
        for listener in self._listeners:
            if listener.server is not None:
                listener.server.close()
        self._handshakes.close()
        for connection in list(self._connections):
            connection.stop()
        for listener in self._listeners:
            await self._accept_backlog(listener)
        if self.connections:
            self._empty.clear()
            try:
                async with asyncio.timeout(grace_s):
                    await self._empty.wait()
            except TimeoutError:
                await self._handshakes.abort()
                for connection in list(self._connections):
                    connection.output.abort()
        if self._clock is not None:
            self._clock.cancel()

    async def _accept_backlog(self, listener: _Listener) -> None:
        """Serve clients that have connected already: closing the socket would reset them."""
        waiting = []
        with listener.backlog as backlog, suppress(OSError):
            backlog.setblocking(False)
            while True:
                waiting.append(backlog.accept()[0])
        for each in waiting:
            each.setblocking(False)
            if listener.tls is None:
                await self._loop.connect_accepted_socket(listener.connection, each)
            else:
                self._handshakes.begin(each, listener.tls, listener.connection())

    def _has_room(self) -> bool:
        return self.connections < self.service.limits.connections_max

    def _on_open(self, connection: Connection) -> bool:
        """Count a new connection; return false if it is one too many."""
        self._handshakes.mark_opened(connection)
        self._connections.add(connection)
        if connection.certificate is not None:
            self._certified.add(connection, connection.certificate, connection.withdraw)
        return self.connections <= self.service.limits.connections_max

    def _on_close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._certified.forget(connection)
        self._note_end()

    def _note_end(self) -> None:
        if not self.connections:
            self._empty.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.service.tick()
            self.service.unread.look()
            self._certified.look()
            for connection in [each for each in self._connections if each.deadline < self.service.now]:
                connection.overdue()
