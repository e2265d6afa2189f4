"""A queue of questions and the processes that answer them, started when needed and ended when idle.

Each process has a thread here that gives it one question at a time, and kills it where it does not answer in
time, which is the only sure bound there is for work of which nobody knows how it goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.errors import UNAVAILABLE, UNPROCESSABLE, RegistryError
from registry.domain.parser import TooMuchText
from registry.domain.questions import Known

from .messages import Asked, Told
from .running import Ended, Late, Running

WAITING_MAX = 16
BUSY = "Too many large schemas are being parsed or compared"
SLOW = "The machine is too busy to parse or compare such schemas in time"
_BROKEN = "A process that was to read schemas has ended twice"
_log = logging.getLogger(__name__)


class Answered(NamedTuple):
    """An answer, and the seconds of work that comparing took."""

    known: Known
    took_s: float


Done = Callable[[Answered | RegistryError], None]


class Piece(NamedTuple):
    """A question on its way."""

    too_much: TooMuchText
    done: Done
    wanted: Callable[[], bool]
    budget_s: float
    """What is left of the request's."""
    until: float
    """When it is too late, by ``time.monotonic()``."""


class Limits(NamedTuple):
    """What a lane does for one question, in seconds of work."""

    comparing_s: float
    reading_s: float


class Lane:
    """Any thread may :meth:`take`. ``beyond`` is called with what takes longer than ``limits``.

    Where that is missing, or the piece's own budget is used up, the client is refused with 422.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        nice: int,
        processes_max: int,
        idle_s: float,
        beyond: Callable[[Piece], None] | None = None,
        refused: Callable[[Piece], object] = lambda _: None,
    ) -> None:
        """``refused`` is told of pieces that were refused because they take too long."""
        self._limits = limits
        self._nice = nice
        self._processes_max = processes_max
        self._idle_s = idle_s
        self._beyond = beyond
        self._refused = refused
        self._pieces: deque[Piece] = deque()
        self._changed = threading.Condition()
        self._threads = self._idle = 0
        self._closed = False
        self._running: set[Running] = set()

    def take(self, piece: Piece) -> None:
        """Have it answered; 503 where too much waits."""
        with self._changed:
            taken = not self._closed and len(self._pieces) < WAITING_MAX
            if taken:
                self._pieces.append(piece)
                if self._idle < len(self._pieces) and self._threads < self._processes_max:
                    self._threads += 1
                    threading.Thread(target=self._serve, name="aside", daemon=True).start()
                self._changed.notify()
        if not taken:
            piece.done(UNAVAILABLE(BUSY))

    def close(self) -> None:
        """End the processes; whoever waits is told 503."""
        with self._changed:
            self._closed = True
            pieces, running = list(self._pieces), list(self._running)
            self._pieces.clear()
            self._changed.notify_all()
        for process in running:
            process.kill()
        for piece in pieces:
            piece.done(UNAVAILABLE(BUSY))

    def _serve(self) -> None:
        process: Running | None = None
        while (piece := self._next()) is not None:
            if piece.wanted():
                process = self._answer(process, piece)
        self._end(process)

    def _next(self) -> Piece | None:
        """The next piece; ``None`` when there was none for long: the caller ends."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._pieces or self._closed, self._idle_s)
            self._idle -= 1
            if self._pieces:
                return self._pieces.popleft()
            self._threads -= 1
            return None

    def _answer(self, process: Running | None, piece: Piece) -> Running | None:
        """Answer a piece; the process for the next one.

        A process that is gone is replaced once, because whatever ended it (memory that others want, say) need
        have nothing to do with the question.
        """
        for last in (False, True):
            left_s = piece.until - time.monotonic()
            if left_s <= 0:
                piece.done(UNAVAILABLE(SLOW))
                return process
            limits = self._limits
            asked = Asked(
                piece.too_much.question, min(piece.budget_s, limits.comparing_s), limits.reading_s, left_s
            )
            try:
                process = process or self._started()
                told = process.ask(asked)
            except (Late, Ended, OSError) as error:
                self._end(process)
                process = None
                if self._closed:
                    piece.done(UNAVAILABLE(BUSY))
                    return None
                given_up = last or isinstance(error, Late)
                _log.warning(
                    "a question about schemas was %s: %s", "given up" if given_up else "asked again", error
                )
                if given_up:
                    piece.done(UNAVAILABLE(SLOW if isinstance(error, Late) else _BROKEN))
                    return None
            else:
                self._tell(piece, told)
                return process
        return process

    def _tell(self, piece: Piece, told: Told) -> None:
        if told.known is not None and not (told.partial and self._beyond is not None):
            piece.done(Answered(told.known, told.took_s))
        elif told.late:
            piece.done(UNAVAILABLE(SLOW))
        elif self._beyond is not None:
            self._beyond(piece)
        else:
            self._refused(piece)
            piece.done(UNPROCESSABLE(piece.too_much.refusal))

    def _started(self) -> Running:
        process = Running(self._nice)
        with self._changed:
            self._running.add(process)
            closed = self._closed
        if closed:
            process.kill()
        return process

    def _end(self, process: Running | None) -> None:
        if process is not None:
            with self._changed:
                self._running.discard(process)
            process.end()
