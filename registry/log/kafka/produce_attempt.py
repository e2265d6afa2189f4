"""Settling: one batch is sent until the log has said yes or no, however many answers are lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

from registry.log.contract import (
    Claim,
    Fenced,
    ForeignLog,
    LogError,
    OutcomeUnknown,
    RecordTooLarge,
    Unreachable,
)

from . import record_batches, requests
from .connection import NoAnswer, Purpose
from .fetcher import fetch
from .partition import TRY_S, Partition, Pause
from .record_batches import NOBODY, Batch
from .requests import Code, ProduceAnswer, code_name

_LOOK_WAIT_S = 0.1
_LAST_TRY_S = 0.05
"""With less time left none is begun: without an answer it could only raise a doubt."""
_FENCED = {Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED}
_GAP = {Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID}
_REFUSED = {Code.CORRUPT_MESSAGE, Code.INVALID_RECORD}
_WITHOUT_EFFECT = {Code.NOT_ENOUGH_REPLICAS, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID}
"""To be tried again. After all other errors that are not told apart here the batch may be there."""


class BadTime(LogError):
    """The broker holds the time of the batch to be from the future; it is not in the log."""


class Settling:
    """Appending ``batch`` in the name of ``claim``.

    ``floor``: the batch cannot stand below this offset. ``check_age`` raises :class:`.contract.Fenced` when
    the claim may no longer be used; it is called before every try, as a process may be stopped in between.
    """

    def __init__(
        self,
        partition: Partition,
        claim: Claim,
        batch: Batch,
        *,
        floor: int,
        timeout_s: float,
        check_age: Callable[[], None],
    ) -> None:
        self._partition = partition
        self._claim = claim
        self._batch = batch
        self._floor = floor
        self._deadline = time.monotonic() + timeout_s
        self._check_age = check_age
        self._pause = Pause()
        self._doubt = False
        """Whether an earlier try may have put the batch into the log."""
        self._trouble = ""
        self.as_sent = False
        """Whether the log is known to hold the batch as it was sent, but for its offset."""

    async def run(self) -> int:
        """The offset of the batch's first record. Raises as :meth:`.contract.Log.append`."""
        while True:
            try:
                return await self._try()
            except NoAnswer as error:
                self._trouble = str(error)
                self._doubt = self._doubt or error.sent
            except LogError as error:
                self._raise_unless_in_doubt(error)
            if self._doubt and self._claim == NOBODY:
                raise OutcomeUnknown(f"without fencing no append is repeated: {self._trouble}")
            await self._pause()
            if time.monotonic() + _LAST_TRY_S >= self._deadline:
                self._give_up()
            try:
                await self._partition.recover()
            except LogError as error:
                self._raise_unless_in_doubt(error)

    def _raise_unless_in_doubt(self, error: LogError) -> None:
        """A try that was refused, say for a missing permission, says nothing about an earlier one."""
        if not self._doubt or isinstance(error, (Fenced, OutcomeUnknown)):
            raise error
        self._trouble = str(error)
        if isinstance(error, (ForeignLog, RecordTooLarge)):  # the next try would say the same
            self._give_up()

    async def _try(self) -> int:
        try:
            self._check_age()
        except Fenced:
            if self._doubt:
                self._give_up()
            raise
        answer = await self._send()
        if answer.code == Code.NONE and 0 <= answer.offset < self._floor:
            raise OutcomeUnknown(
                f"the log took a batch at offset {answer.offset}, where it had gone up to {self._floor}"
            )
        if answer.code == Code.NONE and answer.offset >= 0:
            self.as_sent = answer.time_ms < 0 and not self._doubt
            return answer.offset
        if answer.code in {Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER}:
            return await self._found_or_unknown("the log says that it has the batch already")
        if answer.code not in _FENCED and answer.code not in _GAP:
            self._raise_for(answer)
        return await self._refused(answer)

    async def _send(self) -> ProduceAnswer:
        partition = self._partition
        left_s = max(0.001, min(TRY_S, self._deadline - time.monotonic()))
        request = requests.Produce(
            partition.topic, partition.topic_id, self._batch.data, timeout_ms=max(1, round(left_s * 900))
        )
        return requests.produced(await partition.ask(request, Purpose.APPEND, left_s))

    def _raise_for(self, answer: ProduceAnswer) -> NoReturn:
        partition, code = self._partition, answer.code
        if code in {Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE}:
            raise RecordTooLarge(
                f"a batch of {len(self._batch.data)} bytes is over the limit of topic {partition.topic}"
            )
        if code in {Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED} and not self._doubt:
            partition.denied(code, "Write")
        if code == Code.INVALID_TIMESTAMP and not self._doubt:
            raise BadTime(
                f"Kafka refused a batch as one from the future ({answer.message}): set the clock of this host"
            )
        if code in _REFUSED and not self._doubt:
            raise LogError(f"Kafka refused a batch ({code_name(code)}): {answer.message}")
        raise NoAnswer(f"{code_name(code)} {answer.message}".strip(), sent=code not in _WITHOUT_EFFECT)

    async def _refused(self, answer: ProduceAnswer) -> int:
        """A newer claim stands, or the broker expected another batch: an earlier try decides."""
        if self._doubt and (offset := await self._look()) is not None:
            return offset
        if answer.code in _FENCED:
            raise Fenced("a newer claim of the log stands")
        if self._doubt:
            # The batch is not where it could be, and nothing newer shows that it cannot come any more.
            self._give_up()
        raise Fenced(f"the log expected another batch of this claim ({code_name(answer.code)})")

    async def _found_or_unknown(self, why: str) -> int:
        offset = await self._look()
        if offset is None:
            raise OutcomeUnknown(f"{why}, but it was not found")
        return offset

    async def _look(self) -> int | None:
        """Where the batch stands; ``None`` when it does not and cannot come any more.

        It cannot once a batch of a newer epoch of its producer stands in the log; the broker may know of one
        that readers do not see yet, so that the log's end as of now decides nothing. Raises
        :class:`.contract.OutcomeUnknown` when the time is up first.
        """
        position, pause = self._floor, Pause()
        while True:
            try:
                answer = await fetch(self._partition, position, _LOOK_WAIT_S, Purpose.APPEND)
            except NoAnswer as error:
                answer = requests.FetchAnswer(-1, -1, b"")
                self._trouble = str(error)
            for header in record_batches.batch_headers(answer.data):
                if header.claim == self._claim and header.sequence == self._batch.sequence:
                    return header.offset
                if header.claim.producer == self._claim.producer and header.claim.epoch > self._claim.epoch:
                    return None
            position = record_batches.next_offset(answer.data, position)
            if time.monotonic() >= self._deadline:
                self._doubt = True
                self._give_up()
            if answer.code != Code.NONE:
                await pause()
                await self._partition.recover()

    def _give_up(self) -> NoReturn:
        if self._doubt:
            raise OutcomeUnknown(f"the log did not say whether an append was done: {self._trouble}")
        raise Unreachable(f"the log does not take appends: {self._trouble}; nothing was appended")
