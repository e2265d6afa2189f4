"""Destinations of the audit log: a file and standard output, and lines that wait for a slow one.

Their calls last as long as the disk or the reader of the pipe takes, so :class:`WaitingSink` calls them
in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from registry.base.observe.logs import Throttled

CHECK_EVERY_S = 1.0
STDOUT_FILE = 1


class Sink(Protocol):
    """Takes lines; all calls come from one event loop."""

    @property
    def lost_count(self) -> int:
        """Number of lines that could not be written."""
        ...

    def write(self, line: bytes, *, awaited: bool = False) -> None:
        """Take one line, which ends with a line feed; ``awaited``: an answer will wait for it."""
        ...

    async def wait_written(self) -> None:
        """Wait until the lines are written, if answers have to wait for that."""
        ...

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        ...


class Output(Protocol):
    """Takes lines, and waits until they are written; all calls come from one thread."""

    # For messages.
    name: str

    def put(self, line: bytes) -> str:
        """Write one line, which ends with a line feed; return why that failed, or nothing."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Stdout:
    """Standard output, or the descriptor ``file``."""

    name = "standard output"

    def __init__(self, file: int = STDOUT_FILE) -> None:
        self._file = file
        # True if the output ends within a line, of which the rest is lost.
        self._torn = False

    def put(self, line: bytes) -> str:
        """Print one line."""
        text = b"\n" + line if self._torn else line
        try:
            written = os.write(self._file, text)
        except OSError as error:
            return error.strerror or str(error)
        self._torn = written < len(text) and not text[:written].endswith(b"\n")
        return "only a part of an entry was written" if written < len(text) else ""

    def close(self) -> None:
        """Do nothing: others print as well."""


class File(Stdout):
    """A file, to which other processes append as well; it is opened again when it was rotated."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the file, readable only for its user. Raises :class:`OSError`."""
        self._path = Path(path)
        self.name = str(path)
        super().__init__(self._open())
        self._clock = clock
        self._checked = clock()

    def put(self, line: bytes) -> str:
        """Append one line."""
        try:
            if self._clock() - self._checked >= CHECK_EVERY_S:
                self._reopen()
            if self._torn:  # unless another process has begun a line since then
                self._torn = _ends_within_a_line(self._path)
        except OSError as error:
            problem = error.strerror or str(error)
        else:
            problem = super().put(line)
        if problem:
            # Also if nothing was written: another process may have torn a line on the same full disk.
            self._torn = True
        return problem

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _reopen(self) -> None:
        self._checked = self._clock()
        with suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._file)):
                return
        new = self._open()
        os.close(self._file)
        self._file, self._torn = new, False


def _ends_within_a_line(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # it is empty, or no file
        return False


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
    def lost_count(self) -> int:
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
                "%s accepts no more audit entries; %d lost in total", self._output.name, self._lost
            )

    async def wait_written(self) -> None:
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
                    "%s has accepted no audit entry for %.0f s; responses no longer wait for it",
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
            _log.error("%s did not accept %d audit entries before the process ended", self._output.name, left)

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
