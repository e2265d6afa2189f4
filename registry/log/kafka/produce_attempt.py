"""One batch, sent until the log has accepted or rejected it, however many answers are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from registry.log.contract import (
    Claim,
    Fenced,
    ForeignLog,
    LogError,
    OutcomeUnknown,
    RecordTooLarge,
    Rejected,
    Unreachable,
)

from . import record_batches, requests
from .connection import TRY_S, Backoff, NoAnswer, Purpose
from .fetcher import fetch
from .partition import Partition
from .record_batches import NO_PRODUCER, Batch
from .requests import Code, ProduceAnswer, code_name

_SEARCH_WAIT_S = 0.1
# With less time left no attempt is started: without an answer it could only leave the outcome unknown.
_LAST_TRY_S = 0.05
_FENCED = {Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED}
_OUT_OF_SEQUENCE = {Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID}
_REJECTED = {Code.CORRUPT_MESSAGE, Code.INVALID_RECORD}
_DENIED = {Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED}
# Retriable, and the batch is certainly not in the log. After any other retriable error it may be.
_WITHOUT_EFFECT = {Code.NOT_ENOUGH_REPLICAS, Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID}


class FutureTimestamp(LogError):
    """The broker rejected the batch's timestamp as from the future; the batch is not in the log."""


class ProduceAttempt:
    """The append of ``batch`` in the name of ``claim``.

    ``offset_min``: the batch cannot have a lower offset. ``check_age`` raises :class:`.contract.Fenced` when
    the claim may no longer be used; it is called before every try, as the process may be frozen in between.
    ``repeats``: others may have appended the same batch before, at a lower offset.
    """

    def __init__(
        self,
        partition: Partition,
        claim: Claim,
        batch: Batch,
        *,
        offset_min: int,
        timeout_s: float,
        check_age: Callable[[], None],
        repeats: bool = False,
    ) -> None:
        self._partition = partition
        self._claim = claim
        self._batch = batch
        self._offset_min = offset_min
        self._clock = partition.clock
        self._deadline = self._clock() + timeout_s
        self._check_age = check_age
        self._repeats = repeats
        self._backoff = Backoff()
        # True if an earlier try may have appended the batch.
        self._in_doubt = False
        self._last_error = ""
        # True if the log is known to hold the batch as it was sent, except for its offset.
        self.as_sent = False

    async def run(self) -> int:
        """Return the offset of the batch's first record. Raises as :meth:`.contract.Log.append`."""
        while True:
            try:
                return await self._try()
            except NoAnswer as error:
                self._last_error = str(error)
                self._in_doubt = self._in_doubt or error.sent
            except LogError as error:
                self._raise_unless_in_doubt(error)
            if self._in_doubt and self._claim == NO_PRODUCER:
                raise OutcomeUnknown(f"without fencing no append is retried: {self._last_error}")
            await self._backoff()
            if self._clock() + _LAST_TRY_S >= self._deadline:
                self._give_up()
            try:
                await self._partition.recover()
            except LogError as error:
                self._raise_unless_in_doubt(error)

    def _raise_unless_in_doubt(self, error: LogError) -> None:
        """Raise, unless an earlier try is in doubt: a later rejection says nothing about that one."""
        if not self._in_doubt or isinstance(error, (Fenced, OutcomeUnknown)):
            raise error
        self._last_error = str(error)
        if isinstance(error, (ForeignLog, RecordTooLarge)):  # permanent: the next try would fail the same way
            self._give_up()

    async def _try(self) -> int:
        try:
            self._check_age()
        except Fenced:
            if self._in_doubt:
                self._give_up()
            raise
        answer = await self._send()
        if answer.code == Code.NONE and 0 <= answer.offset < self._offset_min:
            if self._repeats:
                return answer.offset
            raise OutcomeUnknown(
                f"the log took a batch at offset {answer.offset}, although it had reached {self._offset_min}"
            )
        if answer.code == Code.NONE and answer.offset >= 0:
            # The broker may have another first batch of this epoch: a fence in its name or, for a fence, a
            # barrier. It takes the two for one and answers with the offset of the other.
            self.as_sent = answer.time_ms < 0 and not self._in_doubt and self._batch.sequence != 0
            return answer.offset
        if answer.code in {Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER}:
            return await self._search_duplicate()
        if answer.code not in _FENCED and answer.code not in _OUT_OF_SEQUENCE:
            self._raise_for(answer)
        return await self._handle_fencing(answer)

    async def _send(self) -> ProduceAnswer:
        partition = self._partition
        left_s = max(0.001, min(TRY_S, self._deadline - self._clock()))
        request = requests.Produce(
            partition.topic, partition.topic_id, self._batch.data, timeout_ms=max(1, round(left_s * 900))
        )
        return requests.read_produce(await partition.send(request, Purpose.APPEND, left_s))

    def _raise_for(self, answer: ProduceAnswer) -> NoReturn:
        partition, code = self._partition, answer.code
        if code in {Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE}:
            raise RecordTooLarge(
                f"a batch of {len(self._batch.data)} bytes exceeds the limit of topic {partition.topic}"
            )
        if code in _DENIED and not self._in_doubt:
            partition.raise_denied(code, "Write")
        if code == Code.INVALID_TIMESTAMP and not self._in_doubt:
            raise FutureTimestamp(
                f"Kafka refused a batch as one from the future ({answer.message}): set the clock of this host"
            )
        if code in _REJECTED and not self._in_doubt:
            raise Rejected(f"Kafka refused a batch ({code_name(code)}): {answer.message}")
        raise NoAnswer(f"{code_name(code)} {answer.message}".strip(), sent=code not in _WITHOUT_EFFECT)

    async def _handle_fencing(self, answer: ProduceAnswer) -> int:
        """Handle a newer claim or a gap in the sequence; the batch counts if an earlier try appended it."""
        if self._in_doubt and (offset := await self._search()) is not None:
            return offset
        if answer.code in _FENCED:
            raise Fenced("a newer claim of the log exists")
        if self._in_doubt:
            # The batch was not found, but nothing newer proves that it cannot arrive any more.
            self._give_up()
        raise Fenced(f"the log expected another batch of this claim ({code_name(answer.code)})")

    async def _search_duplicate(self) -> int:
        offset = await self._search()
        if offset is None:
            raise OutcomeUnknown("the log reports a duplicate batch, but it was not found")
        return offset

    async def _search(self) -> int | None:
        """Return the batch's offset; ``None`` if it is not in the log and cannot arrive any more.

        It cannot arrive once the log holds a batch of a newer epoch of its producer. The log's end proves
        nothing, because the broker may know of such a batch before readers see it. Raises
        :class:`.contract.OutcomeUnknown` when the time is up first.
        """
        position, backoff = self._offset_min, Backoff()
        while True:
            try:
                answer = await fetch(self._partition, position, _SEARCH_WAIT_S, Purpose.APPEND)
            except NoAnswer as error:
                answer = requests.FetchAnswer(-1, -1, b"")
                self._last_error = str(error)
            for header in record_batches.batch_headers(answer.data):
                if header.claim == self._claim and header.sequence == self._batch.sequence:
                    return header.offset
                if header.claim.producer == self._claim.producer and header.claim.epoch > self._claim.epoch:
                    return None
            position = record_batches.next_offset(answer.data, position)
            if self._clock() >= self._deadline:
                self._in_doubt = True
                self._give_up()
            if answer.code != Code.NONE:
                await backoff()
                await self._partition.recover()

    def _give_up(self) -> NoReturn:
        if self._in_doubt:
            raise OutcomeUnknown(f"the log did not confirm an append in time: {self._last_error}")
        raise Unreachable(f"the log does not accept appends: {self._last_error}; nothing was appended")
