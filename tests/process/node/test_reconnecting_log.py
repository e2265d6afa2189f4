"""A log that turns out to be another one while several threads use it."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from registry.domain.log_format.records import AppendedBatch
from registry.log.contract import Claim, ForeignLog, LogError, OutcomeUnknown
from registry.node.replication.reconnecting_log import ReconnectingLog


class Turning:
    """A log whose claim takes long, and which is meanwhile found to be another one by a query for its end."""

    brokers = ""

    def __init__(self) -> None:
        self.claimed, self.closed = threading.Event(), threading.Event()
        # Of an append that does not block.
        self.result: int | Exception = ForeignLog("the topic was made anew")

    def end(self) -> int:
        return 0

    def query_end(self, timeout_s: float) -> int:
        raise ForeignLog("the topic was made anew")

    def claim(self) -> Claim:
        self.claimed.set()
        assert self.closed.wait(30)
        raise LogError("the log was closed meanwhile")

    def begin_append(self, *request: Any) -> None:
        request[-1](self.result)

    def close(self) -> None:
        self.closed.set()


def another() -> Any:
    raise ForeignLog("the topic was made anew")


def attached(turning: Turning) -> ReconnectingLog:
    return ReconnectingLog(
        another, lambda _: None, identity="a", applied=0, log=cast("Any", turning), retry_s=0.01
    )


def test_whoever_uses_a_log_that_is_let_go_is_reported_why() -> None:
    turning = Turning()
    log = attached(turning)
    told: list[LogError] = []

    def claim() -> None:
        with pytest.raises(LogError) as error:
            log.claim()
        told.append(error.value)

    claiming = threading.Thread(target=claim)
    claiming.start()
    assert turning.claimed.wait(30)
    with pytest.raises(ForeignLog):
        log.query_end(1)
    claiming.join(30)
    log.close()
    # A bare LogError would be taken for a missing permission, which ends the process.
    assert [type(error) for error in told] == [ForeignLog]


def test_a_log_that_an_append_which_does_not_block_finds_to_be_another_one_is_let_go() -> None:
    turning = Turning()
    log, results = attached(turning), list[int | Exception]()
    log.begin_append((), (), {}, results.append)
    assert turning.closed.wait(30)
    assert [type(each) for each in results] == [ForeignLog]
    with pytest.raises(ForeignLog):
        log.begin_append((), (), {}, results.append)
    log.close()


def test_an_append_that_does_not_block_reports_why_its_log_was_let_go() -> None:
    turning = Turning()
    log, results = attached(turning), list[int | Exception]()

    def begin(*request: Any) -> None:
        with pytest.raises(ForeignLog):
            log.query_end(1)
        for result in (LogError("the log is closed"), OutcomeUnknown("the log was closed meanwhile")):
            request[-1](result)

    turning.begin_append = begin  # type: ignore[method-assign]
    log.begin_append((), (), {}, results.append)
    log.close()
    assert [type(each) for each in results] == [ForeignLog, OutcomeUnknown]


def test_a_log_that_was_let_go_neither_takes_nor_passes_on_records() -> None:
    turning = Turning()
    log = attached(turning)
    with pytest.raises(ForeignLog):
        log.query_end(1)
    assert not log.offer(AppendedBatch(b"records", 0))
    assert log.last_append(1) is None
    log.close()
