"""Destinations of the audit log: a file, standard output, or a Kafka topic.

A destination never delays or refuses a request. What it cannot take is counted as lost and logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from registry.domain.log_format.records import Entry
from registry.log.contract import LogError
from registry.observe.logs import Throttled

# Lines and bytes that wait for Kafka.
LINES_MAX = 10_000
BYTES_MAX = 16 << 20
# Lines that are sent at once.
SENT_MAX = 500
RETRY_S = 1.0
CHECK_EVERY_S = 1.0
_log = logging.getLogger(__name__)
_failures = Throttled(_log)
_T = TypeVar("_T")


class Sink(Protocol):
    """Takes lines; all calls come from one event loop."""

    # Lines that could not be written.
    lost: int

    def write(self, line: bytes) -> None:
        """Take one line, which ends with a line feed."""
        ...

    async def close(self, grace_s: float) -> None:
        """Write what waits, for up to ``grace_s`` seconds."""
        ...


class FileSink:
    """Appends to a file, which other processes append to as well, and opens it again when it was rotated."""

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Open the file, readable only for its user. Raises :class:`OSError`."""
        self.lost = 0
        self._path = Path(path)
        self._clock = clock
        self._file = self._open()
        self._checked = clock()

    def write(self, line: bytes) -> None:
        """Append one line, at once."""
        try:
            if self._clock() - self._checked >= CHECK_EVERY_S:
                self._reopen()
            os.write(self._file, line)
        except OSError as error:
            self.lost += 1
            _failures.error("cannot write to the audit log %s: %s", self._path, error.strerror or error)

    async def close(self, grace_s: float) -> None:
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
        self._file = new


class StdoutSink:
    """Prints to standard output."""

    def __init__(self) -> None:
        self.lost = 0

    def write(self, line: bytes) -> None:
        """Print one line, at once."""
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except OSError as error:
            self.lost += 1
            _failures.error("cannot print the audit log: %s", error.strerror or error)

    async def close(self, grace_s: float) -> None:
        """Do nothing: every line was flushed."""


class Topic(Protocol):
    """The part of a log in Kafka that a sink needs. Its calls block."""

    def append(self, entries: Sequence[Entry]) -> int:
        """Append records; return the last offset."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class KafkaSink:
    """Sends lines to a topic; while the brokers cannot be reached, a bounded number of them waits.

    A line is sent again if its outcome is unknown, so it may be there twice, but is not lost.
    """

    def __init__(self, name: str, topic: Callable[[], Topic]) -> None:
        """``topic`` opens the topic ``name`` and raises :class:`LogError`."""
        self.lost = 0
        self._name = name
        self._open = topic
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(LINES_MAX)
        self._bytes = 0
        self._closing = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def write(self, line: bytes) -> None:
        """Queue one line."""
        if self._waiting.full() or self._bytes + len(line) > BYTES_MAX:
            self.lost += 1
            _failures.error("the topic %s takes no audit entries; %d are lost", self._name, self.lost)
            return
        self._bytes += len(line)
        self._waiting.put_nowait(line)

    async def close(self, grace_s: float) -> None:
        """Send what waits, for up to ``grace_s`` seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._waiting.join(), grace_s)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._waiting.qsize():
            _log.error("%d audit entries were not sent to %s", self._waiting.qsize(), self._name)

    async def _run(self) -> None:
        opening = asyncio.ensure_future(self._repeated(self._open))
        try:
            topic = await asyncio.shield(opening)
            while True:
                lines = [await self._waiting.get()]
                while len(lines) < SENT_MAX and not self._waiting.empty():
                    lines.append(self._waiting.get_nowait())
                entries = [Entry(b"", each.rstrip(b"\n")) for each in lines]
                await self._repeated(partial(topic.append, entries))
                self._bytes -= sum(map(len, lines))
                for _ in lines:
                    self._waiting.task_done()
        finally:
            await self._close(opening)

    async def _close(self, opening: asyncio.Future[Topic]) -> None:
        # A thread that is opening the topic cannot be cancelled: what it has opened must be closed.
        self._closing = True
        with suppress(LogError):
            topic = await opening
            await asyncio.to_thread(topic.close)

    async def _repeated(self, call: Callable[[], _T]) -> _T:
        """Return the result of a blocking call, which is made again and again until it succeeds."""
        while True:
            try:
                return await asyncio.to_thread(call)
            except LogError as error:
                if self._closing:
                    raise
                _failures.error("cannot send audit entries to the topic %s: %s; retrying", self._name, error)
                await asyncio.sleep(RETRY_S)
