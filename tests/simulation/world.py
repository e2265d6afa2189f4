"""Simulated tasks with their own clock: one runs at a time, and a seeded random choice says which is next.

Code that blocks in production yields here instead, whenever it calls the log or the election; between two
such calls a task runs alone. So a seed identifies one interleaving exactly.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from greenlet import getcurrent, greenlet

START_MS = 1_700_000_000_000
# The average duration of a task's turn, in seconds.
MOMENT_S = 0.0002


class Killed(BaseException):
    """The process of this task was killed: raised where it yields, so that nothing of it continues."""


class Process:
    """Tasks that are frozen and killed together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.frozen = False
        self.dead = False
        self.when_killed: list[Callable[[], None]] = []

    def die(self) -> None:
        """Let nothing of it continue."""
        self.dead, self.frozen = True, False
        for call in self.when_killed:
            call()
        self.when_killed.clear()


class Note(NamedTuple):
    """Something that happened to a node, or in the partition."""

    what: str
    who: str
    about: Any
    # The applied offsets of all nodes.
    applied: dict[str, int]


class Task:
    """One thread of control."""

    def __init__(self, world: World, process: Process, run: Callable[[], None]) -> None:
        self.process = process
        self.wakes_at = world.now
        self.waits_for: Callable[[], Any] | None = None
        # False once ``waits_for`` was false, until somebody says that it may have changed ...
        self.notified = False
        # ... unless nobody does: then it is looked at in every turn.
        self.looks = False
        self._run = run
        self.greenlet = greenlet(self._whole, parent=world.loop)
        self.ended = False

    def _whole(self) -> None:
        try:
            if not self.process.dead:
                self._run()
        except Killed:
            pass
        finally:
            self.ended = True

    def sees_its_condition(self) -> bool:
        """Return true if what it waits for is true by now."""
        found = self.waits_for is not None and bool(self.waits_for())
        self.notified = found or self.looks
        return found


class World:
    """The clock, the random numbers and the tasks."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        # Seconds since the beginning; the value of a monotonic clock.
        self.now = 0.0
        self.turns = 0
        self.loop = getcurrent()
        # What happened, in order, to be replayed against a model (tests/proof/).
        self.trace: list[Note] = []
        # Returns what every note also says: the applied offset of each node.
        self.applied: Callable[[], dict[str, int]] = dict
        self._tasks: list[Task] = []
        self._current: Task | None = None

    def note(self, what: str, who: str, about: Any = None) -> None:
        """Add to the trace."""
        self.trace.append(Note(what, who, about, self.applied()))

    def wall_ms(self) -> int:
        """Return the wall clock, ms since the epoch."""
        return START_MS + int(self.now * 1000)

    def spawn(self, process: Process, run: Callable[[], None]) -> Task:
        """Start a new task of a process."""
        task = Task(self, process, run)
        self._tasks.append(task)
        return task

    def likely(self, probability: float) -> bool:
        """Return true with this probability."""
        return self.chance.random() < probability

    def pause(self) -> None:
        """Yield: others may run before the calling task continues."""
        self.sleep(0.0)

    def sleep(self, seconds: float) -> None:
        """Yield for at least this long."""
        self.until(None, seconds)

    def until(self, condition: Callable[[], Any] | None, timeout_s: float, *, looks: bool = True) -> Any:
        """Yield until the condition is true; return its last value, false if the time was up.

        Unless the task ``looks`` by itself, the condition is looked at again only after it was notified.
        """
        task = self._current
        assert task is not None, "only a task may wait"
        assert asyncio._get_running_loop() is None, "an event loop does not wait in a callback"
        if not task.process.dead:
            task.wakes_at = self.now + timeout_s
            task.waits_for, task.notified = condition, condition is not None
            task.looks = looks and task.notified
            self.loop.switch()
        if task.process.dead:
            raise Killed
        return condition() if condition is not None else None

    @property
    def current(self) -> Task:
        """The task that runs now."""
        assert self._current is not None, "no task runs"
        return self._current

    def kill(self, process: Process) -> None:
        """End the process: nothing of it continues, except for Python's unwinding."""
        process.die()
        if self._current is not None and self._current.process is process:
            raise Killed

    def close(self) -> None:
        """End all tasks: waiting ones would stay in memory for good, with everything that they refer to."""
        for task in self._tasks:
            task.process.die()
        while self._tasks:
            self._turn(self._tasks[0])

    def run(self, done: Callable[[], bool], seconds_max: float) -> bool:
        """Let tasks run until ``done``; return false if the time was up or no task can run any more."""
        deadline = self.now + seconds_max
        while not done():
            if self.now > deadline:
                return False
            ready = self._ready()
            if not ready:
                return False
            self._turn(self.chance.choice(ready))
        return True

    def _ready(self) -> list[Task]:
        """Return the tasks that may run now; if there are none, advance the clock to the next wake-up."""
        self.now += self.chance.random() * 2 * MOMENT_S
        now, earliest = self.now, math.inf
        ready = []
        for task in self._tasks:
            process = task.process
            if process.dead:
                return [task]
            if not process.frozen:
                wakes_at = task.wakes_at
                if wakes_at <= now or (task.notified and task.sees_its_condition()):
                    ready.append(task)
                elif wakes_at < earliest:
                    earliest = wakes_at
        if not ready and earliest < math.inf:
            self.now = earliest
            ready = [task for task in self._tasks if task.wakes_at == earliest and not task.process.frozen]
        return ready

    def _turn(self, task: Task) -> None:
        self._current = task
        self.turns += 1
        try:
            task.greenlet.switch()
        finally:
            self._current = None
            if task.ended:
                self._tasks.remove(task)
