"""A log that turns out to be another one while several threads use it."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from registry.log.contract import Claim, ForeignLog, LogError
from registry.node.replication.reconnecting_log import ReconnectingLog


class Turning:
    """A log whose claim takes long, and which is meanwhile found to be another one by a query for its end."""

    brokers = ""

    def __init__(self) -> None:
        self.claimed, self.closed = threading.Event(), threading.Event()

    def end(self) -> int:
        return 0

    def query_end(self, timeout_s: float) -> int:
        raise ForeignLog("the topic was made anew")

    def claim(self) -> Claim:
        self.claimed.set()
        assert self.closed.wait(30)
        raise LogError("the log was closed meanwhile")

    def close(self) -> None:
        self.closed.set()


def test_whoever_uses_a_log_that_is_let_go_is_reported_why() -> None:
    def another() -> Any:
        raise ForeignLog("the topic was made anew")

    turning = Turning()
    log = ReconnectingLog(
        another, lambda _: None, identity="a", applied=0, log=cast("Any", turning), retry_s=0.01
    )
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
