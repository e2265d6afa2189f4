"""Error lines that would repeat with every request."""

from __future__ import annotations

import logging

import pytest

from registry.base.observe.logs import EVERY_S, Throttled


def test_one_line_a_second_is_logged_and_says_how_many_were_not(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    failures = Throttled(logging.getLogger("a test"), lambda: now[0])
    for number in range(50):
        failures.error("write %d failed", number)
    now[0] += EVERY_S
    failures.error("write %d failed", 50)
    now[0] += EVERY_S
    failures.warning("write %d failed at %s", 51, "100 %")
    assert [record.getMessage() for record in caplog.records] == [
        "write 0 failed",
        "write 50 failed (49 more such failures since the last line)",
        "write 51 failed at 100 %",
    ]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]


def test_a_line_of_another_kind_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Lost audit entries are not left out because sending has just failed."""
    failures = Throttled(logging.getLogger("a test"), lambda: 100.0)
    for number in range(3):
        failures.error("sending failed, attempt %d", number)
    failures.error("%d entries are lost", 7)
    failures.error("%d entries are lost", 8)
    assert [record.getMessage() for record in caplog.records] == [
        "sending failed, attempt 0", "7 entries are lost",
    ]  # fmt: skip
