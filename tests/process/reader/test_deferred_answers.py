"""Answers of the fast path that have to be waited for: their order, and clients that leave meanwhile."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from registry.base.processes.sockets import listen
from registry.http1.messages import Answer, Answered, Client, Later, Request
from registry.http1.server import Server
from tests.support.running import until_async

PING = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


async def _application(scope: Any, receive: Any, send: Any) -> None:
    body = b"application" + scope["raw_path"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


class Waiting:
    """Defers requests for even targets, and answers the odd ones at once."""

    def __init__(self) -> None:
        self.answers: list[Answered] = []

    def fast_path(self, request: Request, client: Client) -> Answer | Later | None:
        if int(request.target[1:]) % 2:
            return Answer(200, b"", b"at once" + request.target)
        return self.answers.append

    async def until_waiting(self, count: int) -> None:
        await until_async(lambda: len(self.answers) >= count, "the request")


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Waiting, Server, asyncio.StreamReader, asyncio.StreamWriter]]:
    waiting = Waiting()
    server = Server(_application, fast_path=waiting.fast_path)
    listener = listen("127.0.0.1", 0, shared=False)
    await server.start(listener)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        yield waiting, server, reader, writer
    finally:
        writer.close()
        await server.stop(1.0)


async def body(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length: "))
    return await reader.readexactly(int(length[16:]))


async def _in_order() -> None:
    async with served() as (waiting, _, reader, writer):
        writer.write(b"".join(PING % number for number in (1, 2, 3, 4)))
        assert await body(reader) == b"at once/1"
        await waiting.until_waiting(1)
        waiting.answers[0](Answer(200, b"", b"later"))
        assert await body(reader) == b"later"
        assert await body(reader) == b"at once/3"
        await waiting.until_waiting(2)
        waiting.answers[1](None)
        assert await body(reader) == b"application/4"


def test_answers_keep_the_order_of_the_requests() -> None:
    asyncio.run(asyncio.wait_for(_in_order(), 10))


async def _gone() -> None:
    async with served() as (waiting, server, _, writer):
        writer.write(PING % 2)
        await waiting.until_waiting(1)
        linger = struct.pack("ii", 1, 0)  # A reset: after an orderly end it would still wait for the answer.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        await until_async(lambda: not server.connections, "the connection to end")
        waiting.answers[0](Answer(200, b"", b"later"))


def test_an_answer_for_a_client_that_has_gone_is_dropped() -> None:
    asyncio.run(asyncio.wait_for(_gone(), 10))


async def _stopping() -> None:
    async with served() as (waiting, server, reader, writer):
        writer.write(PING % 2)
        await waiting.until_waiting(1)
        stopping = asyncio.ensure_future(server.stop(5.0))
        await until_async(lambda: server.service.stopping, "the stop to begin")
        waiting.answers[0](Answer(200, b"", b"later"))
        assert await body(reader) == b"later"
        assert await reader.read() == b""
        await stopping


def test_a_stopping_server_waits_for_it() -> None:
    asyncio.run(asyncio.wait_for(_stopping(), 10))
