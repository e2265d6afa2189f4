"""Break each guarantee on purpose, and see which test notices: ``python -m tests.sabotage``.

Each patch of this folder breaks one guarantee of the code. They are applied one after another to a copy of
the committed tree, and the checks that guarantees.toml names for it run until one fails that passes without
the patch: tests, or simulated histories by the arguments of ``python -m``. A patch that none of them notices
survives, and needs a test. The outcomes are written into the table of docs/sabotage.md, a few at a time, so a
run that is interrupted loses no others.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from .outcomes import (
    OVERVIEW,
    PAGE,
    ROOT,
    SIMULATION,
    Outcome,
    Sabotage,
    is_outdated,
    record,
    recorded,
    sabotages,
    stamp,
)

# Patches whose tests run without them together: most of the time of one is the start of pytest.
TOGETHER = 10
# A broken program may wait forever. The tests take a fraction of it, also on a busy machine.
CHECK_S = 1800
# A test without its parameters, which may hold spaces, or the arguments that repeat a simulated history.
FAILURE = re.compile(r"^(?:(?:FAILED|ERROR) ([^\s\[]+)|wrong with (--seed .*))", re.MULTILINE)


class Run(NamedTuple):
    """The end of a run of tests: pytest's exit status, -1 if they did not end; the output; seconds of CPU."""

    status: int
    output: str
    cpu_s: float


class Trial:
    """Tries patches in a copy of the committed tree."""

    def __init__(self, copy: Path, commit: str) -> None:
        self._copy = copy
        self._at = stamp(commit)

    def outcome(self, sabotage: Sabotage) -> Outcome:
        """Return which of a patch's checks fails with it, or why none does."""
        cpu_s = 0.0
        for check in sabotage.checks:
            with self._patched(sabotage) as refused:
                if refused:
                    return self._survived(f"does not apply, make it again: {refused}")
                ended = run(self._copy, check)
            cpu_s += ended.cpu_s
            found = FAILURE.search(ended.output)
            if ended.status and not found:
                return self._survived(f"no verdict of {check}, status {ended.status}", ended.output)
            if found:
                return Outcome(found[1] or f"{SIMULATION} {found[2]}", f"{cpu_s:.1f} s", self._at)
        return self._survived(f"{cpu_s:.1f} s of {' and '.join(sabotage.checks)}")

    def without_patches(self, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
        """Return outcomes in which only tests and histories count that pass without a patch."""
        checks = sorted({each.test for each in outcomes.values() if each.test})
        tests = [each for each in checks if not each.startswith(SIMULATION)]
        if tests and not run(self._copy, *tests).status:
            checks = [each for each in checks if each not in tests]
        failing = {check for check in checks if run(self._copy, check).status}
        return {
            name: self._survived(f"{each.test} fails without the patch") if each.test in failing else each
            for name, each in outcomes.items()
        }

    def _survived(self, why: str, output: str = "") -> Outcome:
        print(output[-2000:], end="")
        return Outcome("", " ".join(why.split()), self._at)

    @contextmanager
    def _patched(self, sabotage: Sabotage) -> Iterator[str]:
        """Apply a patch to the copy for as long; yield the reason if it does not apply."""
        applied = git(self._copy, "apply", str(sabotage.patch))
        try:
            yield applied.stderr.strip()
        finally:
            git(self._copy, "checkout", "--quiet", ".").check_returncode()


def run(copy: Path, *checks: str) -> Run:
    """Run tests until the first failure. Takes seconds, so compiled code of an earlier run is never newer."""
    pytest = ["pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", *checks]
    simulated = checks[0].startswith(SIMULATION)
    command = [sys.executable, "-m", *(checks[0].split() if simulated else pytest)]
    env = {**os.environ, "COLUMNS": "500"}
    before = children_s()
    try:
        done = subprocess.run(
            command, cwd=copy, env=env, capture_output=True, text=True, check=False, timeout=CHECK_S
        )
    except subprocess.TimeoutExpired:
        return Run(-1, f"the tests did not end within {CHECK_S} s", children_s() - before)
    return Run(done.returncode, done.stdout + done.stderr, children_s() - before)


def children_s() -> float:
    """Return the CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git."""
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@contextmanager
def committed_tree(commit: str) -> Iterator[Path]:
    """Make a copy of the tree at a commit for as long."""
    try:
        with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            copy = Path(scratch) / "copy"
            added = git(ROOT, "worktree", "add", "--detach", str(copy), commit)
            if added.returncode:
                raise SystemExit(f"the tree cannot be copied: {added.stderr.strip()}")
            yield copy
    finally:
        git(ROOT, "worktree", "prune")


@cache
def changed_since(commit: str) -> frozenset[str] | None:
    """Return the files that differ between a commit and the present one; ``None`` if it is not known."""
    found = git(ROOT, "diff", "--name-only", commit, "HEAD", "--")
    return None if found.returncode else frozenset(found.stdout.splitlines())


def chosen_patches(names: list[str], *, only_outdated: bool) -> list[Sabotage]:
    """Return the patches with these names, or all; of these those whose rows may not hold any more."""
    chosen = [each for each in sabotages() if not names or each.name in names]
    if unknown := set(names) - {each.name for each in chosen}:
        raise SystemExit(f"no such patch: {', '.join(sorted(unknown))}")
    known = recorded()
    return [
        each
        for each in chosen
        if not only_outdated
        or (outcome := known.get(each.name)) is None
        or is_outdated(each, outcome, changed_since(outcome.commit))
    ]


def main(arguments: list[str]) -> int:
    """Try patches, print and record what noticed each; return 0 if none survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.sabotage", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a patch to try; by default all")
    parser.add_argument(
        "--outdated", action="store_true", help="only those of which code or tests have changed since"
    )
    wanted = parser.parse_args(arguments)
    chosen = chosen_patches(wanted.names, only_outdated=wanted.outdated)
    commit = git(ROOT, "rev-parse", "--short=8", "HEAD").stdout.strip()
    print(f"{len(chosen)} patches of the code and tests as committed at {commit}", flush=True)
    with committed_tree(commit) as copy:
        survivors = [*survivors_among(chosen, Trial(copy, commit))]
    print(f"{len(chosen) - len(survivors)} noticed; survivors: {', '.join(survivors) or 'none'}")
    print(f"The table is in {PAGE.relative_to(ROOT)}, its sum also in {OVERVIEW.relative_to(ROOT)}.")
    return int(bool(survivors))


def survivors_among(chosen: list[Sabotage], trial: Trial) -> Iterator[str]:
    """Try patches, print and record the outcomes; yield the names of those that nothing noticed."""
    for begin in range(0, len(chosen), TOGETHER):
        outcomes: dict[str, Outcome] = {}
        for number, each in enumerate(chosen[begin : begin + TOGETHER], begin + 1):
            print(f"[{number}/{len(chosen)}] {each.name}: {each.guarantee}", flush=True)
            outcome = outcomes[each.name] = trial.outcome(each)
            print(f"    {outcome.after}: {outcome.test or 'NOTHING noticed'}", flush=True)
        outcomes = trial.without_patches(outcomes)
        record(outcomes)
        yield from (name for name, each in outcomes.items() if not each.test)


if __name__ == "__main__":
    # Stopped in this way too, it removes its copy of the tree.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(f"interrupted; the table has all but the last patches, {TOGETHER} at most")
