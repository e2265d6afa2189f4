"""A server that stops still serves clients that the kernel has accepted but it has not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from registry.http1.server import Server


async def app(
    scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def stop_while_somebody_connects() -> bytes:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    server = Server(app)
    await server.start(listener)
    address = server.addresses[0]
    with socket.create_connection(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        # The loop has not run since, so this connection was not accepted yet.
        await server.stop(5.0)
        client.settimeout(5.0)
        return client.recv(1000)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_who_has_connected_is_served(run: Callable[[Any], bytes]) -> None:
    answer = run(stop_while_somebody_connects())
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer
