"""Connections of peers by hypercorn: limited, authenticated soon, and adapted to how peers use HTTP/2.

Any host that can reach the peer port may connect, and must prove soon that it is a peer: by a signed request
with a time, or the greeting of a stream. A request for the identity is no proof, because it has no time and
may be a replay. Until the proof, a connection holds one of few slots. A new connection takes the oldest
one's slot, so attackers cannot keep peers out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, Updated

from registry.base.processes import tls_connections
from registry.base.processes.tls_connections import CertifiedConnections, Handshakes, certificate_of

# Serves one connection until it ends.
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_LOOK_EVERY_S = 0.25
_log = logging.getLogger(__name__)


class Tls(tls_connections.Tls, tls_connections.Verifier, Protocol):
    """The certificate of the listener, and what it knows of those of its clients."""


class LimitedListener:
    """Accepts at most ``connections_max`` connections at a time for ``serve``; others are closed at once."""

    def __init__(self, serve: Serve, *, connections_max: int) -> None:
        self._serve = serve
        self._connections_max = connections_max
        self._connections: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._handshakes: Handshakes | None = None
        self._tls: Tls | None = None
        self._certified = CertifiedConnections()
        self._clock: asyncio.TimerHandle | None = None
        self._stopped = False

    async def start(
        self,
        listener: socket.socket,
        *,
        backlog: int,
        tls: Tls | None = None,
        handshake_s: float = 60.0,
    ) -> None:
        """Accept connections on ``listener``, a bound socket; ``handshake_s`` limits the TLS handshake."""
        if tls is None:
            self._listener = await asyncio.start_server(self._accept, sock=listener, backlog=backlog)
            return
        self._tls = tls
        self._look()
        listener.listen(backlog)
        self._handshakes = Handshakes(timeout_s=handshake_s, has_room=self._has_room)
        self._handshakes.listen(listener, tls, self._streams)

    def _look(self) -> None:
        """End connections whose certificates no longer count, now and again."""
        self._certified.look()
        self._clock = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self._look)

    def _streams(self) -> asyncio.StreamReaderProtocol:
        """Return the protocol of a connection, as :func:`asyncio.start_server` makes it."""
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._accept)

    def _has_room(self) -> bool:
        handshakes = 0 if self._handshakes is None else len(self._handshakes)
        return len(self._connections) + handshakes < self._connections_max

    def refuse(self) -> None:
        """Accept no more connections; open ones continue."""
        self._stopped = True
        if self._clock is not None:
            self._clock.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._handshakes is not None:
            self._handshakes.close()

    async def end(self, grace_s: float) -> None:
        """Give open connections ``grace_s`` to end, then abort the rest."""
        if self._handshakes is not None:
            await self._handshakes.abort()
        if self._connections:
            _, late = await asyncio.wait(self._connections, timeout=grace_s)
            for connection in late:
                connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= self._connections_max or self._stopped:
            writer.close()
            return
        self._connections.add(task)
        try:
            certificate = None if self._tls is None else certificate_of(writer.transport, self._tls)
            if certificate is not None:
                self._certified.add(task, certificate, writer.transport.abort)
            await self._serve(reader, writer)
        except asyncio.CancelledError:  # Only by end(); asyncio's streams would log it as an error.
            return
        except Exception as error:
            # A fault or loss of the peer; the application logs its own failures.
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            _log.warning("dropped a peer's connection: %r", cause)
        finally:
            self._connections.discard(task)
            self._certified.forget(task)
            writer.transport.abort()


UNAUTHENTICATED_MAX = 100
# More than a peer needs: two time-outs (CONNECT_S) lie between connecting and the proof.
AUTHENTICATE_WITHIN_S = 5.0


class UnauthenticatedConnection:
    """A connection that :meth:`UnauthenticatedConnections.add` has registered."""

    def __init__(self, unauthenticated: UnauthenticatedConnections, end: Callable[[], None]) -> None:
        self._unauthenticated = unauthenticated
        # Closes the connection.
        self.end = end

    def release(self) -> None:
        """Release the slot: the connection has proved that it is a peer's, or was closed."""
        self._unauthenticated.remove(self)


class UnauthenticatedConnections:
    """The slots; used on one event loop."""

    def __init__(self, count_max: int = UNAUTHENTICATED_MAX, within_s: float = AUTHENTICATE_WITHIN_S) -> None:
        self._count_max = count_max
        self._within_s = within_s
        self._timers: dict[UnauthenticatedConnection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Return how many slots are taken."""
        return len(self._timers)

    def add(self, end: Callable[[], None]) -> UnauthenticatedConnection:
        """Register a new connection; ``end`` is called when its time or its slot is up."""
        if len(self._timers) >= self._count_max:
            self._close(next(iter(self._timers)))
        connection = UnauthenticatedConnection(self, end)
        timer = asyncio.get_running_loop().call_later(self._within_s, self._close, connection)
        self._timers[connection] = timer
        return connection

    def remove(self, connection: UnauthenticatedConnection) -> None:
        """Release the connection's slot, if it still has one."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _close(self, connection: UnauthenticatedConnection) -> None:
        self.remove(connection)
        connection.end()


_HEADER_BYTES_MAX = 16 * 1024
_IDLE_S = 60.0


class Http2Server:
    """Serves the ASGI applications of connections that were accepted elsewhere."""

    def __init__(self) -> None:
        self._context = WorkerContext(None)
        self._config = _make_config()

    async def serve(
        self, app: Any, begun: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection until it ends; ``begun`` are the bytes that were read from it before."""
        if writer.get_extra_info("socket") is None:
            return  # The peer has gone before its connection is served, and TLS has let go of the socket.
        loop = asyncio.get_running_loop()
        whole = cast("Any", _BegunReader(begun, reader))
        await _Connection(ASGIWrapper(app), loop, self._config, self._context, {}, whole, writer)

    async def end(self) -> None:
        """Have connections end when their requests are answered."""
        await self._context.terminated.set()


class _Connection(TCPServer):
    """Hypercorn's connection, without an idle timer for a client that has disconnected."""

    _ended = False

    async def protocol_send(self, event: Event) -> None:
        """Send data, or handle that the connection is idle."""
        if not (self._ended and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _read_data(self) -> None:
        try:
            await super()._read_data()
        finally:
            self._ended = True
            await self.idle_task.stop()


class _BegunReader:
    """A stream reader for hypercorn that returns bytes that were read before, then the rest."""

    def __init__(self, begun: bytes, reader: asyncio.StreamReader) -> None:
        self._begun = begun
        self._reader = reader

    def at_eof(self) -> bool:
        """Return True at the end of the stream."""
        return not self._begun and self._reader.at_eof()

    async def read(self, count: int) -> bytes:
        """Return the next bytes."""
        begun, self._begun = self._begun, b""
        return begun or await self._reader.read(count)


async def read_body(receive: Any, limit: int) -> bytes | None:
    """Return the body of a request; ``None`` if it is too large or the client has gone."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts) if size <= limit else None


async def wait_for_disconnect(receive: Any) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _make_config() -> Config:
    config = Config()
    config.errorlog = logging.getLogger("registry.hypercorn")
    config.include_server_header = config.include_date_header = False
    config.h11_max_incomplete_size = config.h2_max_header_list_size = _HEADER_BYTES_MAX
    config.h2_max_inbound_frame_size = 2**20
    config.keep_alive_timeout = _IDLE_S
    config.keep_alive_max_requests = sys.maxsize
    return config
