"""Run many simulated histories, up to the first failure.

python -m tests.simulation [--rounds N] [--seed FIRST]
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from .history import run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000 % 10**9)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    acknowledged = 0
    for seed in range(given.seed, given.seed + given.rounds):
        try:
            acknowledged += run(seed).acknowledged
        except AssertionError:
            print(f"wrong with --seed {seed} --rounds 1", flush=True)
            raise
    minutes = (time.monotonic() - began) / 60
    print(
        f"{given.rounds} histories from seed {given.seed} on, {acknowledged} writes acknowledged, none lost: "
        f"{given.rounds / minutes:.0f} a minute"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
