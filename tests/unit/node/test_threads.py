"""Threads of a node that fail."""

from __future__ import annotations

import asyncio
import logging

import pytest

from registry.domain.commands import Done, Outcome, Register
from registry.node.threads import Callbacks, Threads
from registry.store.layout import StoreError
from tests.support.pending import pending


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


@pytest.mark.anyio
async def test_replies_are_made_at_once_on_the_event_loop() -> None:
    callbacks, outcomes, done = Callbacks(), list[Outcome](), Done(b"{}", 1)
    replies = [(pending(Register("s", "{}"), outcomes.append), done)]
    callbacks.deliver(replies)
    assert outcomes == [done]
    await asyncio.to_thread(callbacks.deliver, replies)
    assert outcomes == [done, done]
