"""One query for all waiting requests, and none of them answered by a query sent before it came."""

from __future__ import annotations

import asyncio

from registry.reader.backend import ReadBarrier
from tests.support.running import until_async


class Node:
    """A node that answers on demand."""

    def __init__(self) -> None:
        self.questions: list[asyncio.Future[bool]] = []

    async def ask(self) -> bool:
        question: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.questions.append(question)
        return await question

    async def until_asked(self, count: int) -> None:
        await until_async(lambda: len(self.questions) >= count, "the question")


async def _shared() -> None:
    node = Node()
    barrier = ReadBarrier(node.ask)
    first = asyncio.ensure_future(barrier.wait_confirmed())
    await node.until_asked(1)
    later = [asyncio.ensure_future(barrier.wait_confirmed()) for _ in range(5)]
    await asyncio.wait((*later, first), timeout=0)
    node.questions[0].set_result(True)
    assert await first
    assert not any(each.done() for each in later)
    await node.until_asked(2)
    node.questions[1].set_result(False)
    assert await asyncio.gather(*later) == [False] * 5
    assert len(node.questions) == 2


def test_who_comes_while_a_question_is_under_way_shares_the_next() -> None:
    asyncio.run(asyncio.wait_for(_shared(), 10))


async def _slow() -> None:
    node = Node()
    barrier = ReadBarrier(node.ask)
    first = asyncio.ensure_future(barrier.wait_confirmed())
    await node.until_asked(1)
    second = asyncio.ensure_future(barrier.wait_confirmed())
    await node.until_asked(2)  # Although the first was not answered.
    node.questions[1].set_result(True)
    assert await second
    node.questions[0].set_result(False)
    assert not await first


def test_nobody_waits_long_for_a_question_that_gets_no_answer() -> None:
    asyncio.run(asyncio.wait_for(_slow(), 10))
