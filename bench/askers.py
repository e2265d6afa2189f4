"""The cost of counting who asks, for a read by id: one reader with counting on and off in turns.

    python bench/askers.py [--schemas 2000] [--seconds 60] [--connections 32] [--turn 20] [--folder /tmp]

One reader under the load of wrk switches counting on and off by itself (bench/switched), every ``--turn``
milliseconds, so that other work of the machine slows both down alike. Two turns are a pair. What counts is
the CPU time of the reader for one request: the median and the mean of the differences of all pairs, with
their standard errors. Counting defers work to one turn out of many, which only the mean contains. Prints a
table.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from statistics import fmean, median, quantiles, stdev

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.command_line import run_in_folder  # noqa: E402
from bench.load import BY_ID, fill, write_script, wrk  # noqa: E402
from bench.process_costs import PLAIN  # noqa: E402
from bench.security import reader_of  # noqa: E402
from tests.support.running import Registry, until  # noqa: E402


def main() -> None:
    run_in_folder(__doc__, run, schemas=2000, seconds=60, connections=32, turn=20)


def run(given: argparse.Namespace, folder: Path) -> None:
    fill(folder, given.schemas)
    switched = {
        "PYTHONPATH": str(ROOT / "bench" / "switched"),
        "COUNTS": str(folder),
        "TURN_S": str(given.turn / 1000),
    }
    registry = Registry(folder, "--readers", "1", environment=PLAIN | switched).wait()
    try:
        pairs = measure(registry, folder, given)
    finally:
        registry.stop()
    print(f"{len(pairs)} pairs of turns of {given.turn} ms, {given.connections} connections")
    print(f"{given.schemas} schemas, read by id at random\n")
    print("| CPU of a read by id | median | mean |\n| --- | --- | --- |")
    for name, each in zip(("not counted", "counted"), zip(*pairs, strict=True), strict=True):
        print(f"| {name} | {median(each):.2f} µs | {fmean(each):.2f} µs |")
    without = median(each for each, _ in pairs)
    differences = [100 * (counted - uncounted) / without for uncounted, counted in pairs]
    low, middle, high = quantiles(differences, n=4)
    root = len(differences) ** 0.5
    # Of a median, if differences are distributed as errors mostly are: normally.
    error = 1.2533 * (high - low) / 1.349 / root
    print(f"| difference | {middle:+.2f} % ± {error:.2f} | {fmean(differences):+.2f} % ± ", end="")
    print(f"{stdev(differences) / root:.2f} |\n\nhalf of all pairs: {low:+.1f} to {high:+.1f} %")


def measure(registry: Registry, folder: Path, given: argparse.Namespace) -> list[tuple[float, float]]:
    """Return the microseconds of CPU for a request, not counted and counted, of each pair of turns."""
    script = write_script(folder / "load.lua", BY_ID, seed=1, count=given.schemas)
    reader = reader_of(registry)
    wrk(registry.url, script, 1, given.connections)
    os.kill(reader, signal.SIGUSR1)
    rate = wrk(registry.url, script, given.seconds, given.connections)
    assert not rate.errors
    os.kill(reader, signal.SIGUSR1)
    found = folder / f"{reader}.json"
    until(found.exists, 30, "the pairs")
    return [(uncounted, counted) for uncounted, counted in json.loads(found.read_text())]


if __name__ == "__main__":
    main()
