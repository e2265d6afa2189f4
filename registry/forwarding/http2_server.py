"""Connections of peers that speak HTTP/2: hypercorn's, adapted to how peers use them."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, Updated

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


async def gone(receive: Any) -> None:
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
