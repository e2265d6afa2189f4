"""The side that asks. What is answered within moments does not wait for what takes as long as it may.

A question begins in a lane where it may take :data:`QUICK_S`. What takes longer begins again in another one,
whose processes have the lowest priority. What was refused there is refused at once for a while, because
whoever is refused often tries again.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from registry.domain.errors import UNPROCESSABLE
from registry.domain.parser import TooMuchText
from registry.domain.questions import Question

from .lane import BUSY, SLOW, WAITING_MAX, Answered, Done, Lane, Limits, Piece

__all__ = [
    "BUSY",
    "SLOW",
    "STEPS_AT_ONCE_MAX",
    "TEXT_AT_ONCE_MAX",
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
"""Seconds of reading and of comparing that a question may take before others go before it."""
QUICK_NICE, LONG_NICE = 3, 8
LONG_MAX = max(1, min(2, (os.cpu_count() or 1) // 2))
IDLE_S = 60.0
READING = 4.0
"""How many times as long as comparing schemas it may take to read them: it grows with their length only."""
WALL = READING + 1
"""How many times its budget a question may wait and be worked at by the clock on the wall."""
WALL_LEAST_S = 30.0
"""The least of that, for small budgets: a process takes a while to start, and to have its turn."""
REFUSED_S = 300.0
REFUSED_CHARACTERS_MAX = 16 * 1024 * 1024


class Pool:
    """Any thread may ask. ``budget_s``: how long the schemas of one request may be compared here.

    Seconds of work of the process that compares, not of the clock on the wall: what becomes of a schema does
    not depend on what else the machine has to do.
    """

    def __init__(self, budget_s: float = 5.0, *, idle_s: float = IDLE_S, quick_s: float = QUICK_S) -> None:
        self.budget_s = budget_s
        self._refused = _Refused()
        whole = Limits(budget_s, READING * budget_s)
        self._long = Lane(
            whole, nice=LONG_NICE, processes_max=LONG_MAX, idle_s=idle_s, refused=self._refused.add
        )
        if whole.reading_s <= quick_s:
            self._quick = Lane(
                whole, nice=QUICK_NICE, processes_max=1, idle_s=idle_s, refused=self._refused.add
            )
        else:
            quick = Limits(min(budget_s, quick_s), quick_s)
            self._quick = Lane(quick, nice=QUICK_NICE, processes_max=1, idle_s=idle_s, beyond=self._long.take)

    def ask(
        self,
        too_much: TooMuchText,
        done: Done,
        *,
        spent_s: float = 0.0,
        until: float | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Have a question answered; ``done`` is called once, by any thread, perhaps before this returns.

        It gets 422 with the refusal where the request, which has spent ``spent_s`` already, takes longer than
        its budget; and 503 where too much waits, nobody can answer, or the machine does not come to it by
        ``until`` (as ``time.monotonic()`` tells), or within a few times the budget. What is not ``wanted``
        any more when its turn comes is dropped, and not told.
        """
        left_s = self.budget_s - spent_s
        if left_s <= 0 or self._refused.holds(too_much.question, left_s):
            done(UNPROCESSABLE(too_much.refusal))
            return
        latest = time.monotonic() + max(WALL_LEAST_S, WALL * self.budget_s)
        until = latest if until is None else min(until, latest)
        self._quick.take(Piece(too_much, done, wanted, left_s, until))

    def close(self) -> None:
        """End the processes; whoever waits is told 503."""
        self._quick.close()
        self._long.close()


class _Refused:
    """Questions that took too long of late, and what of their budgets was left then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Question, tuple[float, float]] = OrderedDict()
        self._characters = 0

    def add(self, piece: Piece) -> None:
        """Remember it for a while."""
        question = piece.too_much.question
        characters = _characters(question)
        if characters > REFUSED_CHARACTERS_MAX:
            return
        with self._lock:
            if question not in self._kept:
                self._characters += characters
            self._kept[question] = (piece.budget_s, time.monotonic() + REFUSED_S)
            while self._characters > REFUSED_CHARACTERS_MAX:
                self._drop(next(iter(self._kept)))

    def holds(self, question: Question, left_s: float) -> bool:
        """Whether it is known to take longer than ``left_s``."""
        with self._lock:
            known = self._kept.get(question)
            if known is None:
                return False
            budget_s, until = known
            if until < time.monotonic():
                self._drop(question)
                return False
            return left_s <= budget_s

    def _drop(self, question: Question) -> None:
        del self._kept[question]
        self._characters -= _characters(question)


def _characters(question: Question) -> int:
    return 1000 + sum(each.characters for each in question.parts)
