"""Pool of worker processes with separate queues for quick and for long queries.

A query starts in a queue where it may take :data:`QUICK_S`. If it takes longer, it starts over in another
queue, whose processes run at low priority. Queries that took too long there are remembered for a while,
because refused clients often retry.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from registry.base.processes.cores import usable_cores
from registry.domain.errors import UNPROCESSABLE, RegistryError
from registry.domain.lru import Lru
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import PAUSE, SchemaAnswer, SchemaQuery

from .work_queue import (
    BUSY,
    SLOW,
    WAITING_CHARACTERS_MAX,
    WAITING_MAX,
    Answered,
    Done,
    Job,
    Limits,
    WorkQueue,
)
from .worker import WorkResult

__all__ = [
    "BUSY",
    "SLOW",
    "STEPS_AT_ONCE_MAX",
    "TEXT_AT_ONCE_MAX",
    "WAITING_CHARACTERS_MAX",
    "WAITING_MAX",
    "Answered",
    "Done",
    "Pool",
]

# Characters of schemas per request that are parsed in the calling process: about 10 ms, at worst 80 ms.
TEXT_AT_ONCE_MAX = 16 * 1024
# Comparison steps per request that are taken in the calling process: about 10 ms.
STEPS_AT_ONCE_MAX = 2_000
# Seconds of parsing and of comparing after which a query moves to the low-priority queue.
QUICK_S = 0.5
QUICK_NICE, LONG_NICE = 3, 8
LONG_MAX = max(1, min(2, usable_cores() // 2))
IDLE_S = 60.0
# Time allowed for parsing, as a multiple of that for comparing: it grows only linearly with the length.
READING = 4.0
# Wall-clock time that a query may wait and run, as a multiple of its budget.
WALL = READING + 1
# Lower bound of that time for small budgets: a process needs a while to start and to be scheduled.
WALL_LEAST_S = 30.0
# A remaining budget below this counts as zero: sums of seconds are inexact.
LEAST_S = 0.001
# Seconds for which queries that took too long are remembered.
TOO_LONG_S = 300.0
TOO_LONG_CHARACTERS_MAX = 16 * 1024 * 1024
# The fraction of a time that counts as all of it: measurements of the same work vary by as much.
AS_LONG = 0.9


class Pool:
    """Worker processes that answer schema queries; thread-safe.

    ``budget_s``: the time for comparing the schemas of one request, in seconds of work of the worker
    process rather than wall-clock time, so that the load of the machine does not affect the outcome.
    """

    def __init__(self, budget_s: float = 5.0, *, idle_s: float = IDLE_S, quick_s: float = QUICK_S) -> None:
        self.budget_s = budget_s
        self._too_long = _TooLong()
        whole = Limits(budget_s, READING * budget_s)
        self._long = WorkQueue(
            whole, nice=LONG_NICE, processes_max=LONG_MAX, idle_s=idle_s, too_long=self._too_long.add
        )
        if whole.reading_s <= quick_s:
            self._quick = WorkQueue(
                whole, nice=QUICK_NICE, processes_max=1, idle_s=idle_s, too_long=self._too_long.add
            )
        else:
            quick = Limits(min(budget_s, quick_s), quick_s)
            self._quick = WorkQueue(
                quick, nice=QUICK_NICE, processes_max=1, idle_s=idle_s, beyond=self._long.take
            )

    def ask(
        self,
        lacking: Unanswered,
        done: Done,
        *,
        spent_s: float = 0.0,
        until: float | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Submit a query; ``done`` is called once, from any thread, perhaps before this returns.

        It gets 422 with the query's refusal if the request, which has already spent ``spent_s``, exceeds its
        budget; and 503 if too many queries wait, no process is available, or the answer is not ready by
        ``until`` (in ``time.monotonic()``) or within a few times the budget. A query that is no longer
        ``wanted`` when its turn comes is dropped without a reply.
        """
        left_s = self.budget_s - spent_s
        at_once = self._at_once(lacking, left_s)
        if at_once is not None:
            done(at_once)
            return
        latest = time.monotonic() + max(WALL_LEAST_S, WALL * self.budget_s)
        until = latest if until is None else min(until, latest)
        characters = lacking.query.characters
        self._quick.take(Job(lacking, done, wanted, left_s, until, characters))

    def _at_once(self, lacking: Unanswered, left_s: float) -> Answered | RegistryError | None:
        """Return the outcome if it is known without asking a process."""
        if lacking.query == PAUSE:
            return Answered(SchemaAnswer(None), 0.0)
        refused = UNPROCESSABLE(lacking.refusal)
        if left_s < LEAST_S:
            return refused
        before = self._too_long.find(lacking.query, left_s)
        if before is None:
            return None
        return refused if before.known is None else Answered(before.known, left_s)

    def close(self) -> None:
        """End the processes; pending queries get 503."""
        self._quick.close()
        self._long.close()


class _Before(NamedTuple):
    """The outcome of a query that took too long."""

    # The answers to its first parts, as far as they were found in time.
    known: SchemaAnswer | None
    longer_than_s: float
    # When to forget it, in ``time.monotonic()``.
    until: float


class _TooLong:
    """Recent queries that took too long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = Lru[SchemaQuery, _Before](TOO_LONG_CHARACTERS_MAX)

    def add(self, job: Job, result: WorkResult) -> None:
        """Remember the query for a while, and the part that caused it.

        That part may be asked alone the next time, when the answers to the others are known.
        """
        query = job.lacking.query
        with self._lock:
            self._keep(query, result.known, job.budget_s)
            if result.stuck is not None:
                self._keep(query.parts[result.stuck.part], None, result.stuck.seconds)

    def find(self, query: SchemaQuery, left_s: float) -> _Before | None:
        """Return the earlier outcome if the query is known to take longer than ``left_s``.

        A query whose first comparison takes longer than that gets no answer at all.
        """
        first = next((each for each in query.parts if each.other is not None), query)
        with self._lock:
            found = (self._fresh(each) for each in (query, first))
            return next((each for each in found if each and each.longer_than_s >= left_s * AS_LONG), None)

    def _fresh(self, query: SchemaQuery) -> _Before | None:
        kept = self._kept.get(query)
        if kept is None or time.monotonic() < kept.until:
            return kept
        self._kept.remove(query)
        return None

    def _keep(self, query: SchemaQuery, known: SchemaAnswer | None, longer_than_s: float) -> None:
        characters = 1000 + query.characters + (0 if known is None else known.characters)
        # One that weighs too much by itself would evict all others.
        if characters <= TOO_LONG_CHARACTERS_MAX:
            before = _Before(known, longer_than_s, time.monotonic() + TOO_LONG_S)
            self._kept.put(query, before, characters)
