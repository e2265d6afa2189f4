"""Answers that stay open: written to by whoever has them, until they end or their client goes."""

from __future__ import annotations

import asyncio
from typing import Any

from registry.http1.messages import Limits
from registry.http1.output import HeldAnswer
from tests.support.running import until_async
from tests.unit.http1.clients import Run, asking, head, loops, serving

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\n\r\n"
LARGE = b"x" * (1 << 20)


class Holder:
    """An application that keeps every answer open."""

    def __init__(self) -> None:
        self.held: list[HeldAnswer] = []
        self.closed = 0
        self.drained = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.hold", "hold": self._hold})

    def _hold(self, answer: HeldAnswer) -> None:
        self.held.append(answer)
        answer.on_close = self._on_close
        answer.on_drained = self._on_drained

    def _on_close(self) -> None:
        self.closed += 1

    def _on_drained(self) -> None:
        self.drained += 1

    async def answer(self) -> HeldAnswer:
        await until_async(lambda: self.held, "an answer to be held")
        return self.held[-1]


@loops
def test_what_is_written_arrives_in_chunks_until_the_answer_ends(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        async with serving(holder) as server, asking(server, GET) as (reader, _):
            assert b"transfer-encoding: chunked" in await head(reader)
            held = await holder.answer()
            held.write(held.frame(b"one"))
            assert await reader.readexactly(8) == b"3\r\none\r\n"
            held.end()
            assert await reader.read() == b"0\r\n\r\n"
            assert holder.closed == 1
            held.write(b"too late")
            held.end()
            await until_async(lambda: not server.connections, "the connection to close")
            assert holder.closed == 1

    run(scenario())


@loops
def test_a_client_without_chunks_reads_until_the_connection_closes(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        async with serving(holder) as server, asking(server, OLD) as (reader, _):
            assert b"transfer-encoding" not in await head(reader)
            held = await holder.answer()
            held.write(held.frame(b"one"))
            held.end()
            assert await reader.read() == b"one"

    run(scenario())


@loops
def test_the_holder_learns_that_the_client_has_gone(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        async with serving(holder) as server:
            async with asking(server, GET) as (reader, _):
                await head(reader)
            await until_async(lambda: holder.closed, "the connection to close")
            holder.held[0].write(b"nobody reads this")
            assert not server.connections

    run(scenario())


@loops
def test_a_slow_client_is_behind_until_it_has_read(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        async with serving(holder) as server, asking(server, OLD) as (reader, _):
            await head(reader)
            held = await holder.answer()
            assert not held.behind
            held.write(LARGE)
            assert held.behind
            assert not holder.drained
            await reader.readexactly(len(LARGE))
            await until_async(lambda: holder.drained, "the buffer to drain")
            assert not held.behind

    run(scenario())


@loops
def test_a_client_that_does_not_read_is_dropped(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        limits = Limits(body_timeout_s=0.3)
        async with serving(holder, limits) as server, asking(server, OLD) as (reader, _):
            await head(reader)
            (await holder.answer()).write(LARGE)
            await until_async(lambda: holder.closed, "the client to be dropped")

    run(scenario())


@loops
def test_an_idle_answer_outlives_the_timeouts_of_requests(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        limits = Limits(idle_timeout_s=0.1, header_timeout_s=0.1, body_timeout_s=0.1)
        async with serving(holder, limits) as server, asking(server, GET) as (reader, _):
            await head(reader)
            held = await holder.answer()
            async with asking(server, b"") as (other, _):
                assert await other.read() != b"never"  # a connection without a request is closed meanwhile
            held.write(held.frame(b"one"))
            assert await reader.readexactly(8) == b"3\r\none\r\n"

    run(scenario())


@loops
def test_a_server_that_stops_ends_held_answers_at_once(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        async with serving(holder) as server, asking(server, GET) as (reader, _):
            await head(reader)
            await holder.answer()
            stopping = asyncio.create_task(server.stop(60.0))
            assert await reader.read() == b"0\r\n\r\n"
            await stopping
            assert holder.closed == 1

    run(scenario())


@loops
def test_requests_that_were_sent_ahead_are_not_answered_in_the_middle(run: Run) -> None:
    async def scenario() -> None:
        holder = Holder()
        async with serving(holder) as server, asking(server, GET + GET) as (reader, _):
            await head(reader)
            held = await holder.answer()
            held.write(held.frame(b"one"))
            held.end()
            assert await reader.read() == b"3\r\none\r\n0\r\n\r\n"
            assert len(holder.held) == 1

    run(scenario())
