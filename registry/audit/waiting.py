"""Lines that wait for an output which may take long, such as a file on a disk that hangs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import suppress

from registry.base.observe.logs import Throttled

from .sinks import Output

# Lines and bytes that wait.
LINES_MAX = 10_000
BYTES_MAX = 16 << 20
# How long an answer waits for its entry, unless it has to wait for good.
ANSWERS_WAIT_S = 1.0
RETRY_S = 1.0
_log = logging.getLogger(__name__)


class WaitingSink:
    """Writes lines in a thread, in order; a bounded number of them waits.

    Answers wait until their lines are written, so that none is lost with the process. If that takes longer
    than :data:`ANSWERS_WAIT_S`, answers wait no more until the output takes lines again, and lines that fail
    or are too many are lost. With ``required``, answers wait as long as it takes, and lines are tried again.
    """

    def __init__(self, output: Output, *, required: bool = False) -> None:
        """Must be called on the event loop."""
        self._output = output
        self._required = required
        self._failures = Throttled(_log)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        # Numbers of lines since the start.
        self._lost = self._given = self._done = 0
        # Answers that wait, each for the line with this number.
        self._answers: deque[tuple[int, asyncio.Future[None]]] = deque()
        # True while the output has stopped, so that no answer waits for it.
        self._stuck = False
        self._closing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="audit", daemon=True).start()

    @property
    def lost(self) -> int:
        """Number of lines that could not be written."""
        return self._lost

    def write(self, line: bytes, *, awaited: bool = False) -> None:
        """Queue one line; those for which answers wait are bounded by the number of requests."""
        with self._changed:
            full = len(self._waiting) >= LINES_MAX or self._bytes + len(line) > BYTES_MAX
            lost = full and not (self._required and awaited)
            if lost:
                self._lost += 1
            else:
                self._waiting.append(line)
                self._bytes += len(line)
                self._given += 1
                self._changed.notify()
        if lost:
            self._failures.error(
                "%s takes no more entries of the audit log; %d are lost in all", self._output.name, self._lost
            )

    async def written(self) -> None:
        """Wait until the lines given so far are written or lost; not for long, unless that is required."""
        if self._stuck or self._done == self._given:
            return
        answer: asyncio.Future[None] = self._loop.create_future()
        self._answers.append((self._given, answer))
        if self._required:
            await answer
            return
        try:
            await asyncio.wait_for(answer, ANSWERS_WAIT_S)
        except TimeoutError:
            if not self._stuck:
                self._stuck = True
                _log.error(
                    "%s has not taken an entry of the audit log for %.0f s; answers no longer wait for it",
                    self._output.name, ANSWERS_WAIT_S,
                )  # fmt: skip

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        self._closing = True
        if self._done < self._given:
            answer: asyncio.Future[None] = self._loop.create_future()
            self._answers.append((self._given, answer))
            with suppress(TimeoutError):
                await asyncio.wait_for(answer, grace_s)
        with self._changed:
            left, self._waiting = len(self._waiting), deque()
            self._lost += left
            self._changed.notify()
        if left:
            _log.error("%s did not take %d audit entries: the process ends", self._output.name, left)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    break
                line = self._waiting[0]
            self._put(line)
            with self._changed:
                if not self._waiting:  # they were given up
                    break
                self._waiting.popleft()
                self._bytes -= len(line)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._took_one)
        self._output.close()

    def _put(self, line: bytes) -> None:
        """Write a line, or lose it."""
        while problem := self._output.put(line):
            self._failures.error("cannot write to the audit log %s: %s", self._output.name, problem)
            with self._changed:
                if not self._required or self._closing:
                    self._lost += 1 if self._waiting else 0  # otherwise it was given up, and is counted
                    return
                self._changed.wait(RETRY_S)

    def _took_one(self) -> None:
        self._done += 1
        self._stuck = False
        while self._answers and self._answers[0][0] <= self._done:
            _, answer = self._answers.popleft()
            if not answer.done():
                answer.set_result(None)
