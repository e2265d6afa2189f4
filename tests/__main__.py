"""All tests, in two groups that run at the same time: ``python -m tests``, which ``make test`` calls.

The tests of one group mostly compute, or ask one server as a user would; those of the other start clusters
and wait for them, and could time out if more than one neighbour competed for the cores. Both groups take
about as long. One line is printed for each file, and failures at the end. With arguments, this is pytest.
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

COMPUTING = (
    *("tests/unit", "tests/simulation", "tests/api", "tests/fuzz", "tests/console", "tests/clients"),
    *("tests/contract/snapshots", "tests/process/snapshots", "tests/process/commands"),
    *("tests/process/folder", "tests/process/docs", "tests/process/deploy"),
    *sorted(str(path) for path in Path("tests").glob("test_*.py")),
)
# What is in neither list waits for servers, so that no new folder is left out.
GROUPS = {
    "computing": COMPUTING,
    "servers": ("tests", *(f"--ignore={path}" for path in COMPUTING)),
}
# A test that runs for this many seconds is named, and named again after each further period.
SLOW_S = 60.0
RESULT = re.compile(r"(\S+\.py)::.+ (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*")


class Group:
    """One pytest process; anything it prints besides test results is kept for the end."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "pytest", "-v", "--color=no", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self.process.stdout
        self.output = self.process.stdout.fileno()
        self.name = name
        self.rest: list[str] = []
        self._unfinished = b""
        self._file = ""
        self._results: Counter[str] = Counter()
        self._file_began = self._test_began = time.monotonic()

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
        if printed:
            self._test_began = time.monotonic()
        else:
            self._end_file("")
        return bool(printed)

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
        self._end_file(result[1])
        self._results[result[2].lower()] += 1
        if result[2] in {"FAILED", "ERROR", "XPASS"}:
            self.say(line)

    def _end_file(self, following: str) -> None:
        if self._results and following != self._file:
            seconds = time.monotonic() - self._file_began
            results = ", ".join(f"{count} {result}" for result, count in self._results.items())
            self.say(f"{seconds:6.1f} s  {self._file}  {results}")
        if following != self._file:
            self._results.clear()
            self._file, self._file_began = following, time.monotonic()


def run(groups: Mapping[str, Sequence[str]], slow_s: float = SLOW_S) -> int:
    """Run the groups at the same time and return 0 if all tests passed."""
    # A shell that starts this process in the background makes it ignore SIGINT, and the groups would inherit
    # that. A time limit around the tests ends them with SIGTERM; the hanging test is named then, too.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
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
    return int(any(codes))


if __name__ == "__main__":
    if sys.argv[1:]:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
    sys.exit(run(GROUPS))
