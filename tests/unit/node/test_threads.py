"""Threads of a node that fail."""

from __future__ import annotations

import logging

import pytest

from registry.node.threads import Threads
from registry.store.layout import StoreError


def test_a_failure_that_the_next_start_deals_with_is_logged_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures: list[str] = []
    threads = Threads(failures.append)

    def stale() -> None:
        raise StoreError("the store must be rebuilt")

    def broken() -> None:
        raise ValueError("nobody expected this")

    threads.start("follow", stale)
    threads.start("write", broken)
    threads.join(("follow", "write"), 10)
    assert sorted(failures) == ["nobody expected this", "the store must be rebuilt"]
    tracebacks = {record.getMessage(): record.exc_info is not None for record in caplog.records}
    assert tracebacks == {
        "the store must be rebuilt; the node starts again": False,
        "the thread write failed": True,
    }
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
