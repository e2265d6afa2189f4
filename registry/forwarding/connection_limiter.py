"""A listener for hypercorn with a limit on connections and a graceful shutdown, which its ``serve`` lacks."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from registry.base.processes import client_certificates, handshakes
from registry.base.processes.client_certificates import CertifiedConnections, certificate_of
from registry.base.processes.handshakes import Handshakes

# Serves one connection until it ends.
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_LOOK_EVERY_S = 0.25
_log = logging.getLogger(__name__)


class Tls(handshakes.Tls, client_certificates.Verifier, Protocol):
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
                self._certified.opened(task, certificate, writer.transport.abort)
            await self._serve(reader, writer)
        except asyncio.CancelledError:  # Only by end(); asyncio's streams would log it as an error.
            return
        except Exception as error:
            # A fault or loss of the peer; the application logs its own failures.
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            _log.warning("dropped a peer's connection: %r", cause)
        finally:
            self._connections.discard(task)
            self._certified.closed(task)
            writer.transport.abort()
