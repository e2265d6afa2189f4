"""Costs of a registry's processes: CPU, context switches, system calls, calls of functions.

Counts say more than times on a machine that others use: they are nearly the same in every run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.support import profiled
from tests.support.running import until

HOOK = Path(profiled.__path__[0])
# The environment of a registry that is measured: hashes of strings are the same in every run.
PLAIN = {"PYTHONHASHSEED": "0"}
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# LMDB writes its pages with these.
PAGE_WRITES = ("pwrite64", "pwritev")


class Calls(NamedTuple):
    """The counts of the profile hook in all processes."""

    functions: int  # calls of the project's functions
    builtins: int  # calls of built-in functions by those
    blocks: int  # blocks of memory by which the processes have grown
    by_name: Counter[str]  # calls of functions, by "file function caller"


def hooked_environment(counts: Path, root: Path) -> dict[str, str]:
    """Return the environment of a registry whose calls are counted; ``root``: of its checkout."""
    return {**PLAIN, "PYTHONPATH": str(HOOK), "COUNTS": str(counts), "COUNTED": str(root)}


class Used(NamedTuple):
    """The costs of a process so far."""

    name: str
    cpu_s: float
    switches: int  # how often a thread has waited


class Processes:
    """A process and its descendants, as they are now."""

    def __init__(self, pid: int) -> None:
        self.pids = _family(pid)
        self._children = self.pids[1:]

    def cpu_s(self) -> float:
        """Return the CPU time that all have used so far, with what has ended and what has begun meanwhile."""
        return sum(time.clock_gettime(_cpu_clock(pid)) + _cpu_of_ended(pid) for pid in _family(self.pids[0]))

    def family(self) -> Iterator[Used]:
        """Yield what each of those that run has used so far."""
        for pid in _family(self.pids[0]):
            with suppress(OSError):  # it has ended meanwhile
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                yield Used(name, time.clock_gettime(_cpu_clock(pid)), _waits_of(pid))

    def switches(self) -> int:
        """Return how often a thread has waited."""
        return sum(map(_waits_of, self.pids))

    def system_calls(self, during: Callable[[], object]) -> Counter[str]:
        """Return all system calls while ``during`` runs. Raises ``OSError`` if strace may not trace."""
        words = ["strace", "-c", "-f", "-U", "calls,name", *(f"-p{pid}" for pid in self.pids)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            attached = 0
            while attached < len(self.pids):
                line = tracer.stderr.readline()
                if not line or "attach: " in line:
                    tracer.kill()
                    raise OSError(line or "strace ended")
                attached += " attached" in line
            try:
                during()
            finally:
                tracer.send_signal(signal.SIGINT)
                said = tracer.stderr.read()
        found = re.findall(r"^\s*(\d+) (\w+)$", said, re.MULTILINE)
        return Counter({name: int(count) for count, name in found if name != "total"})

    def calls(self, counts: Path, during: Callable[[], object]) -> Calls:
        """Return the calls of all while ``during`` runs; ``counts``: of :func:`hooked_environment`."""
        self._signal(counts, ".counting")
        during()
        found = [json.loads(each.read_text()) for each in self._signal(counts, ".json")]
        by_name = Counter[str]()
        for each in found:
            by_name.update(each["calls"])
        builtins, blocks = (sum(each[name] for each in found) for name in ("builtins", "blocks"))
        return Calls(by_name.total(), builtins, blocks, by_name)

    def _signal(self, counts: Path, suffix: str) -> list[Path]:
        files = []
        for pid in self._children:
            file = counts / f"{pid}{suffix}"
            file.unlink(missing_ok=True)
            try:
                os.kill(pid, signal.SIGUSR1)
            except ProcessLookupError:
                continue  # the process that fills the index of words ends when there is nothing more to do
            files.append(file)
        until(lambda: all(file.exists() for file in files), 30, f"{suffix} of all processes")
        return files


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(_stat(folder)[1])
        except OSError:
            continue
    family = [pid]
    for each in family:
        family += [child for child, parent in parents.items() if parent == each]
    return family


def _waits_of(pid: int) -> int:
    """Return how often the threads of a process have waited."""
    lines = ((task / "status").read_text().splitlines() for task in Path(f"/proc/{pid}/task").iterdir())
    waits = (line.split()[1] for each in lines for line in each if line.startswith("voluntary_"))
    return sum(map(int, waits))


def _stat(folder: Path) -> list[str]:
    """Return the members of a process' ``stat`` from its state on (proc_pid_stat(5))."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _cpu_of_ended(pid: int) -> float:
    """Return the CPU time of a process' children that have ended."""
    return sum(map(int, _stat(Path(f"/proc/{pid}"))[13:15])) / _TICKS_PER_S


def _cpu_clock(pid: int) -> int:
    """Return the clock of a process's CPU time, as ``clock_getcpuclockid`` of the C library does."""
    return (~pid << 3) | 2
