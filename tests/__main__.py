"""All tests, in four groups that run at the same time: ``python -m tests``, which ``make test`` calls.

The tests of the first group mostly compute, and need no broker; those of the second and third start one
registry each and use it as clients do, and the second also reads the source; those of the fourth start
brokers, clusters and parts of nodes. Each group waits for half of its time, so four keep two cores busy. All
take about as long. One line is printed for each file, and failures and the most expensive files at the end.
``--group NAME …`` runs only these groups. With other arguments, this is pytest.

If AGAIN is set in the environment, and at most so many tests have failed, these are run again, alone. If all
pass then, the run has passed, and they are named as tests that rest on luck.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

COMPUTING = (
    "tests/unit",
    "tests/simulation",
    "tests/api",
    "tests/console",
    "tests/process/past",
    "tests/process/store",
)
SNAPSHOTS = (
    *sorted(str(path) for path in Path("tests").glob("test_*.py")),
    *("tests/process/snapshots", "tests/process/security"),
    *("tests/process/reader", "tests/process/webhooks"),
)
CLUSTERS = (
    *("tests/cluster", "tests/contract", "tests/faults"),
    *("tests/process/forwarding", "tests/process/node"),
)
GROUPS = {
    "computing": COMPUTING,
    "snapshots": SNAPSHOTS,
    # What is in no list asks one registry, so that no new folder is left out.
    "processes": ("tests", *(f"--ignore={path}" for path in (*COMPUTING, *SNAPSHOTS, *CLUSTERS))),
    "clusters": CLUSTERS,
}
# A test that runs for this many seconds is named, and named again after each further period.
SLOW_S = 60.0
# So many files are listed at the end.
EXPENSIVE = 10
RESULT = re.compile(r"((\S+\.py)::.+) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*")
FAILURES = {"FAILED", "ERROR", "XPASS"}
# A line of pytest's summary at the end.
SUMMARY = re.compile(r"(FAILED|ERROR) \S+\.py::")
# What pytest exits with if tests failed, rather than pytest itself.
TESTS_FAILED = 1
_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """The cost of a file of tests: CPU seconds of all processes of its group, and seconds by the clock."""

    cpu_s: float
    seconds: float
    file: str

    def __str__(self) -> str:
        return f"{self.seconds:6.1f} s {self.cpu_s:6.1f} CPU s  {self.file}"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and all its descendants, ended ones too; 0 where there is no /proc.

    Servers that tests share count for whatever file runs meanwhile.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    family = {pid}
    while more := {each for each, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(each, 0) for each in family) / _TICKS


class Group:
    """One pytest process; anything it prints besides test results is kept for the end."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "pytest", "-v", "--color=no", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self.process.stdout
        self.output = self.process.stdout.fileno()
        self.name = name
        self.rest: list[str] = []
        self.failed: list[str] = []
        self.costs: list[Cost] = []
        self.cost = Cost(0.0, 0.0, name)
        self._cpu = 0.0
        self._unfinished = b""
        self._file = ""
        self._results: Counter[str] = Counter()
        self._began = self._test_began = time.monotonic()

    @property
    def running(self) -> str:
        """Return the test that has begun and not ended. Pytest prints its name before it runs."""
        return self._unfinished.decode(errors="replace").strip()

    def read(self) -> bool:
        """Process what has been printed; return False at the end of the output."""
        printed = os.read(self.output, 1 << 16)
        *lines, self._unfinished = (self._unfinished + printed).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))
        if not printed:
            self._begin_file("")
        elif begun := re.match(r"(\S+\.py)::", self.running):
            self._begin_file(begun[1])
        self._test_began = time.monotonic()
        return bool(printed)

    @property
    def failures_are_known(self) -> bool:
        """True if each failure of pytest's summary was seen as a result, so that none is forgotten."""
        return sum(bool(SUMMARY.match(line)) for line in self.rest) == len(self.failed)

    def say(self, text: str) -> None:
        print(f"{self.name:10} {text}", flush=True)

    def name_slow(self, slow_s: float) -> None:
        """Print the name of the running test if nothing has been printed for ``slow_s``."""
        if self.running and time.monotonic() - self._test_began > slow_s:
            self.say(f"still running: {self.running}")
            self._test_began = time.monotonic()

    def _take(self, line: str) -> None:
        if not (result := RESULT.fullmatch(line)):
            self.rest.append(line)
            return
        test, file, outcome = result.groups()
        self._begin_file(file)
        self._results[outcome.lower()] += 1
        if outcome in FAILURES:
            self.failed.append(test)
            self.say(line)

    def _begin_file(self, file: str) -> None:
        if file == self._file:
            return
        cpu, former = cpu_seconds(self.process.pid), self.cost
        # What a process computed that has lost its parent, such as a browser's, is missing from then on.
        spent = max(0.0, cpu - self._cpu)
        self._cpu = cpu
        self.cost = Cost(former.cpu_s + spent, time.monotonic() - self._began, self.name)
        if self._results:
            self.costs.append(Cost(spent, self.cost.seconds - former.seconds, self._file))
            results = ", ".join(f"{count} {result}" for result, count in self._results.items())
            self.say(f"{self.costs[-1]}  {results}")
        self._results.clear()
        self._file = file


def run(groups: Mapping[str, Sequence[str]], slow_s: float = SLOW_S, again: int = 0) -> int:
    """Run the groups at the same time; return 0 if all tests pass, at most ``again`` on a second try."""
    # A shell that starts this process in the background makes it ignore SIGINT, and the groups would inherit
    # that. A time limit around the tests ends them with SIGTERM; the hanging test is named then, too.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    began = time.monotonic()
    running = [Group(name, arguments) for name, arguments in groups.items()]
    try:
        with selectors.DefaultSelector() as selector:
            for group in running:
                selector.register(group.output, selectors.EVENT_READ, group)
            while selector.get_map():
                for key, _ in selector.select(slow_s / 4):
                    if not key.data.read():
                        selector.unregister(key.fileobj)
                for group in running:
                    group.name_slow(slow_s)
    except KeyboardInterrupt:
        for group in running:
            group.say(f"interrupted while running: {group.running or 'no test'}")
            group.process.send_signal(signal.SIGINT)
            group.rest.append((group.process.communicate()[0] or b"").decode(errors="replace"))
    codes = [group.process.wait() for group in running]
    for group, code in zip(running, codes, strict=True):
        print(f"\n{group.name}: exit status {code}", *group.rest, sep="\n", flush=True)
    _print_costs(running, time.monotonic() - began)
    failed = list(dict.fromkeys(test for group in running for test in group.failed))
    all_known = {*codes} <= {0, TESTS_FAILED} and all(group.failures_are_known for group in running)
    if all_known and 0 < len(failed) <= again:
        return int(not _pass_again(failed))
    return int(any(codes))


def _pass_again(tests: Sequence[str]) -> bool:
    """Run the tests again, while nothing else runs, and return true if all pass."""
    print("\nOnce more, alone:", *tests, sep="\n", flush=True)
    if subprocess.run([sys.executable, "-m", "pytest", "--color=no", *tests], check=False).returncode:
        return False
    print("\nPassed only when run again, and so rest on luck:", *tests, sep="\n", flush=True)
    return True


def _print_costs(groups: Sequence[Group], seconds: float) -> None:
    costs = sorted((cost for group in groups for cost in group.costs), reverse=True)
    print("\nThe most expensive files:", *costs[:EXPENSIVE], sep="\n")
    everything = Cost(sum(group.cost.cpu_s for group in groups), seconds, "everything")
    print("\nAll files:", *(group.cost for group in groups), everything, sep="\n", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--group"]:
        if unknown := set(sys.argv[2:]) - GROUPS.keys():
            sys.exit(f"No such group: {', '.join(sorted(unknown))}. There are: {', '.join(GROUPS)}")
        chosen = {name: GROUPS[name] for name in sys.argv[2:]}
    elif sys.argv[1:]:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
    else:
        chosen = GROUPS
    sys.exit(run(chosen, again=int(os.environ.get("AGAIN", "0"))))
