"""The side that asks. What is answered within moments does not wait for what takes as long as it may.

A query begins in a lane where it may take :data:`QUICK_S`. What takes longer begins again in another one,
whose processes let most others on the machine go before them. What took too long there is remembered for a
while, because whoever is refused often tries again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.errors import UNPROCESSABLE, RegistryError
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import PAUSE, SchemaAnswer, SchemaQuery

from .messages import WorkResult
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

TEXT_AT_ONCE_MAX = 16 * 1024
"""Characters of schemas that are parsed where it comes in for one request: some 10 ms, 80 at the worst."""
STEPS_AT_ONCE_MAX = 2_000
"""Steps of comparing where it comes in for one request: some 10 ms."""
QUICK_S = 0.5
"""Seconds of reading and of comparing that a query may take before others go before it."""
QUICK_NICE, LONG_NICE = 3, 8
LONG_MAX = max(1, min(2, (os.cpu_count() or 1) // 2))
IDLE_S = 60.0
READING = 4.0
"""How many times as long as comparing schemas it may take to read them: it grows with their length only."""
WALL = READING + 1
"""How many times its budget a query may wait and be worked at by the clock on the wall."""
WALL_LEAST_S = 30.0
"""The least of that, for small budgets: a process takes a while to start, and to have its turn."""
LEAST_S = 0.001
"""What is left of a budget, and less than that, is nothing: sums of seconds are not exact."""
TOO_LONG_S = 300.0
"""How long it is remembered what took too long."""
TOO_LONG_CHARACTERS_MAX = 16 * 1024 * 1024
AS_LONG = 0.9
"""The fraction of a time that counts as all of it: the same work measured again differs by as much."""


class Pool:
    """Any thread may ask. ``budget_s``: how long the schemas of one request may be compared here.

    Seconds of work of the process that compares, not of the clock on the wall: what becomes of a schema does
    not depend on what else the machine has to do.
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
        """Have a query answered; ``done`` is called once, by any thread, perhaps before this returns.

        It gets 422 with the refusal where the request, which has spent ``spent_s`` already, takes longer than
        its budget; and 503 where too much waits, nobody can answer, or the machine does not come to it by
        ``until`` (as ``time.monotonic()`` tells), or within a few times the budget. What is not ``wanted``
        any more when its turn comes is dropped, and not told.
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
        """What can be said without asking a process, if anything."""
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
        """End the processes; whoever waits is told 503."""
        self._quick.close()
        self._long.close()


class _Before(NamedTuple):
    """What came of a query that took too long."""

    known: SchemaAnswer | None
    """The answers to its first parts, where these were found by then."""
    longer_than_s: float
    until: float
    """How long to remember it, by ``time.monotonic()``."""
    characters: int


class _TooLong:
    """Questions that took too long of late."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[SchemaQuery, _Before] = OrderedDict()
        self._characters = 0

    def add(self, job: Job, told: WorkResult) -> None:
        """Remember it for a while, and the part of it that is to blame.

        That one may be asked alone the next time, because what the others say is known by then.
        """
        query = job.lacking.query
        with self._lock:
            self._keep(query, told.known, job.budget_s)
            if told.stuck is not None:
                self._keep(query.parts[told.stuck.part], None, told.stuck.seconds)

    def find(self, query: SchemaQuery, left_s: float) -> _Before | None:
        """What came of it before, where it is known to take longer than ``left_s``.

        A query of which the first comparison takes longer than that gets no answer at all.
        """
        first = next((each for each in query.parts if each.other is not None), query)
        with self._lock:
            found = (self._fresh(each) for each in (query, first))
            return next((each for each in found if each and each.longer_than_s >= left_s * AS_LONG), None)

    def _fresh(self, query: SchemaQuery) -> _Before | None:
        kept = self._kept.get(query)
        if kept is None or time.monotonic() < kept.until:
            return kept
        self._drop(query)
        return None

    def _keep(self, query: SchemaQuery, known: SchemaAnswer | None, longer_than_s: float) -> None:
        characters = 1000 + query.characters + (0 if known is None else known.characters)
        if characters > TOO_LONG_CHARACTERS_MAX:
            return
        self._drop(query)
        self._kept[query] = _Before(known, longer_than_s, time.monotonic() + TOO_LONG_S, characters)
        self._characters += characters
        while self._characters > TOO_LONG_CHARACTERS_MAX:
            self._drop(next(iter(self._kept)))

    def _drop(self, query: SchemaQuery) -> None:
        kept = self._kept.pop(query, None)
        if kept is not None:
            self._characters -= kept.characters
