"""Another revision of the registry and this tree, in turns on one machine: what a request costs.

    python bench/ab.py [--revision REV] [--rounds 5] [--seconds 2] [--schemas 2000] [--readers 1]
                       [--only "by id;new"] [--fail-above 10]

Without REV it is the last tag, the commit at which this branch left ``main``, or the commit before this one:
the first of these that exists and is another commit. It is checked out into a temporary folder, and run by
this tree's interpreter, or by its own if its requirements differ. This tree is measured as it is, with
changes that are not committed.

Both registries run during the whole comparison and take turns under the same load of wrk, each first in every
second round. CPU is that of all processes of a registry. Counts come from requests over one connection:
system calls and page writes from strace, calls from a profile hook (tests/support/profiled). Prints a table;
the exit code is 1 if a count has risen, or with ``--fail-above`` if the median of CPU has, by more than so
many per cent.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import NamedTuple, Self

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import orjson  # noqa: E402

from bench.load import BY_ID, NEW, new_body, schema, write_script, wrk  # noqa: E402
from bench.process_costs import PAGE_WRITES, PLAIN, Processes, hooked_environment  # noqa: E402
from tests.support.running import Registry  # noqa: E402

# Requests that are counted, after a quarter as many that are not; the least of so many passes counts.
COUNTED, PASSES = 400, 3
TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
_LATEST = """
math.randomseed({seed})
function request()
  return wrk.format("GET", "/subjects/subject-" .. math.random(1, {count}) .. "/versions/latest")
end
"""
_LIST = """
function request() return wrk.format("GET", "/subjects?limit=100") end
"""


class Load(NamedTuple):
    """A kind of request: as a script of wrk, and as a method and path with ``{n}`` for a number."""

    script: str
    connections: int
    method: str
    path: str
    # Whether its counts are taken too: they are those of one connection.
    counted: bool = True


LOADS = {
    "by id": Load(BY_ID, 32, "GET", "/schemas/ids/{n}"),
    "latest": Load(_LATEST, 32, "GET", "/subjects/subject-{n}/versions/latest"),
    "new, 1 connection": Load(NEW, 1, "POST", "/subjects/counted-{n}/versions"),
    "new, 32 connections": Load(NEW, 32, "POST", "/subjects/counted-{n}/versions", counted=False),
    "list of 100 subjects": Load(_LIST, 32, "GET", "/subjects?limit=100"),
}


class Measure(NamedTuple):
    """Something that is measured of a load, for one request."""

    name: str
    # By how much a count may differ between two runs of one revision: at least so much, and so many per cent.
    slack: float = 0.0
    slack_percent: float = 0.0
    is_count: bool = True


CPU, RATE = Measure("CPU, µs", is_count=False), Measure("requests/s", is_count=False)
FUNCTIONS, BUILTINS = Measure("calls of functions", 0.5, 1), Measure("calls of built-ins", 0.5, 1)
# What a write does once in 20 ms is a part of more writes if they are faster.
SYSTEM_CALLS, PAGES = Measure("system calls", 0.3, 8), Measure("page writes", 0.3, 5)
SWITCHES, BLOCKS = Measure("context switches", 0.5, 10), Measure("blocks of memory kept", 2.0, 10)
# Values by load and measure.
Found = dict[tuple[str, Measure], list[float]]


def has_risen(measure: Measure, before: list[float], after: list[float]) -> bool:
    """Return true if the least of a count is greater than it was, by more than runs differ."""
    least = min(before)
    return measure.is_count and min(after) - least > max(measure.slack, least * measure.slack_percent / 100)


class Side:
    """A revision that runs."""

    def __init__(self, name: str, root: Path, python: str, folder: Path, given: argparse.Namespace) -> None:
        self.name = name
        self._folder, self._given = folder, given
        self._counts = folder / "counts"
        self._counts.mkdir(parents=True)
        self._numbers = itertools.count()
        self._registries = [
            Registry(
                folder / kind, "--readers", str(given.readers),
                environment=environment, root=root, python=python,
            ).wait()
            for kind, environment in (("plain", PLAIN), ("hooked", hooked_environment(self._counts, root)))
        ]  # fmt: skip
        self.found: Found = defaultdict(list)
        self.by_name: dict[str, dict[str, float]] = {}
        for each in self._registries:
            with Client(each) as client:
                for number in range(1, given.schemas + 1):
                    client.register(f"subject-{number}")

    def stop(self) -> None:
        """Stop its processes."""
        for each in self._registries:
            each.stop()

    def rate(self, name: str, round_: int) -> None:
        """Put it under load for some seconds; note rate and CPU."""
        load, plain = LOADS[name], self._registries[0]
        values = {"seed": f"{round_}{len(self.found)}", "count": self._given.schemas, "template": new_body()}
        script = write_script(self._folder / "load.lua", load.script, **values)
        processes = Processes(plain.process.pid)
        before = processes.cpu_s()
        rate = wrk(plain.url, script, self._given.seconds, load.connections)
        cost_s = processes.cpu_s() - before
        assert not rate.errors, f"{self.name}, {name}: {rate.errors} errors"
        self.found[name, CPU].append(cost_s / (rate.per_s * self._given.seconds) * 1e6)
        self.found[name, RATE].append(rate.per_s)

    def count(self, name: str) -> None:
        """Send requests over one connection; note what they take."""
        if not LOADS[name].counted:
            return
        plain, with_hook = self._registries
        processes = Processes(plain.process.pid)
        with Client(plain) as client:
            self._send(client, name, COUNTED // 4)
            before = processes.switches()
            self._send(client, name, COUNTED)
            self._note(name, SWITCHES, processes.switches() - before)
            if shutil.which("strace"):
                calls = processes.system_calls(lambda: self._send(client, name, COUNTED))
                self._note(name, SYSTEM_CALLS, calls.total())
                self._note(name, PAGES, sum(calls[each] for each in PAGE_WRITES))
                self.by_name[name] = {each: count / COUNTED for each, count in calls.items()}
        processes = Processes(with_hook.process.pid)
        with Client(with_hook) as client:
            processes.calls(self._counts, lambda: self._send(client, name, COUNTED // 4))
            found = processes.calls(self._counts, lambda: self._send(client, name, COUNTED))
        for measure, count in zip((FUNCTIONS, BUILTINS, BLOCKS), found[:3], strict=True):
            self._note(name, measure, count)

    def _note(self, name: str, measure: Measure, count: int) -> None:
        self.found[name, measure].append(count / COUNTED)

    def _send(self, client: Client, name: str, count: int) -> None:
        load, numbers = LOADS[name], random.Random(1)
        for _ in range(count):
            if load.method == "GET":
                client.ask(load.path.format(n=numbers.randint(1, self._given.schemas)))
            else:
                client.register(f"counted-{next(self._numbers)}")


class Client:
    """One connection to a registry."""

    def __init__(self, registry: Registry) -> None:
        self._connection = HTTPConnection("127.0.0.1", registry.port, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, path: str) -> None:
        """Send a GET."""
        self._connection.request("GET", path)
        self._read()

    def register(self, subject: str) -> None:
        """Register a schema of its own."""
        body = orjson.dumps({"schema": schema(subject.replace("-", "_"))})
        self._connection.request("POST", f"/subjects/{subject}/versions", body, TYPE)
        self._read()

    def _read(self) -> None:
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text


def default_revision() -> str:
    """Return the revision that this tree is compared with."""
    own = _git("rev-parse", "HEAD")
    for words in (("describe", "--tags", "--abbrev=0"), ("merge-base", "HEAD", "main")):
        found = _git(*words, check=False)
        if found and _git("rev-parse", f"{found}^{{commit}}") != own:
            return found
    return "HEAD~1"


@contextmanager
def checked_out(revision: str, folder: Path) -> Iterator[tuple[Path, str]]:
    """Check a revision out into ``folder``; return its root and the interpreter that runs it."""
    _git("worktree", "add", "--detach", str(folder), revision)
    try:
        lock = "requirements.txt"
        python = sys.executable
        if (folder / lock).read_bytes() != (ROOT / lock).read_bytes():
            subprocess.run(["make", "-C", folder, ".venv/run.stamp"], check=True)
            python = str(folder / ".venv" / "bin" / "python")
        yield folder, python
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*words: str, check: bool = True) -> str:
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=check)
    return done.stdout.strip()


def main() -> int:
    """Compare; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--revision", default="", help="what this tree is compared with")
    for name, default in {"rounds": 5, "seconds": 2, "schemas": 2000, "readers": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="", help="how names of loads begin, separated by semicolons")
    parser.add_argument("--fail-above", type=float, default=None, help="per cent of CPU")
    given = parser.parse_args()
    wanted = tuple(given.only.split(";"))
    names = [name for name in LOADS if name.startswith(wanted)]
    revision = given.revision or default_revision()
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        root, python = stack.enter_context(checked_out(revision, folder / "tree"))
        changed = " with local changes" if _git("status", "--porcelain") else ""
        print(f"before: {_git('log', '-1', '--format=%h of %as', revision)}")
        print(f"after: {_git('log', '-1', '--format=%h of %as')}{changed}")
        sides = []
        for name, each in (("before", (root, python)), ("after", (ROOT, sys.executable))):
            sides.append(Side(name, *each, folder / name, given))
            stack.callback(sides[-1].stop)
        _measure(sides, names, given)
    print(f"\n{given.rounds} rounds of {given.seconds} s, {given.readers} readers, {given.schemas} schemas")
    print("\n| one request | before: median (least) | after | ratio | |\n| --- | --- | --- | --- | --- |")
    rows, dearer = compare(sides[0].found, sides[1].found, given.fail_above)
    print(*rows, "", sep="\n")
    _print_system_calls(*sides)
    print(f"\ndearer: {'; '.join(dearer)}" if dearer else "\nno count has risen")
    return 1 if dearer else 0


def _measure(sides: list[Side], names: list[str], given: argparse.Namespace) -> None:
    if not shutil.which("strace"):
        print("system calls and page writes are left out: strace is missing (apt-get install strace)")
    for round_ in range(given.rounds):
        for name in names:
            for side in sides if round_ % 2 else sides[::-1]:
                side.rate(name, round_)
    for _ in range(PASSES):
        for name in names:
            for side in sides:
                side.count(name)


def compare(before: Found, after: Found, fail_above: float | None) -> tuple[list[str], list[str]]:
    """Return the rows of the table, and names of what became dearer."""
    rows, dearer = [], []
    for (load, measure), old in before.items():
        new = after[load, measure]
        ratio = median(new) / median(old) if median(old) else 1.0
        verdict = "risen" if has_risen(measure, old, new) else ""
        if measure is CPU and fail_above is not None and ratio > 1 + fail_above / 100:
            verdict = "above the bound"
        if verdict:
            dearer.append(f"{load}: {measure.name}")
        values = f"{_median_and_least(old)} | {_median_and_least(new)} | {ratio:.2f}"
        rows.append(f"| {load}: {measure.name} | {values} | {verdict} |")
    return rows, dearer


def _print_system_calls(before: Side, after: Side) -> None:
    for name, old in before.by_name.items():
        new = after.by_name[name]
        pairs = ((each, old.get(each, 0.0), new.get(each, 0.0)) for each in sorted({*old, *new}))
        shown = (f"{each} {first:.1f} → {last:.1f}" for each, first, last in pairs if first + last > 0.1)
        print(f"system calls, {name}: {', '.join(shown)}")


def _median_and_least(values: list[float]) -> str:
    digits = 0 if min(values) >= 1000 else 1
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f})"


if __name__ == "__main__":
    sys.exit(main())
