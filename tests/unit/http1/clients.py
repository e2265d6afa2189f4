"""The HTTP server in this process with small kernel buffers, and clients that read on demand."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from registry.http1.connection import Connection
from registry.http1.messages import Limits
from registry.http1.server import Server
from registry.http1.service import App, FastPath

Run = Callable[[Any], Any]
loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
BUFFER = 64 * 1024


@asynccontextmanager
async def serving(
    app: App, limits: Limits | None = None, fast_path: FastPath = lambda *_: None, **options: Any
) -> AsyncIterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    listener.setblocking(False)
    server = Server(app, limits=limits, fast_path=fast_path, **options)
    await server.start(listener)
    try:
        yield server
    finally:
        await server.stop(0.0)


@asynccontextmanager
async def asking(
    server: Server, request: bytes
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, server.addresses[0])
    reader, writer = await asyncio.open_connection(sock=client, limit=BUFFER)
    writer.write(request)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def behind(server: Server) -> list[Connection]:
    """Return the connections whose clients do not read."""
    return [each for each in server._connections if each.output.behind]
