"""Run simulated histories, up to the first failure.

python -m tests.simulation [--minutes M | --rounds N] [--seed FIRST | --seed-of COMMIT] [--part K/N] [--model]

Seeds count up from the first one. That of a commit is the same on every machine, so that two people who look
at one commit run the same histories; --part runs every Nth of them, so that N machines run different ones.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from .history import Told, run

_SEEDS = 10**9
_YEAR_S = 365.25 * 86_400


def seed_of(commit: str) -> int:
    """Return the first seed of a commit, by its full hash."""
    command = ["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    return int(found.stdout.strip(), 16) % _SEEDS


def part_of(text: str) -> tuple[int, int]:
    """Return the numbers of a part and of all parts from ``K/N``; ``ValueError`` if there is no such part."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def seeds(
    first: int, rounds: int | None, minutes: float | None, part: tuple[int, int] = (1, 1)
) -> Iterator[int]:
    """Yield the seeds of a part, ``rounds`` at most and for ``minutes``; ``None``: without this bound."""
    ends_at = None if minutes is None else time.monotonic() + minutes * 60
    for seed in islice(itertools.count(first + part[0] - 1, part[1]), rounds):
        if ends_at is not None and time.monotonic() >= ends_at:
            return
        yield seed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", formatter_class=argparse.RawDescriptionHelpFormatter,
        description=__doc__,
    )  # fmt: skip
    length, first = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="how long to run")
    length.add_argument("--rounds", type=int, help="how many histories to run (default: 1000)")
    first.add_argument("--seed", type=int, help="the first seed (default: from the clock)")
    first.add_argument("--seed-of", metavar="COMMIT", help="take the first seed of a commit, such as HEAD")
    parser.add_argument("--part", metavar="K/N", type=part_of, default=(1, 1), help="run one of N parts")
    parser.add_argument("--model", action="store_true", help="use the model of the log")
    given = parser.parse_args()
    if given.seed_of is not None:
        given.seed = seed_of(given.seed_of)
    elif given.seed is None:
        given.seed = time.time_ns() // 1_000_000 % _SEEDS
    if given.minutes is None and given.rounds is None:
        given.rounds = 1000
    return given


def _run_all(seeds: Iterator[int], *, model: bool) -> list[Told]:
    """Run the histories of the seeds, until Ctrl-C at most; return what those that ended told."""
    told = []
    try:
        for seed in seeds:
            try:
                told.append(run(seed, model=model))
            except AssertionError:
                print(f"wrong with --seed {seed} --rounds 1{' --model' * model}", flush=True)
                raise
            if sys.stderr.isatty():
                print(f"\r{len(told)} histories", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    return told


def main() -> int:
    """Run the histories; return 0 if no law was broken."""
    given = _arguments()
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    told = _run_all(seeds(given.seed, given.rounds, given.minutes, given.part), model=given.model)
    minutes = (time.monotonic() - began) / 60
    simulated_s, quiet_s = sum(each.seconds for each in told), sum(each.quiet for each in told)
    busy_h, quiet_h = (simulated_s - quiet_s) / 3600, quiet_s / 3600
    part, parts = given.part
    which = f"from seed {given.seed} on" + (f", part {part} of {parts}" if parts > 1 else "")
    print(
        f"{len(told)} histories {which}, {sum(each.acknowledged for each in told)} writes "
        f"acknowledged, none lost: {busy_h:.1f} simulated hours with requests, {quiet_h:.1f} without "
        f"({simulated_s / _YEAR_S:.4f} years) in {minutes:.1f} minutes"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
