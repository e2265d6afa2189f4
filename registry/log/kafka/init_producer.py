"""Claiming: a producer id and epoch from the cluster's coordinator of our transactional id."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from registry.log.contract import Claim, Unreachable

from .connection import NoAnswer
from .partition import Partition, Pause
from .requests import Code, code_name

_TRANSACTION_TIMEOUT_MS = 60_000
_OF_TRANSACTIONS = 1

T = TypeVar("T")


async def until(deadline: float, attempt: Callable[[], Awaitable[T]]) -> T:
    """The result of the first ``attempt`` that gets an answer. Raises :class:`.contract.Unreachable`."""
    pause = Pause()
    while True:
        try:
            return await attempt()
        except NoAnswer as error:
            if time.monotonic() >= deadline:
                raise Unreachable(f"Kafka does not answer: {error}") from error
        await pause()


async def init_producer(partition: Partition, transactional_id: str) -> Claim:
    """One try for the next epoch of ``transactional_id``, whoever had the one before.

    Raises :class:`.connection.NoAnswer`, and :class:`.contract.LogError` for a missing permission.
    """

    def where(answer: object) -> tuple[int, str, int]:
        code, host, port = (getattr(answer, name) for name in ("error_code", "host", "port"))
        return code, host, port

    code, host, port = await partition.ask_anybody(
        FindCoordinatorRequest(transactional_id, _OF_TRANSACTIONS), where
    )
    _judge(partition, transactional_id, code)
    answer = await partition.ask_at(
        host, port, InitProducerIdRequest(transactional_id, _TRANSACTION_TIMEOUT_MS)
    )
    _judge(partition, transactional_id, answer.error_code)
    return Claim(answer.producer_id, answer.producer_epoch)


def _judge(partition: Partition, transactional_id: str, code: int) -> None:
    # 14, 15, 16 and 51 pass: a coordinator that starts, moves, or ends what a former one left open.
    if code in {Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}:
        partition.denied(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Write", transactional_id)
    if code != Code.NONE:
        raise NoAnswer(f"claiming transactional id {transactional_id}: {code_name(code)}", sent=False)
