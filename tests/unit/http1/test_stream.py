"""Streamed answers of the HTTP server: framing, backpressure, and clients that disconnect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from registry.api.admission import Entrance
from registry.api.app import Gateway
from registry.api.browsers import Cors, PageGuard, ResponseHeaders
from registry.base.observe.metrics import Served
from registry.http1.server import Server
from registry.security.client_address import TrustedProxies
from registry.security.gate import OPEN_GATE
from tests.support.running import until_async
from tests.unit.http1.clients import BUFFER, Run, asking, behind, head, loops, serving

SLICE = b"x" * 50_000
# More than the buffers of the kernel and the server together; less than the answers here.
UNREAD_MAX = 1 << 20


class Producer:
    """Streams ``count`` slices; ``sent`` is how many were accepted, ``error`` what ended it early."""

    def __init__(self, count: int, piece: bytes = SLICE) -> None:
        self.count = count
        self.piece = piece
        self.sent = 0
        self.error: BaseException | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(self.count):
                await self.go.wait()
                await send({"type": "http.response.body", "body": self.piece, "more_body": True})
                self.sent += 1
            await send({"type": "http.response.body", "body": b""})
        except BaseException as error:
            self.error = error
            raise


def get(version: str = "1.1") -> bytes:
    return f"GET / HTTP/{version}\r\nHost: a\r\n\r\n".encode()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while part := await reader.read(BUFFER):
        parts.append(part)
    return b"".join(parts)


async def chunked(reader: asyncio.StreamReader) -> list[bytes]:
    chunks = []
    while size := int(await reader.readline(), 16):
        chunks.append(await reader.readexactly(size))
        assert await reader.readexactly(2) == b"\r\n"
    assert await reader.readexactly(2) == b"\r\n"
    return chunks


@loops
def test_a_streamed_answer_is_chunked_and_the_connection_goes_on(run: Run) -> None:
    async def main() -> None:
        app = Producer(3)
        async with serving(app) as server, asking(server, get() * 2) as (reader, _):
            for _ in range(2):
                lines = await head(reader)
                assert b"transfer-encoding: chunked" in lines
                assert b"content-length" not in lines
                assert await chunked(reader) == [SLICE] * 3

    run(main())


@loops
def test_a_client_that_was_waited_for_in_one_request_is_not_gone_in_the_next(run: Run) -> None:
    async def main() -> None:
        went: list[bool] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()  # The body.
            gone = asyncio.ensure_future(receive())
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(turn.set_result, None)
            await turn
            went.append(gone.done())
            gone.cancel()
            await asyncio.wait((gone,))
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": SLICE})

        async with serving(app) as server, asking(server, get() * 3) as (reader, _):
            for _ in range(3):
                await head(reader)
                assert await reader.readexactly(len(SLICE)) == SLICE
        assert went == [False] * 3

    run(main())


@loops
def test_a_streamed_answer_ends_with_the_connection_for_old_clients(run: Run) -> None:
    async def main() -> None:
        async with serving(Producer(3)) as server, asking(server, get("1.0")) as (reader, _):
            lines = await head(reader)
            assert b"connection: close" in lines
            assert b"transfer-encoding" not in lines
            assert await read_all(reader) == SLICE * 3

    run(main())


@loops
def test_a_producer_waits_for_a_client_that_does_not_read(run: Run) -> None:
    async def main() -> None:
        app = Producer(1000)
        async with serving(app) as server, asking(server, get()) as (reader, _):
            await head(reader)
            await until_async(lambda: held(server), "the client to be behind")
            assert app.sent * len(SLICE) < UNREAD_MAX
            assert len(b"".join(await chunked(reader))) == 1000 * len(SLICE)
            assert app.sent == 1000

    run(main())


@loops
def test_a_large_answer_given_at_once_is_written_as_it_is_read(run: Run) -> None:
    async def main() -> None:
        body = bytes(range(256)) * 40_000

        async def app(scope: Any, receive: Any, send: Any) -> None:
            length = (b"content-length", b"%d" % len(body))
            await send({"type": "http.response.start", "status": 200, "headers": [length]})
            await send({"type": "http.response.body", "body": body})

        async with serving(app) as server, asking(server, get() * 2) as (reader, _):
            for _ in range(2):
                await head(reader)
                await until_async(lambda: held(server), "the client to be behind")
                assert held(server) < UNREAD_MAX
                assert await reader.readexactly(len(body)) == body

    run(main())


@loops
def test_a_client_that_goes_ends_a_producer_that_waits_for_it(run: Run) -> None:
    async def main() -> None:
        app = Producer(1000)
        async with serving(app) as server:
            async with asking(server, get()) as (reader, _):
                await head(reader)
                await until_async(lambda: held(server), "the client to be behind")
            await until_async(lambda: app.error, "the producer to end")
            assert isinstance(app.error, OSError)
            await until_async(lambda: not server.connections, "the connection to be closed")

    run(main())


@loops
def test_a_client_that_goes_ends_a_producer_that_does_not_wait_for_it(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    class Applied:
        def applied(self) -> int:
            return 7

    async def main() -> None:
        producer = Producer(1_000_000, b"little")
        app: Any = Gateway(
            producer,
            backend=Applied(),  # type: ignore[arg-type]
            cors=Cors(()),
            guard=PageGuard(),
            extra=ResponseHeaders(),
            entrance=Entrance(OPEN_GATE, open_paths=True),
            proxies=TrustedProxies(),
            audit=None,
        )
        async with serving(app) as server:
            async with asking(server, get()) as (reader, _):
                await head(reader)
            await until_async(lambda: producer.error, "the producer to end")
            assert producer.sent < producer.count
            await until_async(lambda: not server.connections, "the connection to be closed")

    run(main())
    assert not caplog.records


def held(server: Server) -> int:
    """Return the bytes buffered in the server for a client that is behind; 0 if none is."""
    return sum(each._transport.get_write_buffer_size() for each in behind(server))


@loops
@pytest.mark.parametrize("lasting", [True, False])
def test_the_time_of_a_lasting_answer_ends_where_it_begins(run: Run, lasting: bool) -> None:
    async def scenario() -> None:
        served: list[Served] = []
        go = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [], "lasting": lasting})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            await go.wait()
            await send({"type": "http.response.body", "body": b""})

        began = time.perf_counter()
        async with serving(app, observe=served.append) as server, asking(server, get()) as (reader, _):
            await head(reader)
            seconds = time.perf_counter() - began
            await until_async(lambda: time.perf_counter() - began > 2 * seconds, "time to pass")
            go.set()
            await until_async(lambda: served, "the answer to be counted")
        assert (served[0].seconds < seconds) is lasting
        assert served[0].size == 3

    run(scenario())
