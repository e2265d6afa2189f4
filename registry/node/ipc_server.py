"""Server for the readers of a host, on a unix socket.

It listens from before the node is ready until the process ends. The service behind it is swapped once: from
the one that answers while the node starts (:mod:`.startup_endpoint`) to the node's (:mod:`.node_service`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from registry.ipc.messages import Framed, FromReader, Submit, decode_from_reader

_log = logging.getLogger(__name__)


class Session(Protocol):
    """A service's side of the connection of one reader."""

    def on_message(self, message: FromReader) -> None:
        """Handle a message from the reader."""
        ...

    def close(self) -> Sequence[Submit]:
        """End the session, because the reader has disconnected or the service was swapped.

        Return the writes that were held; the next service, if any, decides them.
        """
        ...


class Service(Protocol):
    """Handler of the requests of readers."""

    def open_session(self, connection: ReaderConnection) -> Session:
        """Begin to serve a reader and send it the current state."""
        ...


class IpcServer:
    """Accepts connections of readers and passes their messages to ``service``."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.connections: set[ReaderConnection] = set()
        self._server: asyncio.AbstractServer | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, path: Path) -> None:
        """Listen on the unix socket ``path``, unless the server already does. Raises :class:`OSError`.

        The socket's directory must be accessible to this user only.
        """
        if self._server is None:
            path.unlink(missing_ok=True)  # noqa: ASYNC240 (once, before anything is served)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(lambda: ReaderConnection(self), str(path))

    def swap(self, service: Service) -> None:
        """Have ``service`` serve all connections from now on, and decide the writes held so far."""
        self.service = service
        for connection in tuple(self.connections):
            connection.swap(service)

    def joined(self, connection: ReaderConnection) -> None:
        """Register a reader that has connected."""
        self.connections.add(connection)
        self._idle.clear()

    def left(self, connection: ReaderConnection) -> None:
        """Remove a reader that has disconnected."""
        self.connections.discard(connection)
        if not self.connections:
            self._idle.set()

    async def drained(self, timeout_s: float) -> None:
        """Wait until all readers have disconnected, which they do when they have finished."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            _log.warning(
                "%d readers did not finish in time; closing their connections", len(self.connections)
            )

    def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.transport.close()


class ReaderConnection(Framed):
    """Connection of one reader."""

    def __init__(self, server: IpcServer) -> None:
        super().__init__()
        self._server = server
        self._session: Session

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the reader and open its session."""
        super().connection_made(transport)
        self._server.joined(self)
        self._session = self._server.service.open_session(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the session; writes that it held were not started, so they are dropped."""
        self._server.left(self)
        self._session.close()

    def on_message(self, message: bytes) -> None:
        """Pass a message on to the session."""
        self._session.on_message(decode_from_reader(message))

    def swap(self, service: Service) -> None:
        """Replace the session by one of ``service``, which gets the writes that were held."""
        held = self._session.close()
        self._session = service.open_session(self)
        for submit in held:
            self._session.on_message(submit)
