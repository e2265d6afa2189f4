"""InitProducerId: a producer id and the next epoch, from the transaction coordinator."""

from __future__ import annotations

from typing import Any

from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import InitProducerIdRequest

from registry.log.contract import Claim

from .connection import NoAnswer
from .partition import Partition
from .requests import Code, code_name

_TRANSACTION_TIMEOUT_MS = 60_000
_TRANSACTION_COORDINATOR = 1


async def init_producer(partition: Partition, transactional_id: str) -> Claim:
    """Request the next epoch of ``transactional_id``, in a single attempt.

    Raises :class:`.connection.NoAnswer`, and :class:`.contract.LogError` for a missing permission.
    """

    def coordinator(answer: Any) -> tuple[int, str, int]:
        return answer.error_code, answer.host, answer.port

    code, host, port = await partition.send_to_any(
        FindCoordinatorRequest(transactional_id, _TRANSACTION_COORDINATOR), coordinator
    )
    _check(partition, transactional_id, code)
    answer = await partition.send_to(
        host, port, InitProducerIdRequest(transactional_id, _TRANSACTION_TIMEOUT_MS)
    )
    _check(partition, transactional_id, answer.error_code)
    return Claim(answer.producer_id, answer.producer_epoch)


def _check(partition: Partition, transactional_id: str, code: int) -> None:
    if code in {Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}:
        partition.raise_denied(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Write", transactional_id)
    # 14, 15, 16 and 51 are transient: a coordinator that starts, moves, or ends an earlier transaction.
    if code != Code.NONE:
        raise NoAnswer(
            f"InitProducerId for transactional id {transactional_id}: {code_name(code)}", sent=False
        )
