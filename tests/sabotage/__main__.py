"""Break each guarantee on purpose, and see which test notices: ``python -m tests.sabotage``.

Each patch of this folder breaks one guarantee of the code. They are applied one after another to a copy of
the committed tree, and the tests that guarantees.toml names for it run until the first one fails. A patch
that none of them notices survives, and needs a test. With names as arguments, only those are tried.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
# A broken program may wait forever. The tests take a fraction of it, also on a busy machine.
CHECK_S = 1800
FIRST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Sabotage(NamedTuple):
    """A patch by its name, the guarantee that it breaks, and the tests that must notice, cheap ones first."""

    name: str
    guarantee: str
    checks: list[str]

    @property
    def patch(self) -> Path:
        """The file of the patch."""
        return FOLDER / f"{self.name}.patch"


class Verdict(NamedTuple):
    """The outcome of one patch: true if a test noticed it; which and when, or what happened instead."""

    caught: bool
    text: str


def sabotages(names: list[str]) -> list[Sabotage]:
    """Return the patches with these names, or all. Raises KeyError for a name that does not exist."""
    table = tomllib.loads((FOLDER / "guarantees.toml").read_text(encoding="utf-8"))
    return [Sabotage(name, **table[name]) for name in names or table]


class Trial:
    """Tries patches in a copy of the committed tree, in which each test has passed before it counts."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._passed: set[str] = set()

    def verdict(self, sabotage: Sabotage) -> Verdict:
        """Return whether one of a patch's tests notices it."""
        seconds = 0.0
        for check in sabotage.checks:
            if check not in self._passed and run(self._copy, check)[0]:
                return Verdict(False, f"{check} fails without the patch")
            self._passed.add(check)
            applied = git(self._copy, "apply", str(sabotage.patch))
            if applied.returncode:
                return Verdict(False, f"does not apply, make it again: {applied.stderr.strip()}")
            began = time.monotonic()
            status, output = run(self._copy, check)
            seconds += time.monotonic() - began
            git(self._copy, "apply", "--reverse", str(sabotage.patch))
            if status == 1:
                found = FIRST_FAILURE.search(output)
                return Verdict(True, f"{found[1] if found else check} ({seconds:.0f} s)")
            if status:
                return Verdict(False, f"{check}: no verdict, status {status}\n{output[-2000:]}")
        return Verdict(False, f"passes {', '.join(sabotage.checks)} ({seconds:.0f} s)")


def run(copy: Path, check: str) -> tuple[int, str]:
    """Run tests until the first failure; return pytest's exit status, -1 if they did not end, and output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", check]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=CHECK_S)
    except subprocess.TimeoutExpired:
        return -1, f"the tests did not end within {CHECK_S} s"
    return done.returncode, done.stdout + done.stderr


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git."""
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def main(names: list[str]) -> int:
    """Try patches, print what noticed each; return 0 if none survived."""
    chosen = sabotages(names)
    with TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        git(ROOT, "worktree", "add", "--detach", str(copy), "HEAD").check_returncode()
        try:
            trial, verdicts = Trial(copy), []
            for each in chosen:
                verdicts.append(trial.verdict(each))
                word = "caught  " if verdicts[-1].caught else "SURVIVED"
                print(f"{word} {each.name}: {each.guarantee}\n         {verdicts[-1].text}", flush=True)
        finally:
            git(ROOT, "worktree", "remove", "--force", str(copy))
    caught = sum(each.caught for each in verdicts)
    print(f"{caught} of {len(verdicts)} caught")
    return int(caught < len(verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
