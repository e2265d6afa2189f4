"""Large requests and answers share the HTTP server's memory and its event loop with all others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import Any

import pytest

from registry.http1.inflow import Turns
from registry.http1.messages import Answer, Client, Limits, Request
from tests.support.running import until_async
from tests.unit.http1.clients import Run, asking, head, loops, serving

BODY = b"b" * 1_000_000
# Three quarters are for large bodies: two of them fit.
LIMITS = Limits(bodies_bytes_max=3_000_000, body_bytes_max=2_000_000)


def post(body: bytes, *, sent: int | None = None) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body[:sent])


class Held:
    """Answers only when permitted; ``began`` holds the lengths of the bodies it got."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.go = asyncio.Semaphore(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        self.began.append(len(body))
        if len(body) > 1000:
            await self.go.acquire()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@loops
def test_large_bodies_wait_for_room_and_small_ones_do_not(run: Run) -> None:
    async def main() -> None:
        app = Held()
        async with serving(app, LIMITS) as server, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(asking(server, post(BODY))) for _ in range(5)]
            await until_async(lambda: len(app.began) == 2, "two to be served")
            async with asking(server, post(b"small")) as (reader, _):
                assert (await head(reader)).startswith(b"HTTP/1.1 200")
            assert app.began == [len(BODY), len(BODY), 5]
            assert server.service.intake.size == 2 * len(BODY)
            for served in (3, 4, 5):
                app.go.release()
                await until_async(lambda: app.began.count(len(BODY)) == served, "the next")  # noqa: B023
                assert server.service.intake.size == 2 * len(BODY)
            app.go.release()
            app.go.release()
            for reader, _ in clients:
                assert (await head(reader)).startswith(b"HTTP/1.1 200")
            assert server.service.intake.size == 0

    run(main())


@loops
def test_those_who_go_give_their_room_to_others(run: Run) -> None:
    """Clients leave while they send, while they wait for room, and while they are served."""

    async def main() -> None:
        app = Held()
        async with serving(app, LIMITS) as server, contextlib.AsyncExitStack() as stack:
            async with asking(server, post(BODY, sent=-1)), asking(server, post(BODY)):
                intake = server.service.intake
                await until_async(lambda: app.began and intake.size == 2 * len(BODY), "no room")
                async with asking(server, post(BODY, sent=-1)):
                    await until_async(lambda: server.connections == 3, "one that waits")
                last, _ = await stack.enter_async_context(asking(server, post(BODY)))
            await until_async(lambda: len(app.began) == 2, "the last one to be served")
            assert server.service.intake.size == 2 * len(BODY)
            app.go.release()
            app.go.release()
            assert (await head(last)).startswith(b"HTTP/1.1 200")
            await until_async(lambda: server.service.intake.size == 0, "all to be free")

    run(main())


@loops
def test_who_waits_too_long_for_room_is_refused(run: Run) -> None:
    async def main() -> None:
        app = Held()
        async with serving(app, LIMITS) as server, contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(asking(server, post(BODY)))
            await until_async(lambda: len(app.began) == 2, "no room")
            before = set(server._connections)
            async with asking(server, post(BODY)) as (reader, _):
                await until_async(lambda: server.connections == 3, "the third")
                (third,) = server._connections - before
                await until_async(lambda: third._inflow.waits_for_room, "it to wait")
                third.overdue()
                assert (await head(reader)).startswith(b"HTTP/1.1 503")
            assert not third._inflow.waits_for_room
            app.go.release()
            app.go.release()

    run(main())


@loops
def test_a_body_that_arrives_slowly_gets_no_more_time_when_others_wait_for_its_room(run: Run) -> None:
    async def main() -> None:
        app = Held()
        limits = dataclasses.replace(LIMITS, rate_bytes_min=1, body_timeout_s=30.0)
        async with serving(app, limits) as server, contextlib.AsyncExitStack() as stack:
            fast = await stack.enter_async_context(asking(server, post(BODY)))
            await until_async(lambda: len(app.began) == 1, "one to be served")
            before = set(server._connections)
            slow, writer = await stack.enter_async_context(asking(server, post(BODY, sent=100_000)))
            await until_async(lambda: server.service.intake.size == 2 * len(BODY), "no room")
            (connection,) = server._connections - before
            await until_async(lambda: connection._reader.parser.body_bytes == 100_000, "a part")
            connection.overdue()
            assert connection.deadline > server.service.now, "nobody waits"
            last, _ = await stack.enter_async_context(asking(server, post(BODY)))
            await until_async(lambda: connection._inflow.holds_up_others, "another to wait")
            writer.write(BODY[:100_000])
            await until_async(lambda: connection._reader.parser.body_bytes == 200_000, "another part")
            connection.overdue()
            assert (await head(slow)).startswith(b"HTTP/1.1 408")
            await until_async(lambda: len(app.began) == 2, "the last one to be served")
            app.go.release()
            app.go.release()
            for reader in (fast[0], last):
                assert (await head(reader)).startswith(b"HTTP/1.1 200")

    run(main())


@loops
def test_chunked_bodies_wait_for_the_room_they_may_take(run: Run) -> None:
    async def main() -> None:
        app = Held()
        chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4e20\r\n" + b"c" * 20_000
        async with serving(app, LIMITS) as server, asking(server, chunked) as (reader, writer):
            intake = server.service.intake
            await until_async(lambda: intake.size == LIMITS.body_bytes_max, "the body to be admitted")
            app.go.release()
            writer.write(b"\r\n0\r\n\r\n" + post(b""))
            for _ in range(2):
                assert (await head(reader)).startswith(b"HTTP/1.1 200")
            assert app.began == [20_000, 0]

    run(main())


class Iterations:
    """Counts the iterations of the event loop."""

    def __init__(self) -> None:
        self.now = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._count)

    def _count(self) -> None:
        self.now += 1
        self._next = self._loop.call_soon(self._count)

    def stop(self) -> None:
        self._next.cancel()


@loops
def test_large_answers_are_made_one_after_another(run: Run) -> None:
    async def main() -> None:
        iterations, made = Iterations(), list[int]()

        def fast_path(request: Request, client: Client) -> Answer:
            made.append(iterations.now)
            return Answer(200, b"", bytes(2_000_000))

        get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        async with serving(Held(), fast_path=fast_path) as server, contextlib.AsyncExitStack() as stack:
            async with asking(server, get) as (reader, _):
                await head(reader)
            for _ in range(20):
                await stack.enter_async_context(asking(server, get))
            await until_async(lambda: len(made) == 21, "all to be asked for")
            assert len(set(made)) == 21
        iterations.stop()

    run(main())


@loops
def test_a_turn_moves_so_many_bytes(run: Run) -> None:
    async def main() -> None:
        iterations, taken = Iterations(), list[tuple[str, int]]()
        turns = Turns(asyncio.get_running_loop(), 100)
        for name, size in {"a": 60, "b": 60, "c": 250, "d": 30, "e": 30}.items():
            turns.call(size, lambda name=name: taken.append((name, iterations.now)))  # type: ignore[misc]
        await until_async(lambda: len(taken) == 5, "all turns")
        first = taken[0][1]
        since = [(name, at - first) for name, at in taken]
        assert since == [("a", 0), ("b", 0), ("c", 1), ("d", 2), ("e", 2)]
        iterations.stop()

    run(main())


def test_what_fails_in_its_turn_holds_up_nobody() -> None:
    async def main() -> None:
        failures = list[dict[str, Any]]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        turns = Turns(loop, 100)
        turns.call(1, lambda: 1 // 0)
        await turns.wait(1)
        assert [type(each["exception"]) for each in failures] == [ZeroDivisionError]

    asyncio.run(main())


@pytest.mark.parametrize("size", [10_000, 900_000])
@loops
def test_bodies_in_pieces_arrive_whole(run: Run, size: int) -> None:
    async def main() -> None:
        app = Held()
        app.go = asyncio.Semaphore(2)
        body = b"p" * size
        async with serving(app, LIMITS) as server, asking(server, post(body) + post(body)) as (reader, _):
            for _ in range(2):
                assert (await head(reader)).startswith(b"HTTP/1.1 200")
            assert app.began == [size, size]

    run(main())
