"""A worker process as its parent sees it: queries and answers, started, asked one at a time, and killed."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import time
from contextlib import suppress
from typing import NamedTuple

from registry.base.processes.child_process import LENGTH_BYTES, module_command, send
from registry.domain.parsing.schema_queries import SchemaAnswer, SchemaQuery

# The first message: the process has started.
READY = b"ready"


class WorkRequest(NamedTuple):
    """A query and its limits: the seconds of work allowed for parsing and for comparing.

    ``wall_s``: the wall-clock time allowed for all of it.
    """

    query: SchemaQuery
    budget_s: float
    reading_s: float
    wall_s: float = 3600.0


class Stuck(NamedTuple):
    """The number of the query part whose comparison did not finish, and the seconds of work spent on it."""

    part: int
    seconds: float


class WorkResult(NamedTuple):
    """The answer, or ``None`` if it would take too long, and the seconds of work spent comparing.

    ``late``: the wall-clock limit was exceeded because the machine is busy.
    """

    known: SchemaAnswer | None
    took_s: float
    late: bool = False
    # Only the first of several queries are answered; the others would have taken too long.
    partial: bool = False
    # Set if comparing, not parsing, took too long.
    stuck: Stuck | None = None

    def failures(self) -> list[str]:
        """Return the tracebacks of unexpected errors."""
        answers: list[SchemaAnswer | None] = [self.known]
        if self.known is not None and type(self.known.value) is list:
            answers += [each for each in self.known.value if isinstance(each, SchemaAnswer)]
        return [each.failure for each in answers if each is not None and each.failure is not None]


_START_S = 30.0
# Seconds past its limit that a process may take to answer before it is killed.
_SPARE_S = 10.0


class Late(Exception):
    """The process did not answer in time."""


class Ended(Exception):
    """The process has exited."""


class WorkerProcess:
    """A worker process, for use by one thread. ``nice``: the nice value that it runs with."""

    def __init__(self, nice: int) -> None:
        command, environment = module_command("registry.workers.process", str(nice))
        self._process = subprocess.Popen(  # noqa: S603 (our own module)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._ready = False

    def ask(self, asked: WorkRequest) -> WorkResult:
        """Send a query and return the result.

        Raises :class:`Late`, :class:`Ended` and ``OSError``; the process is unusable afterwards.
        """
        assert self._process.stdin is not None
        if not self._ready:
            self._receive(_START_S)
            self._ready = True
        send(self._process.stdin, pickle.dumps(asked))
        result: WorkResult = pickle.loads(self._receive(asked.wall_s + _SPARE_S))  # noqa: S301 (our own process)
        return result

    def _receive(self, wait_s: float) -> bytes:
        until = time.monotonic() + wait_s
        size = int.from_bytes(self._exactly(LENGTH_BYTES, until), "big")
        return self._exactly(size, until)

    def _exactly(self, count: int, until: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        data = bytearray()
        while len(data) < count:
            left_ms = (until - time.monotonic()) * 1000
            if left_ms <= 0 or not poll.poll(left_ms):
                raise Late("no answer in time")
            part = os.read(pipe, count - len(data))
            if not part:
                raise Ended("the worker process has ended")
            data += part
        return bytes(data)

    def kill(self) -> None:
        """Kill the process; a thread waiting in :meth:`ask` notices. Thread-safe."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process and wait for its exit; it holds no state worth keeping."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unsent data in the buffer
                    pipe.close()
        self._process.wait()
