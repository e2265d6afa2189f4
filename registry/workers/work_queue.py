"""Queue of queries with worker processes that are started on demand and ended when idle.

A thread per process sends it one query at a time and kills it if it does not answer in time, which is the
only reliable bound for work of unknown duration.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.errors import UNAVAILABLE, UNPROCESSABLE, RegistryError
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import SchemaAnswer

from .worker import Ended, Late, WorkerProcess, WorkRequest, WorkResult

# Queries that may wait; each has a waiting client.
WAITING_MAX = 1000
# Total characters that waiting queries may have; a single query may exceed it.
WAITING_CHARACTERS_MAX = 64 * 1024 * 1024
BUSY = "Too many large schemas are being parsed or compared"
SLOW = "The machine is too busy to parse or compare such schemas in time"
_BROKEN = "A worker process ended twice while it read the schemas"
_log = logging.getLogger(__name__)


class Answered(NamedTuple):
    """An answer, and the seconds of work spent comparing."""

    known: SchemaAnswer
    took_s: float


Done = Callable[[Answered | RegistryError], None]


class Job(NamedTuple):
    """A query in progress."""

    lacking: Unanswered
    done: Done
    wanted: Callable[[], bool]
    # Remaining budget of its request.
    budget_s: float
    # Deadline, in ``time.monotonic()``.
    until: float
    # Characters to parse for it.
    characters: int


class Limits(NamedTuple):
    """Limits for one query, in seconds of work."""

    comparing_s: float
    reading_s: float


class WorkQueue:
    """A queue and its processes; any thread may call :meth:`take`.

    ``beyond`` is called with jobs that take longer than ``limits``. Without it, or if the job's own budget is
    used up, the client is refused with 422.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        nice: int,
        processes_max: int,
        idle_s: float,
        beyond: Callable[[Job], None] | None = None,
        too_long: Callable[[Job, WorkResult], object] = lambda *_: None,
    ) -> None:
        """``too_long`` is called with jobs that take too long and their partial results."""
        self._limits = limits
        self._nice = nice
        self._processes_max = processes_max
        self._idle_s = idle_s
        self._beyond = beyond
        self._too_long = too_long
        self._jobs: deque[Job] = deque()
        self._characters = 0
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False
        self._running: set[WorkerProcess] = set()

    def take(self, job: Job) -> None:
        """Enqueue a job; it gets 503 if too many wait or no process is available."""
        late: list[Job] = []
        with self._changed:
            if not self._has_room_for(job):
                late = self._drop_unwanted()
            taken = not self._closed and self._has_room_for(job) and self._ensure_thread(len(self._jobs) + 1)
            if taken:
                self._jobs.append(job)
                self._characters += job.characters
                self._changed.notify()
        for each in late:
            _reply(each, UNAVAILABLE(SLOW))
        if not taken:
            _reply(job, UNAVAILABLE(BUSY))

    def _has_room_for(self, job: Job) -> bool:
        waiting = len(self._jobs)
        characters = self._characters + job.characters
        return not waiting or (waiting < WAITING_MAX and characters <= WAITING_CHARACTERS_MAX)

    def _drop_unwanted(self) -> list[Job]:
        """Drop unwanted and overdue jobs; return the overdue ones, which still need a reply."""
        now = time.monotonic()
        wanted = [each for each in self._jobs if each.wanted()]
        self._jobs = deque(each for each in wanted if now < each.until)
        self._characters = sum(each.characters for each in self._jobs)
        return [each for each in wanted if each.until <= now]

    def _ensure_thread(self, waiting: int) -> bool:
        """Start a thread if the jobs need one and the limit allows it; return true if there is any."""
        if self._idle < waiting and len(self._threads) < self._processes_max:
            thread = _start_thread("workers", self._serve, "for schema queries")
            if thread is not None:
                self._threads.add(thread)
        return bool(self._threads)

    def close(self) -> None:
        """End the processes; pending queries get 503."""
        with self._changed:
            self._closed = True
            jobs, running = list(self._jobs), list(self._running)
            self._jobs.clear()
            self._characters = 0
            self._changed.notify_all()
        for process in running:
            process.kill()
        for job in jobs:
            _reply(job, UNAVAILABLE(BUSY))

    def _serve(self) -> None:
        process: WorkerProcess | None = None
        try:
            while (job := self._next()) is not None:
                if job.wanted():
                    process = self._answer(process, job)
        except Exception:
            _log.exception("a thread for schema queries failed")
        finally:
            self._leave()
            self._end(process)

    def _next(self) -> Job | None:
        """Return the next job; ``None`` after the idle time or on close: the caller ends."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs or self._closed, self._idle_s)
            self._idle -= 1
            if not self._jobs:
                self._leave()
                return None
            job = self._jobs.popleft()
            self._characters -= job.characters
            return job

    def _leave(self) -> None:
        with self._changed:
            self._threads.discard(threading.current_thread())
            self._ensure_thread(len(self._jobs))

    def _answer(self, process: WorkerProcess | None, job: Job) -> WorkerProcess | None:
        """Answer a job and return the process for the next one.

        A process that died is replaced once: the query need not be the cause (it may be the out-of-memory
        killer, say).
        """
        for last in (False, True):
            left_s = job.until - time.monotonic()
            if left_s <= 0:
                _reply(job, UNAVAILABLE(SLOW))
                return process
            limits = self._limits
            asked = WorkRequest(
                job.lacking.query, min(job.budget_s, limits.comparing_s), limits.reading_s, left_s
            )
            try:
                process = process or self._start_process()
                result = process.ask(asked)
            except Exception as error:
                self._end(process)
                process = None
                if self._closed:
                    _reply(job, UNAVAILABLE(BUSY))
                    return None
                given_up = last or isinstance(error, Late)
                what = "given up" if given_up else "asked again"
                unexpected = not isinstance(error, Late | Ended | OSError)
                _log.warning("a schema query was %s: %s", what, error, exc_info=unexpected)
                if given_up:
                    _reply(job, UNAVAILABLE(SLOW if isinstance(error, Late) else _BROKEN))
                    return None
            else:
                self._finish(job, result)
                return process
        return process

    def _finish(self, job: Job, result: WorkResult) -> None:
        for failure in result.failures():
            _log.error("a schema query failed, and its request gets 500: %s", failure)
        too_long = result.known is None or result.partial
        if result.late:
            _reply(job, UNAVAILABLE(SLOW))
        elif too_long and self._beyond is not None:
            self._beyond(job)
        else:
            if too_long:
                self._too_long(job, result)
            refusal = UNPROCESSABLE(job.lacking.refusal)
            _reply(job, refusal if result.known is None else Answered(result.known, result.took_s))

    def _start_process(self) -> WorkerProcess:
        process = WorkerProcess(self._nice)
        with self._changed:
            self._running.add(process)
            closed = self._closed
        if closed:
            process.kill()
        return process

    def _end(self, process: WorkerProcess | None) -> None:
        if process is not None:
            with self._changed:
                self._running.discard(process)
            process.end()


def _reply(job: Job, outcome: Answered | RegistryError) -> None:
    """Call the job's callback; an error, as from a closed event loop, must not affect other jobs."""
    try:
        job.done(outcome)
    except Exception:
        _log.exception("cannot deliver the answer to a schema query")


def _start_thread(name: str, run: Callable[[], object], purpose: str) -> threading.Thread | None:
    """Return a running daemon thread; log an error and return ``None`` if it cannot be started."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        _log.error("cannot start a thread %s: %s", purpose, error)
        return None
    return thread
