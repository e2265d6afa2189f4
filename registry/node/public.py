"""The public port of a node without readers: hypercorn, in the node's own event loop.

Hypercorn reads and writes HTTP (1.0 and 1.1, and 2 where a client offers it), the application bounds bodies,
:mod:`.exchange` stands between them. Hypercorn's connections are used without its ``serve``, which knows no
limit of their number and keeps those whose client has gone open until their idle time is over.

It differs from the readers' own server (:mod:`registry.http1`) so: what is no HTTP at all is refused without
a body and not counted; HTTP/1.0 connections end with their answer; HTTP/2 is spoken where it is offered; the
idle time-out holds for headers too; late headers and a connection too many are closed without an answer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Awaitable
from typing import Any, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from starlette.types import ASGIApp

from registry.accepting import Accepting
from registry.config import Settings
from registry.http1.limits import Limits
from registry.observe.observed import Observed

from .exchange import GONE, Border, Standing

_LIMITS = Limits()
_BACKLOG = 1024
_READ_BYTES = 65536


class Public:
    """Serves ``app`` until it is stopped."""

    def __init__(self, app: ASGIApp, settings: Settings, *, observed: Observed, standing: Standing) -> None:
        self._settings = settings
        self._config = _configured(settings)
        self._context = WorkerContext(None)
        terminated = self._context.terminated.is_set
        border = Border(app, observed=observed, standing=standing, stopping=terminated)
        self._app = ASGIWrapper(cast("Any", border))
        self._accepting = Accepting(
            self._connected, connections_max=settings.connections_max, whose="a client's"
        )

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._accepting)

    async def start(self, listener: socket.socket) -> None:
        """Serve what connects to ``listener``, a bound socket."""
        await self._accepting.start(listener, backlog=_BACKLOG)

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, finish what is under way for at most ``grace_s``, then drop the rest."""
        self._accepting.refuse()
        await self._context.terminated.set()
        await self._accepting.end(grace_s)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        GONE.set(writer.transport.is_closing)
        await _Connection(
            self._app, asyncio.get_running_loop(), self._config, self._context, {}, reader, writer
        ).limited(self._settings.body_timeout_s)


class _Connection(TCPServer):
    """Hypercorn's connection, which ends when its client has gone and waits for nobody without a limit."""

    _timeout_s: float
    _reading: asyncio.Task[Any] | None
    _ended = False

    async def limited(self, timeout_s: float) -> None:
        """Serve; ``timeout_s`` is how long the client may leave an answer unread."""
        self._timeout_s = timeout_s
        self._reading = asyncio.current_task()
        await self.run()

    async def protocol_send(self, event: Event) -> None:
        """Send, or hear that the connection is idle: then nothing will come any more from one that ended."""
        if self._ended and isinstance(event, Updated) and event.idle:
            return
        await self._or_abort(super().protocol_send(event))

    async def _read_data(self) -> None:
        await super()._read_data()
        self._ended = True
        await self.idle_task.stop()

    async def _close(self) -> None:
        if asyncio.current_task() is self._reading and not self.reader.at_eof():
            await self._linger()
        await self._or_abort(super()._close())

    async def _linger(self) -> None:
        """Throw away what a refused client still sends: closing at once would lose the refusal."""
        try:
            self.writer.write_eof()
            async with asyncio.timeout(_LIMITS.linger_timeout_s):
                while await self.reader.read(_READ_BYTES):
                    pass
        except (OSError, RuntimeError):  # gone, or too slow (TimeoutError is an OSError)
            return

    async def _or_abort(self, waiting: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await waiting
        except TimeoutError:
            self.writer.transport.abort()


def _configured(settings: Settings) -> Config:
    config = Config()
    config.errorlog = logging.getLogger("registry.hypercorn")
    config.include_server_header = False
    config.h11_max_incomplete_size = config.h2_max_header_list_size = _LIMITS.header_bytes_max
    config.keep_alive_timeout = settings.idle_timeout_s
    config.keep_alive_max_requests = sys.maxsize
    return config
