"""Waiting for a broker's answer, and telling the result of an append."""

from __future__ import annotations

import asyncio

import pytest

from registry.log.contract import Unreachable
from registry.log.kafka.connection import _until
from registry.log.kafka.log import _report

PAST = 0.0


def a_minute_on() -> float:
    return asyncio.get_running_loop().time() + 60


@pytest.mark.anyio
async def test_an_answer_that_is_late_may_still_come() -> None:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await _until(PAST, answer)
    assert not answer.done()
    answer.set_result(7)
    assert await _until(PAST, answer) == 7


@pytest.mark.anyio
async def test_who_stops_waiting_for_an_answer_does_not_cancel_it() -> None:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(_until(a_minute_on(), answer))
    asyncio.get_running_loop().call_soon(waiting.cancel)  # after its first step
    with pytest.raises(asyncio.CancelledError):
        await waiting
    answer.set_result(7)
    assert await _until(a_minute_on(), answer) == 7


@pytest.mark.anyio
async def test_a_request_that_failed_raises_its_error() -> None:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer.set_exception(EOFError("it hung up"))
    with pytest.raises(EOFError, match="it hung up"):
        await _until(a_minute_on(), answer)


@pytest.mark.parametrize("result", [7, Unreachable("no broker answers")])
def test_the_result_of_an_append_is_told_where_it_is_known(result: int | Exception) -> None:
    async def append() -> int:
        if isinstance(result, Exception):
            raise result
        return result

    told: list[int | Exception] = []
    # Without an event loop: nothing is left to a later iteration.
    with pytest.raises(StopIteration):
        _report(append, told.append).send(None)
    assert told == [result]
