"""Commands that wait for workers to answer a slow schema query, and are then queued again.

The workers' answers depend on schema texts alone, so they stay valid whatever is written in the meantime.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.commands import refused
from registry.domain.errors import UNAVAILABLE, RegistryError
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import facts
from registry.domain.pending_command import PendingCommand
from registry.workers.pool import SLOW, Answered, Pool

from .queue import Queue

# Seconds before its deadline at which a postponed command is refused because its query is not answered yet.
SPARE_S = 0.5
_SLOW = f"Nothing was written. {SLOW}"


class Workers(NamedTuple):
    """Worker processes, and the timer for queries that they do not answer in time."""

    pool: Pool
    # Schedules a call after a number of seconds, on another thread.
    call_later: Callable[[float, Callable[[], None]], None]


class PostponedCommands:
    """Commands of ``queue`` that are not queued now, because ``workers`` answer their queries."""

    def __init__(self, queue: Queue, workers: Workers, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._workers = workers
        self._clock = clock

    def add(self, pending: PendingCommand, lacking: Unanswered) -> None:
        """Have workers answer the query; refuse the command (503) if they do not answer in time."""
        # The thread that pops the command replies or queues it again; the timer then holds an empty list.
        waiting = [pending]

        def timed_out() -> None:
            if taken := _pop(waiting):
                self._queue.reply(taken, [refused(UNAVAILABLE(_SLOW))])

        def done(outcome: Answered | RegistryError) -> None:
            if not (taken := _pop(waiting)):
                return
            if isinstance(outcome, RegistryError):
                self._queue.reply(taken, [refused(outcome)])
                return
            taken[0].facts = {**taken[0].facts, **facts(lacking.query, outcome.known)}
            taken[0].spent_s += outcome.took_s
            self._queue.put_back(taken, "")

        left_s = max(0.0, pending.deadline - self._clock() - SPARE_S)
        self._workers.call_later(left_s, timed_out)
        until = time.monotonic() + left_s
        self._workers.pool.ask(
            lacking, done, spent_s=pending.spent_s, until=until, wanted=lambda: bool(waiting)
        )


def _pop(waiting: list[PendingCommand]) -> list[PendingCommand]:
    """Take the command if no other thread has; ``pop`` is atomic."""
    try:
        return [waiting.pop()]
    except IndexError:
        return []
