"""A reader's connection to its node on a real socket: what is sent together, and what counts as not sent."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from registry.domain.commands import DeleteSubject
from registry.domain.pending_command import CommandRequest
from registry.ipc.messages import (
    PIECE_BYTES,
    Confirm,
    Framed,
    Submit,
    decode_from_reader,
    encode,
    frames,
)
from registry.reader.node_connection import NodeConnection, NodeLost, NotSent


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[NodeConnection, socket.socket]]:
    """Yield a connection and its other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    _, connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: NodeConnection(lambda _: None, lambda: None), sock=ours
    )
    try:
        yield connection, theirs
    finally:
        connection.transport.close()
        await connection.ended
        theirs.close()


def test_calls_are_sent_together_in_the_iteration_of_the_event_loop_that_makes_them() -> None:
    async def run() -> None:
        async with connected() as (connection, theirs):
            loop = asyncio.get_running_loop()
            messages = [Confirm(number) for number in (1, 2, 3)]
            received: asyncio.Future[bytes] = loop.create_future()

            def read_in_next_iteration() -> None:
                try:
                    received.set_result(theirs.recv(1 << 16))
                except BlockingIOError as error:
                    received.set_exception(error)

            loop.call_soon(read_in_next_iteration)
            calls = [connection.call(each.number, each, loop.time() + 30) for each in messages]
            assert await received == frames(map(encode, messages))
            connection.transport.close()
            await asyncio.wait(calls)

    uvloop.run(run())


def test_only_calls_on_a_connection_that_is_closing_count_as_not_sent() -> None:
    async def run() -> None:
        async with connected() as (connection, theirs):
            deadline = asyncio.get_running_loop().time() + 30
            written = connection.call(1, Confirm(1), deadline)
            connection.transport.close()
            with pytest.raises(NotSent):
                await connection.call(2, Confirm(2), deadline)
            with pytest.raises(NodeLost):
                await written
            assert theirs.recv(1 << 16) == frames([encode(Confirm(1))])

    uvloop.run(run())


class Reading(Framed):
    """The node's end of a connection, which reads as slowly as a test wants."""

    def __init__(self, theirs: socket.socket) -> None:
        super().__init__()
        self._theirs = theirs
        # The numbers of the messages that have arrived whole.
        self.numbers: set[int] = set()

    def read(self, size: int) -> bool:
        """Read at most so many bytes; return true if there were any."""
        data = b""
        with suppress(BlockingIOError, ConnectionError):
            data = self._theirs.recv(size)
        self.data_received(data)
        return bool(data)

    def on_message(self, message: bytes) -> None:
        received = decode_from_reader(message)
        assert isinstance(received, Submit)
        self.numbers.add(received.number)


async def turn() -> None:
    """Let the event loop read and write once."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


async def breaking(seed: int) -> Counter[str]:
    """Make calls while the node reads, until either side ends the connection; return what became of them."""
    chance = random.Random(seed)
    calls: dict[int, asyncio.Future[object]] = {}
    async with connected() as (connection, theirs):
        deadline, node = asyncio.get_running_loop().time() + 60, Reading(theirs)

        def call() -> None:
            number, pieces = len(calls), chance.randint(1, 12)
            size = chance.choice((10, 2000, pieces * PIECE_BYTES))
            message = Submit(number, CommandRequest(DeleteSubject("s" * size), 60.0))
            if size < PIECE_BYTES:
                calls[number] = connection.call(number, message, deadline)
            else:
                calls[number] = connection.call_large(number, lambda: message, deadline)

        for _ in range(chance.randrange(30)):
            if chance.random() < 0.5:
                call()
            elif chance.random() < 0.5:
                node.read(chance.choice((1, 100, 4 * PIECE_BYTES)))
            else:
                await turn()
        match chance.randrange(3):
            case 0:
                connection.transport.close()
            case 1:
                connection.transport.abort()
            case _:
                theirs.shutdown(socket.SHUT_WR)
        # As long as the connection has not ended, its client calls.
        while not connection.ended.done():
            call()
            node.read(1 << 20)
            await turn()
        while node.read(1 << 20):
            pass
        outcomes = await asyncio.gather(*calls.values(), return_exceptions=True)
    unsent = {number for number, outcome in zip(calls, outcomes, strict=True) if type(outcome) is NotSent}
    assert not unsent & node.numbers, seed
    assert all(isinstance(each, NotSent | NodeLost) for each in outcomes), seed
    return Counter(received=len(node.numbers), unsent=len(unsent), lost=len(calls) - len(unsent))


def test_nothing_that_the_node_has_is_reported_as_not_sent() -> None:
    total = Counter[str]()
    for seed in range(200):
        total += uvloop.run(breaking(seed))
    assert total["unsent"] > 100
    assert total["lost"] >= total["received"] > 100
