"""One append and its answers: when it counts as done, as not done, and as unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from registry.domain.log_format.records import Entry
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
from registry.log.kafka import connection
from registry.log.kafka.connection import NoAnswer
from registry.log.kafka.partition import Partition
from registry.log.kafka.produce_attempt import FutureTimestamp, ProduceAttempt
from registry.log.kafka.record_batches import NO_PRODUCER, build, with_base_offset
from registry.log.kafka.requests import Code, Produce

MINE, NEWER = Claim(7, 1), Claim(7, 2)
BEGIN = 10
LOST = NoAnswer("the connection broke", sent=True)
UNSENT = NoAnswer("nobody listens", sent=False)


class Answers:
    """A partition that answers each append with the next of ``appends``, and then with the last one.

    ``stored``: the batches that readers see from ``BEGIN`` on. Each append takes a second.
    """

    topic, topic_id, epoch = "t", b"", 0

    def __init__(self, appends: Iterable[Any], stored: Iterable[bytes] = ()) -> None:
        self._appends = [*appends]
        self._stored = b"".join(with_base_offset(each, BEGIN + at) for at, each in enumerate(stored))
        self.now, self.sent = 0.0, 0
        self.recovering: Exception | None = None

    def clock(self) -> float:
        return self.now

    async def send(self, request: Any, *_: Any, **__: Any) -> Any:
        if not isinstance(request, Produce):
            self.now += 0.1
            return _answer(0, Code.NONE, -1, None, None, None, None, self._stored)
        self.now += 1
        self.sent += 1
        found = self._appends.pop(0) if len(self._appends) > 1 else self._appends[0]
        if isinstance(found, Exception):
            raise found
        code, offset = found if isinstance(found, tuple) else (found, -1)
        return _answer(0, code, offset, -1, 0, [], "why")

    async def recover(self) -> None:
        if self.recovering is not None:
            raise self.recovering

    def raise_denied(self, code: int, operation: str) -> NoReturn:
        raise LogError(f"this client needs {operation}")


def _answer(*members: Any) -> Any:
    return SimpleNamespace(error_code=0, topics=[("t", [members])])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BACKOFF_MIN_S", "BACKOFF_MAX_S"):
        monkeypatch.setattr(connection, name, 0.0)


def batch(claim: Claim = MINE, sequence: int = 3) -> Any:
    return build([Entry(b"k", b"v")], claim, sequence, 1)


def attempt(answers: Answers, claim: Claim = MINE, sequence: int = 3, **more: Any) -> ProduceAttempt:
    usual = {"offset_min": BEGIN, "timeout_s": 5.0, "check_age": lambda: None}
    return ProduceAttempt(cast("Partition", answers), claim, batch(claim, sequence), **{**usual, **more})


def append(*appends: Any, stored: Iterable[bytes] = (), claim: Claim = MINE, **more: Any) -> int:
    return asyncio.run(attempt(Answers(appends, stored), claim, **more).run())


def test_an_answer_counts_however_many_were_lost_before_it() -> None:
    assert append((0, 12)) == 12
    assert append(LOST, Code.NOT_LEADING, UNSENT, (0, 12)) == 12


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.MESSAGE_TOO_LARGE, RecordTooLarge),
        (Code.INVALID_TIMESTAMP, FutureTimestamp),
        (Code.INVALID_RECORD, Rejected),
        (Code.TOPIC_AUTHORIZATION_FAILED, LogError),
        (Code.INVALID_PRODUCER_EPOCH, Fenced),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Fenced),
    ],
)
def test_a_refusal_says_that_nothing_was_done_only_if_no_earlier_try_may_have_done_it(
    code: Code, error: type[LogError]
) -> None:
    for before in ((), (UNSENT,), (Code.NOT_ENOUGH_REPLICAS,)):
        with pytest.raises(error) as raised:
            append(*before, code)
        assert not isinstance(raised.value, OutcomeUnknown)
    for before in ((LOST,), (Code.NOT_LEADING,)):
        with pytest.raises(OutcomeUnknown):
            append(*before, code)


@pytest.mark.parametrize(
    "code", [Code.INVALID_TIMESTAMP, Code.INVALID_RECORD, Code.TOPIC_AUTHORIZATION_FAILED]
)
def test_a_refusal_after_a_lost_answer_does_not_end_the_tries(code: Code) -> None:
    assert append(LOST, code, (0, 12)) == 12


def test_when_the_time_is_over_only_a_try_that_was_sent_leaves_the_outcome_open() -> None:
    for never in (UNSENT, Code.NOT_ENOUGH_REPLICAS):
        with pytest.raises(Unreachable):
            append(never)
    with pytest.raises(OutcomeUnknown):
        append(UNSENT, LOST, UNSENT)


def test_a_batch_that_a_fenced_writer_has_in_the_log_was_done() -> None:
    others = [batch(Claim(9, 0)).data, batch(sequence=2).data]
    for refusal in (Code.INVALID_PRODUCER_EPOCH, Code.OUT_OF_ORDER_SEQUENCE_NUMBER):
        assert append(LOST, refusal, stored=[*others, batch().data, batch(NEWER, 0).data]) == BEGIN + 2


def test_a_batch_that_is_not_before_one_of_a_newer_claim_was_not_done() -> None:
    with pytest.raises(Fenced, match="a newer claim"):
        append(LOST, Code.PRODUCER_FENCED, stored=[batch(NEWER, 0).data, batch().data])


def test_a_duplicate_is_answered_with_its_offset_and_is_unknown_if_it_is_not_found() -> None:
    assert append(Code.DUPLICATE_SEQUENCE_NUMBER, stored=[batch(sequence=2).data, batch().data]) == BEGIN + 1
    assert append((0, -1), stored=[batch().data]) == BEGIN
    for stored in ([batch(NEWER, 0).data], []):
        with pytest.raises(OutcomeUnknown):
            append(Code.DUPLICATE_SEQUENCE_NUMBER, stored=stored)


def test_an_offset_before_what_was_known_of_the_log_is_believed_only_of_a_repetition() -> None:
    assert append((0, BEGIN - 1), repeats=True) == BEGIN - 1
    with pytest.raises(OutcomeUnknown, match="although it had reached 10"):
        append((0, BEGIN - 1))


def test_without_a_claim_nothing_is_sent_twice() -> None:
    answers = Answers([LOST, (0, 12)])
    with pytest.raises(OutcomeUnknown, match="without fencing no append is retried"):
        asyncio.run(attempt(answers, NO_PRODUCER).run())
    assert answers.sent == 1
    assert append(UNSENT, (0, 12), claim=NO_PRODUCER) == 12


def test_a_claim_that_became_too_old_sends_nothing_more_and_leaves_a_sent_try_open() -> None:
    for before, error in ((UNSENT, Fenced), (LOST, OutcomeUnknown)):
        answers, ages = Answers([before, (0, 12)]), iter([None, Fenced("too old")])

        def check_age(ages: Any = ages) -> None:
            if (found := next(ages)) is not None:
                raise found

        with pytest.raises(error):
            asyncio.run(attempt(answers, check_age=check_age).run())
        assert answers.sent == 1


def test_another_log_in_place_of_this_one_ends_the_tries() -> None:
    for before, error in ((UNSENT, ForeignLog), (LOST, OutcomeUnknown)):
        answers = Answers([before, (0, 12)])
        answers.recovering = ForeignLog("the topic was created again")
        with pytest.raises(error):
            asyncio.run(attempt(answers).run())
        assert answers.sent == 1


def test_the_log_holds_what_was_sent_unless_the_broker_may_have_taken_another_batch_for_it() -> None:
    first, later = 0, 3
    for answers, sequence, as_sent in (
        ([(0, 12)], later, True),
        ([LOST, (0, 12)], later, False),
        ([(0, 12)], first, False),
    ):
        tried = attempt(Answers(answers), sequence=sequence)
        asyncio.run(tried.run())
        assert tried.as_sent is as_sent
