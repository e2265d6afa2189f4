"""The cost of a build: seconds by the clock, and of CPU in all of its processes, step by step."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .task import Progress

# What happens before an engine reports its first step.
PREPARING = "preparing"
_PROCESSES = Path("/proc")
# Fields of /proc/…/stat after the name, from the state on: the parent, and the ticks in user and system mode
# of the process and of its children that have ended.
_PARENT, _TICKS = 1, slice(11, 15)


# CPU that the built-in fold takes, as measured on one machine (bench/RESULTS.md): for a record that it folds
# into its store, for a row of the base that it loads, and for a row that it writes and verifies.
LOCAL_RECORD_US, LOCAL_BASE_ROW_US, LOCAL_ROW_US = 32.0, 2.3, 3.0


class Cost(NamedTuple):
    """Seconds by the clock, and of CPU."""

    wall_s: float
    cpu_s: float

    def __add__(self, other: object) -> Cost:
        return (
            Cost(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)
            if isinstance(other, Cost)
            else NotImplemented
        )

    def __sub__(self, other: Cost) -> Cost:
        """Return the difference of two costs."""
        return Cost(self.wall_s - other.wall_s, self.cpu_s - other.cpu_s)


def cpu_s() -> float:
    """Return the CPU seconds of this process and all that descend from it, running or ended.

    Where the system does not list processes, those that run do not count.
    """
    if not Path(_PROCESSES, "self", "stat").exists():
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in used)
    return sum(descendants().values()) / os.sysconf("SC_CLK_TCK")


def descendants() -> dict[int, int]:
    """Return the ticks that this process and each descendant has used, with its ended children."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended.
        ticks[int(folder.name)] = sum(map(int, fields[_TICKS]))
        children.setdefault(int(fields[_PARENT]), []).append(int(folder.name))
    family = [os.getpid()]
    for pid in family:
        family += children.get(pid, ())
    return {pid: ticks.get(pid, 0) for pid in family}


class StepCosts:
    """A :class:`.task.Progress` that measures each step and hands the progress on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._step, self._began = PREPARING, _now()
        self._steps: dict[str, Cost] = {}
        # What there was to read, once it is known.
        self.records: int | None = None
        self.base_rows = 0

    def building(self, records: int, base_rows: int) -> None:
        """Receive how much is read: records of the log, and rows of the base."""
        self.records, self.base_rows = records, base_rows

    def __call__(self, step: str, done: int, total: int) -> None:
        """Receive progress; another step ends the one before."""
        if step != self._step:
            self._end_step()
            self._step = step
        self._progress(step, done, total)
        if done == total:
            # Processes that end from now on may take what they have used with them.
            self._end_step()

    def _end_step(self) -> None:
        now = Cost(*map(max, _now(), self._began))
        self._steps[self._step] = self._steps.get(self._step, Cost(0.0, 0.0)) + (now - self._began)
        self._began = now

    @property
    def steps(self) -> Mapping[str, Cost]:
        """The cost of each step up to now."""
        self._end_step()
        return self._steps

    @property
    def total(self) -> Cost:
        """The cost of all steps up to now."""
        return sum(self.steps.values(), Cost(0.0, 0.0))

    @property
    def has_steps(self) -> bool:
        """True if an engine reported any step."""
        return self._step != PREPARING

    def local_cpu_s(self, rows: int) -> float:
        """Return about the CPU of the built-in fold for so many rows; 0 if no engine had to be chosen."""
        if self.records is None:
            return 0.0
        us = LOCAL_RECORD_US * self.records + LOCAL_BASE_ROW_US * self.base_rows + LOCAL_ROW_US * rows
        return us / 1e6

    def describe(self, rows: int) -> str:
        """Return what the build cost, for the log."""
        steps = ", ".join(
            f"{step} {cost.cpu_s:.1f}" for step, cost in self.steps.items() if cost.cpu_s >= 0.05
        )
        wall_s, cpu_s = self.total
        found = f"it took {cpu_s:.1f} s of CPU in {wall_s:.1f} s ({steps})"
        if self.records is None:
            return found
        return f"{found}; the built-in fold takes about {self.local_cpu_s(rows):.1f} s of CPU"


def _now() -> Cost:
    return Cost(time.monotonic(), cpu_s())
