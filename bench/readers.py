"""The cost of a read by id with one to four readers: it does not grow, because readers share no lock.

    python bench/readers.py [--schemas 2000] [--seconds 3] [--rounds 3] [--folder /tmp]

One registry after another over a log of its own, under the load of wrk with 32 connections, the numbers of
readers in turns. CPU is that of all processes; system calls are counted by strace over the same connections,
and those that wait for a lock (futex) are shown on their own. On fewer cores than readers the rate stays the
same, and CPU grows by what processes that take turns on a core cost each other. Prints a table.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.command_line import run_in_folder  # noqa: E402
from bench.load import BY_ID, Measured, fill, write_script, wrk  # noqa: E402
from bench.process_costs import Processes  # noqa: E402
from tests.support.running import Registry  # noqa: E402

READERS = (1, 2, 3, 4)


class Round(NamedTuple):
    """One round of a number of readers."""

    per_s: float
    cpu_us: float
    calls: float
    waits: float


def main() -> None:
    run_in_folder(__doc__, run, schemas=2000, seconds=3, rounds=3)


def run(given: argparse.Namespace, folder: Path) -> None:
    fill(folder, given.schemas)
    found: dict[int, list[Round]] = {readers: [] for readers in READERS}
    for round_ in range(given.rounds):
        for readers in READERS:
            registry = Registry(folder, "--readers", str(readers)).wait()
            try:
                script = write_script(folder / "load.lua", BY_ID, seed=f"{round_}1", count=given.schemas)
                found[readers].append(measure(registry, script, given.seconds))
            finally:
                registry.stop()
    print("| readers | requests/s | CPU of a request | system calls | of them waits for a lock |")
    print("| --- | --- | --- | --- | --- |")
    for readers, rounds in found.items():
        per_s, cpu_us, calls, waits = (median(each) for each in zip(*rounds, strict=True))
        print(f"| {readers} | {per_s:,.0f} | {cpu_us:.1f} µs | {calls:.2f} | {waits:.3f} |")


def measure(registry: Registry, script: Path, seconds: int) -> Round:
    processes = Processes(registry.process.pid)
    wrk(registry.url, script, 1)
    before = processes.cpu_s()
    rate = wrk(registry.url, script, seconds)
    cost_s = processes.cpu_s() - before
    traced: list[Measured] = []
    calls: Counter[str] = processes.system_calls(lambda: traced.append(wrk(registry.url, script, 1)))
    requests = traced[0].per_s * 1
    assert not rate.errors
    return Round(
        rate.per_s, cost_s / (rate.per_s * seconds) * 1e6, calls.total() / requests, calls["futex"] / requests
    )


if __name__ == "__main__":
    main()
