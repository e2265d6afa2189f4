"""Bounds on what one client, and all together, can make the HTTP server hold."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from registry.http1.connection import Connection
from registry.http1.messages import Limits
from registry.http1.output import Unread
from registry.http1.server import Server
from tests.support.running import until_async
from tests.unit.http1.clients import Run, asking, behind, head, loops, serving

ANSWER = bytes(4_000_000)
LIMITS = Limits(header_bytes_max=20_000, body_bytes_max=2_000_000, unread_bytes_max=9_000_000)
POST = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Echo:
    """Answers with the request's body, and remembers the headers of each request."""

    def __init__(self) -> None:
        self.headers: list[list[tuple[bytes, bytes]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.headers.append(scope["headers"])
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answers with more than the kernel buffers for a client that does not read."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": ANSWER})


async def answered(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return status and body of the next answer."""
    lines = (await head(reader)).split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    return int(lines[0].split()[1]), await reader.readexactly(length)


async def refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, piece: bytes) -> int:
    """Return the status after sending ``piece`` repeatedly."""
    reply = asyncio.create_task(answered(reader))
    while not reply.done():
        writer.write(piece)
        await asyncio.wait({reply, asyncio.create_task(writer.drain())}, return_when="FIRST_COMPLETED")
        await asyncio.wait({reply}, timeout=0.001)
    return (await reply)[0]


def acknowledged(connection: Connection, left: int) -> bool:
    return connection.output.outstanding() <= left


def received(server: Server, size: int) -> bool:
    return sum(each._reader.parser.body_bytes for each in server._connections) == size


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Disable the collector of cycles: what is freed is freed because nothing refers to it."""
    gc.disable()
    yield
    gc.enable()


@loops
def test_trailers_are_no_headers(run: Run) -> None:
    async def main() -> None:
        app = Echo()
        async with serving(app, LIMITS) as server, asking(server, POST) as (reader, writer):
            writer.write(b"2\r\nab\r\n0\r\nHost: b\r\nX-Request-Id: c\r\n\r\n" + GET)
            assert await answered(reader) == (200, b"ab")
            assert app.headers[0] == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]
            assert await answered(reader) == (200, b"")

    run(main())


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (b"0\r\nX: ", b"y" * 9000),
        (b"0\r\n", b"X: y\r\n" * 500),
        (b"", b"1;note=%s\r\na\r\n" % (b"n" * 500) * 10),
        (b"", b"2\r\nab\r\n" * 1000),
        (b"2\r\nab\r\n0\r\nX", b"y" * 9000),
    ],
    ids=["a trailer's value", "trailers", "extensions", "tiny chunks", "a trailer's name"],
)
@loops
def test_what_frames_a_body_is_bounded(run: Run, before: bytes, piece: bytes) -> None:
    async def main() -> None:
        async with serving(Echo(), LIMITS) as server:
            async with asking(server, POST + before) as (reader, writer):
                assert await refused(reader, writer, piece) == 413
            await until_async(lambda: not server.connections, "the connection to be closed")
            assert server.service.intake.size == 0

    run(main())


@loops
def test_small_chunks_are_joined(run: Run) -> None:
    async def main() -> None:
        chunks = b"".join(b"2\r\n%02d\r\n" % (number % 100) for number in range(3000))
        expected = b"".join(b"%02d" % (number % 100) for number in range(3000))
        request = POST + chunks + b"0\r\n\r\n" + GET
        async with serving(Echo(), LIMITS) as server, asking(server, request) as (reader, _):
            assert await answered(reader) == (200, expected)
            assert await answered(reader) == (200, b"")

    run(main())


@loops
def test_a_closed_connection_is_freed_at_once(run: Run, uncollected: None) -> None:
    async def main() -> None:
        async with serving(Echo(), LIMITS) as server:
            async with asking(server, POST + b"2\r\nab\r\n0\r\nX: " + b"y" * 9000):
                await until_async(lambda: received(server, 2), "the request")
                held = weakref.ref(next(iter(server._connections)))
            await until_async(lambda: held() is None, "the connection to be freed")

    run(main())


@loops
def test_only_an_open_head_counts_as_one(run: Run) -> None:
    """Neither the body before it nor the requests sent ahead are kept."""

    async def main() -> None:
        body = b"b" * 1_500_000
        post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        requests = (post + GET * 3000) * 2
        async with serving(Echo(), LIMITS) as server, asking(server, requests) as (reader, _):
            for _ in range(2):
                assert await answered(reader) == (200, body)
                for _ in range(3000):
                    assert await answered(reader) == (200, b"")

    run(main())


@loops
def test_what_is_sent_ahead_stays_unparsed(run: Run) -> None:
    async def main() -> None:
        async with serving(large, LIMITS) as server, asking(server, GET * 5000) as (reader, _):
            await head(reader)
            await until_async(lambda: behind(server), "the client to be behind")
            (connection,) = behind(server)
            assert len(connection._reader.requests) < 60

    run(main())


class Slow:
    """A client as the bound on unread answers sees it."""

    def __init__(self) -> None:
        self.left = len(ANSWER)
        self.dropped = False

    def unread_bytes(self) -> int:
        return len(ANSWER)

    def outstanding(self) -> int:
        return self.left

    def abort(self) -> None:
        self.dropped = True


def test_those_who_have_not_read_for_longest_are_dropped() -> None:
    """Without connections, of which the kernel decides when it takes something more."""
    unread = Unread(LIMITS.unread_bytes_max)
    first, second, third = Slow(), Slow(), Slow()
    unread.hold(first)
    unread.hold(second)
    first.left -= 1
    unread.look()
    unread.hold(third)
    assert [each.dropped for each in (first, second, third)] == [False, True, False]
    assert unread.size == 2 * len(ANSWER)
    unread.release(first)
    unread.release(third)
    assert unread.size == 0


@loops
def test_unread_answers_of_all_clients_have_one_bound(run: Run) -> None:
    async def main() -> None:
        async with serving(large, LIMITS) as server, contextlib.AsyncExitStack() as stack:
            for _ in range(8):
                await stack.enter_async_context(asking(server, GET))
            await until_async(lambda: server.connections == 2, "all but two to be dropped")
            assert server.service.unread.size <= LIMITS.unread_bytes_max

    run(main())


@loops
def test_a_client_that_reads_gets_more_time_and_another_not(run: Run) -> None:
    async def main() -> None:
        limits = Limits(rate_bytes_min=10_000, body_timeout_s=30.0)
        async with serving(Echo(), limits) as server, asking(server, GET) as (reader, _):
            await head(reader)
            (connection,) = server._connections
            connection.output.write(ANSWER)
            await until_async(lambda: behind(server), "the client to be behind")
            for left in (3_100_000, 2_200_000, 1_300_000):
                await reader.readexactly(900_000)
                await until_async(partial(acknowledged, connection, left), "acknowledgements")
                connection.deadline = 0.0
                connection.overdue()
                assert connection.deadline > server.service.now
            connection.overdue()
            connection.overdue()
            await until_async(lambda: connection.closed, "the client to be dropped")

    run(main())


@loops
def test_a_body_that_arrives_slowly_gets_more_time_and_one_that_stops_not(run: Run) -> None:
    async def main() -> None:
        async with serving(Echo(), Limits(rate_bytes_min=1000, body_timeout_s=30.0)) as server:
            request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"
            async with asking(server, request) as (reader, writer):
                await until_async(lambda: server.connections, "the connection")
                (connection,) = server._connections
                for sent in (40_000, 80_000, 120_000):
                    writer.write(b"x" * 40_000)
                    await until_async(partial(received, server, sent), "a part")
                    connection.deadline = 0.0
                    connection.overdue()
                    assert connection.deadline > server.service.now
                writer.write(b"x" * 20_000)
                await until_async(lambda: received(server, 140_000), "too small a part")
                connection.overdue()
                assert (await answered(reader))[0] == 408

    run(main())


# Ways to mark the end of a body that another server may read differently (RFC 9112, 6.1 and 6.3).
FRAMINGS = {
    "Transfer-Encoding: gzip, chunked": 501,
    "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked": 501,
    "Transfer-Encoding: identity, chunked": 501,
    "Transfer-Encoding: gzip": 400,
    "Transfer-Encoding: identity": 400,
    "Transfer-Encoding: xchunked": 400,
    "Transfer-Encoding: chunked, gzip": 400,
    "Transfer-Encoding: chunked, chunked": 400,
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked": 400,
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity": 400,
    "Transfer-Encoding: chunked;q=1": 400,
    'Transfer-Encoding: "chunked"': 400,
    "Transfer-Encoding:": 400,
    "Transfer-Encoding : chunked": 400,
    "Transfer-Encoding:\x0bchunked": 400,
    "Transfer-Encoding: chunked\x0b": 400,
    "Transfer-Encoding:\r\n chunked": 400,
    "X: a\nTransfer-Encoding: chunked": 400,
    "Transfer-Encoding: chunked\r\nContent-Length: 3": 400,
    "Content-Length: 3\r\nTransfer-Encoding: chunked": 400,
    "Content-Length: 3\r\nTransfer-Encoding: identity": 400,
    "Content-Length: 3\r\nContent-Length: 4": 400,
    "Content-Length: 3, 4": 400,
    "Content-Length: +3": 400,
    "Content-Length: -3": 400,
    "Content-Length: 0x3": 400,
    "Content-Length: 3 3": 400,
    "Content-Length:": 400,
    "Content-Length: 99999999999999999999999": 400,
}


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("framing", [*FRAMINGS, "Transfer-Encoding: chunked"])
def test_no_request_hides_behind_an_odd_framing(framing: str, version: str) -> None:
    async def main() -> None:
        head = f"POST / HTTP/{version}\r\nHost: x\r\nConnection: keep-alive\r\n{framing}\r\n\r\n"
        request = head.encode() + b"3\r\nabc\r\n0\r\n\r\n" + GET
        async with serving(Echo(), LIMITS) as server, asking(server, request) as (reader, _):
            if framing not in FRAMINGS and version == "1.1":
                assert await answered(reader) == (200, b"abc")
                assert await answered(reader) == (200, b"")
                return
            assert (await answered(reader))[0] == (FRAMINGS[framing] if version == "1.1" else 400)
            assert await reader.read() == b""

    asyncio.run(main())
