"""The side that asks: a few processes, started when they are needed and ended when they are idle.

Each has a thread here that gives it one question at a time, and kills it where it does not answer in time,
which is the only sure bound there is for work of which nobody knows how it goes on.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from registry.domain.errors import UNAVAILABLE, UNPROCESSABLE, RegistryError
from registry.domain.parser import TooMuchText
from registry.domain.questions import Known
from registry.modules import module_command

from .messages import LENGTH_BYTES, Asked, Told, send

TEXT_AT_ONCE_MAX = 64 * 1024
"""Characters of schemas that are parsed where it comes in for one request: some 30 ms."""
STEPS_AT_ONCE_MAX = 5_000
"""Steps of comparing where it comes in for one request: some 30 ms."""
PROCESSES_MAX = 2
WAITING_MAX = 16
IDLE_S = 60.0
READING = 4.0
"""How many times as long as comparing schemas it may take to read them: it grows with their length only."""
_START_S = 30.0
_SPARE_S = 30.0
"""How much longer the clock on the wall may run, because the machine has other things to do."""
_BUSY = "Too many large schemas are being parsed or compared"
_BROKEN = "A process that was to read schemas has ended twice"
_log = logging.getLogger(__name__)


class Answered(NamedTuple):
    """An answer, and the seconds of work that it took."""

    known: Known
    took_s: float


Done = Callable[[Answered | RegistryError], None]


class _Piece(NamedTuple):
    asked: Asked
    refusal: str
    done: Done
    wanted: Callable[[], bool]


class _Late(Exception):
    """The process does not answer in time."""


class _Ended(Exception):
    """The process is gone."""


class Pool:
    """Any thread may ask. ``budget_s``: how long the schemas of one request may be compared here."""

    def __init__(
        self, budget_s: float = 5.0, *, processes_max: int = PROCESSES_MAX, idle_s: float = IDLE_S
    ) -> None:
        self.budget_s = budget_s
        self._processes_max = processes_max
        self._idle_s = idle_s
        self._pieces: deque[_Piece] = deque()
        self._changed = threading.Condition()
        self._threads = self._idle = 0
        self._closed = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def ask(
        self,
        too_much: TooMuchText,
        done: Done,
        *,
        spent_s: float = 0.0,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Have a question answered; ``done`` is called once, by any thread, perhaps before this returns.

        It gets 422 with the refusal where the request, which has spent ``spent_s`` already, takes longer than
        its budget, and 503 where too much waits or nobody can
        answer. What is not ``wanted`` any more when its turn comes is
        dropped, and not told.
        """
        left_s = self.budget_s - spent_s
        if left_s <= 0:
            done(UNPROCESSABLE(too_much.refusal))
            return
        asked = Asked(too_much.question, left_s, READING * self.budget_s)
        piece = _Piece(asked, too_much.refusal, done, wanted)
        with self._changed:
            taken = not self._closed and len(self._pieces) < WAITING_MAX
            if taken:
                self._pieces.append(piece)
                if self._idle < len(self._pieces) and self._threads < self._processes_max:
                    self._threads += 1
                    threading.Thread(target=self._serve, name="aside", daemon=True).start()
                self._changed.notify()
        if not taken:
            done(UNAVAILABLE(_BUSY))

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
            piece.done(UNAVAILABLE(_BUSY))

    def _serve(self) -> None:
        process: _Process | None = None
        while (piece := self._next()) is not None:
            if not piece.wanted():
                continue
            process, outcome = self._outcome(process, piece)
            piece.done(outcome)
        self._end(process)

    def _outcome(
        self, process: _Process | None, piece: _Piece
    ) -> tuple[_Process | None, Answered | RegistryError]:
        """What comes of a piece, and the process for the next one.

        A process that is gone is replaced once, because whatever ended it (memory that others want, say) need
        have nothing to do with the question.
        """
        for last in (False, True):
            try:
                process = process or self._started()
                told = process.ask(piece.asked, (READING + 1) * self.budget_s + _SPARE_S)
            except (_Late, _Ended, OSError) as error:
                self._end(process)
                process = None
                if self._closed:
                    break
                given_up = last or isinstance(error, _Late)
                _log.warning(
                    "a question about schemas was %s: %s", "given up" if given_up else "asked again", error
                )
                if given_up:
                    return None, UNAVAILABLE(_BUSY if isinstance(error, _Late) else _BROKEN)
            else:
                return process, _outcome(piece, told)
        return None, UNAVAILABLE(_BUSY)

    def _next(self) -> _Piece | None:
        """The next piece; ``None`` when there was none for long: the caller ends."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._pieces or self._closed, self._idle_s)
            self._idle -= 1
            if self._pieces:
                return self._pieces.popleft()
            self._threads -= 1
            return None

    def _started(self) -> _Process:
        process = _Process()
        with self._changed:
            self._running.add(process.process)
            closed = self._closed
        if closed:
            process.process.kill()
        return process

    def _end(self, process: _Process | None) -> None:
        if process is not None:
            with self._changed:
                self._running.discard(process.process)
            process.end()


def _outcome(piece: _Piece, told: Told) -> Answered | RegistryError:
    if told.known is None:
        return UNPROCESSABLE(piece.refusal)
    return Answered(told.known, told.took_s)


class _Process:
    """One process, for one thread."""

    def __init__(self) -> None:
        command, environment = module_command("registry.aside.process")
        self.process = subprocess.Popen(  # noqa: S603 (our own module)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._ready = False

    def ask(self, asked: Asked, wait_s: float) -> Told:
        """Raises :class:`_Late`, :class:`_Ended` and ``OSError``; then the process is of no more use."""
        assert self.process.stdin is not None
        if not self._ready:
            self._receive(_START_S)
            self._ready = True
        send(self.process.stdin, pickle.dumps(asked))
        told: Told = pickle.loads(self._receive(wait_s))  # noqa: S301 (from our own process)
        return told

    def _receive(self, wait_s: float) -> bytes:
        until = time.monotonic() + wait_s
        size = int.from_bytes(self._exactly(LENGTH_BYTES, until), "big")
        return self._exactly(size, until)

    def _exactly(self, count: int, until: float) -> bytes:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        data = bytearray()
        while len(data) < count:
            left_ms = (until - time.monotonic()) * 1000
            if left_ms <= 0 or not poll.poll(left_ms):
                raise _Late("no answer in time")
            part = os.read(pipe, count - len(data))
            if not part:
                raise _Ended("the process beside has ended")
            data += part
        return bytes(data)

    def end(self) -> None:
        """Kill it and wait until it is gone; it holds nothing."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it was not sent any more
                    pipe.close()
        self.process.wait()
