"""New schemas over one connection, compared with bare appends of the same size in the same run.

    python bench/one_connection.py [--seconds 2] [--rounds 5] [--folder /tmp]

A cluster of two nodes with one reader each. Rounds take turns: bare appends, registrations through the
primary, through the secondary. Each round's rates are divided by the rate of its own appends, and the median
of each counts: other load of the machine changes them all alike. CPU is that of all processes of both nodes,
for one registration.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.fold import entry
from bench.load import schema
from bench.process_costs import Processes
from deploy.local.cluster import Cluster
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security

TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
RECORD_BYTES = 1700


class Measured(NamedTuple):
    """Rate and cost of what was done one after another."""

    per_s: float
    cpu_us: float


def measure_way(one: Callable[[int], object], seconds: float, nodes: Sequence[Processes]) -> Measured:
    """Return how often ``one`` was done in a second, and what it cost the ``nodes``."""
    used, count, began = sum(each.cpu_s() for each in nodes), 0, time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        one(count)
        count += 1
    used = sum(each.cpu_s() for each in nodes) - used
    return Measured(count / (now - began), used / count * 1e6)


class Registering:
    """A connection that registers one schema after another."""

    def __init__(self, port: int, name: str) -> None:
        self._line = HTTPConnection("127.0.0.1", port, timeout=60)
        self._name = name
        self._count = 0

    def __call__(self, _: int) -> None:
        self._count += 1
        name = f"{self._name}x{self._count}"
        body = orjson.dumps({"schema": schema(name)})
        self._line.request("POST", f"/subjects/new-{name}/versions", body, TYPE)
        answer = self._line.getresponse()
        text = answer.read()
        assert answer.status == 200, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=given.folder))
    try:
        with Cluster(folder, nodes=2, front_by="") as cluster:
            measure(cluster, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(cluster: Cluster, given: argparse.Namespace) -> None:
    """Measure in turn and print each round, then the medians."""
    assert cluster.broker is not None
    primary = cluster.primary()
    secondary = next(node for node in cluster.nodes if node is not primary)
    log = KafkaLog(
        Security(), cluster.broker.address, "yardstick",
        transactional_id="yardstick", append_timeout_s=30.0,
    )  # fmt: skip
    log.claim()
    ways: dict[str, Callable[[int], object]] = {
        "bare appends": lambda number: log.append([entry(number, 1000, RECORD_BYTES)]),
        "new, through the primary": Registering(primary.port, "p"),
        "new, through the secondary": Registering(secondary.port, "s"),
    }
    nodes = [Processes(each.pid) for each in cluster.nodes]
    for way in ways.values():  # Everything warms up.
        measure_way(way, 1.0, nodes)
    found: dict[str, list[Measured]] = {name: [] for name in ways}
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        measured = {name: measure_way(way, given.seconds, nodes) for name, way in ways.items()}
        for name, each in measured.items():
            found[name].append(each)
            ratios[name].append(each.per_s / measured["bare appends"].per_s)
        print("   ".join(f"{name} {each.per_s:.0f}/s" for name, each in measured.items()), flush=True)
    for name, runs in found.items():
        cpu_us = statistics.median(each.cpu_us for each in runs)
        ratio = statistics.median(ratios[name])
        print(f"  {name:28} {ratio:.2f} of bare appends, {cpu_us:.0f} µs of CPU")
    log.close()


if __name__ == "__main__":
    main()
