"""A queue of queries and the processes that answer them, started when needed and ended when idle.

Each process has a thread here that gives it one query at a time, and kills it where it does not answer in
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
from registry.domain.parsing.querying import Unanswered
from registry.domain.parsing.schema_queries import SchemaAnswer
from registry.processes.threads import begun

from .messages import WorkRequest, WorkResult
from .worker import Ended, Late, WorkerProcess

WAITING_MAX = 1000
"""Questions that may wait: each is a client that waits, too."""
WAITING_CHARACTERS_MAX = 64 * 1024 * 1024
"""And how much there may be to read for them, unless it is one query."""
BUSY = "Too many large schemas are being parsed or compared"
SLOW = "The machine is too busy to parse or compare such schemas in time"
_BROKEN = "A process that was to read schemas has ended twice"
_log = logging.getLogger(__name__)


class Answered(NamedTuple):
    """An answer, and the seconds of work that comparing took."""

    known: SchemaAnswer
    took_s: float


Done = Callable[[Answered | RegistryError], None]


class Job(NamedTuple):
    """A query on its way."""

    lacking: Unanswered
    done: Done
    wanted: Callable[[], bool]
    budget_s: float
    """What is left of the request's."""
    until: float
    """When it is too late, by ``time.monotonic()``."""
    characters: int
    """How much there is to read for it."""


class Limits(NamedTuple):
    """What a lane does for one query, in seconds of work."""

    comparing_s: float
    reading_s: float


class WorkQueue:
    """Any thread may :meth:`take`. ``beyond`` is called with what takes longer than ``limits``.

    Where that is missing, or the job's own budget is used up, the client is refused with 422.
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
        """``too_long`` is told of jobs that take too long, and of what is known of them."""
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
        """Have it answered; 503 where too much waits, or nobody can answer."""
        late: list[Job] = []
        with self._changed:
            if not self._has_room_for(job):
                late = self._tidied()
            taken = not self._closed and self._has_room_for(job) and self._staff(len(self._jobs) + 1)
            if taken:
                self._jobs.append(job)
                self._characters += job.characters
                self._changed.notify()
        for each in late:
            _tell(each, UNAVAILABLE(SLOW))
        if not taken:
            _tell(job, UNAVAILABLE(BUSY))

    def _has_room_for(self, job: Job) -> bool:
        waiting = len(self._jobs)
        characters = self._characters + job.characters
        return not waiting or (waiting < WAITING_MAX and characters <= WAITING_CHARACTERS_MAX)

    def _tidied(self) -> list[Job]:
        """Drop what nobody waits for any more; the jobs that are still to be told that it is too late."""
        now = time.monotonic()
        wanted = [each for each in self._jobs if each.wanted()]
        self._jobs = deque(each for each in wanted if now < each.until)
        self._characters = sum(each.characters for each in self._jobs)
        return [each for each in wanted if each.until <= now]

    def _staff(self, waiting: int) -> bool:
        """Start a thread where so many jobs want one and may have it; whether there is any."""
        if self._idle < waiting and len(self._threads) < self._processes_max:
            thread = begun("aside", self._serve, "for queries about schemas")
            if thread is not None:
                self._threads.add(thread)
        return bool(self._threads)

    def close(self) -> None:
        """End the processes; whoever waits is told 503."""
        with self._changed:
            self._closed = True
            jobs, running = list(self._jobs), list(self._running)
            self._jobs.clear()
            self._characters = 0
            self._changed.notify_all()
        for process in running:
            process.kill()
        for job in jobs:
            _tell(job, UNAVAILABLE(BUSY))

    def _serve(self) -> None:
        process: WorkerProcess | None = None
        try:
            while (job := self._next()) is not None:
                if job.wanted():
                    process = self._answer(process, job)
        except Exception:
            _log.exception("a thread for queries about schemas has failed")
        finally:
            self._leave()
            self._end(process)

    def _next(self) -> Job | None:
        """The next job; ``None`` when there was none for long: the caller ends."""
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
            self._staff(len(self._jobs))

    def _answer(self, process: WorkerProcess | None, job: Job) -> WorkerProcess | None:
        """Answer a job; the process for the next one.

        A process that is gone is replaced once, because whatever ended it (memory that others want, say) need
        have nothing to do with the query.
        """
        for last in (False, True):
            left_s = job.until - time.monotonic()
            if left_s <= 0:
                _tell(job, UNAVAILABLE(SLOW))
                return process
            limits = self._limits
            asked = WorkRequest(
                job.lacking.query, min(job.budget_s, limits.comparing_s), limits.reading_s, left_s
            )
            try:
                process = process or self._started()
                told = process.ask(asked)
            except Exception as error:
                self._end(process)
                process = None
                if self._closed:
                    _tell(job, UNAVAILABLE(BUSY))
                    return None
                given_up = last or isinstance(error, Late)
                what = "given up" if given_up else "asked again"
                unexpected = not isinstance(error, Late | Ended | OSError)
                _log.warning("a query about schemas was %s: %s", what, error, exc_info=unexpected)
                if given_up:
                    _tell(job, UNAVAILABLE(SLOW if isinstance(error, Late) else _BROKEN))
                    return None
            else:
                self._done(job, told)
                return process
        return process

    def _done(self, job: Job, told: WorkResult) -> None:
        for failure in told.failures():
            _log.error("a query about a schema failed, and its request gets 500: %s", failure)
        too_long = told.known is None or told.partial
        if told.late:
            _tell(job, UNAVAILABLE(SLOW))
        elif too_long and self._beyond is not None:
            self._beyond(job)
        else:
            if too_long:
                self._too_long(job, told)
            refusal = UNPROCESSABLE(job.lacking.refusal)
            _tell(job, refusal if told.known is None else Answered(told.known, told.took_s))

    def _started(self) -> WorkerProcess:
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


def _tell(job: Job, outcome: Answered | RegistryError) -> None:
    """Whoever asked may be gone, as a loop is that has been closed; the others want their answers."""
    try:
        job.done(outcome)
    except Exception:
        _log.exception("an answer about schemas could not be told")
