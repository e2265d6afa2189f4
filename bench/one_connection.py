"""New schemas over one connection, compared with bare appends of the same size in the same run.

    python bench/one_connection.py [--seconds 2] [--rounds 5] [--nodes 3] [--folder /tmp]

A cluster of nodes with one reader each. Rounds take turns: bare appends, registrations through the primary,
through a secondary. Each round's rates are divided by the rate of its own appends, and the median of each
counts: other load of the machine changes them all alike. Then come the CPU time and the context switches of
all processes for one of them, those of several secondaries together.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
# An index of words is written by a process of its own when others have written for some seconds.
_WARM_UP_S = 4.0


# Hosts by their role: the processes of each.
Hosts = Mapping[str, Sequence[Processes]]
# Names of processes, as they are printed: the index of words has processes of Python's name.
_KINDS = {"registry-node": "node", "registry-reader": "reader", "registry": "supervisor", "java": ""}


class Measured(NamedTuple):
    """Rate and costs of what was done one after another."""

    per_s: float
    # Of one, by role and kind of process: microseconds of CPU, and how often a thread has waited.
    cpu_us: Counter[str]
    switches: Counter[str]


def measure_way(one: Callable[[int], object], seconds: float, hosts: Hosts) -> Measured:
    """Return how often ``one`` was done in a second, and what it cost each kind of process."""
    before, count, began = costs(hosts), 0, time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        one(count)
        count += 1
    cpu, switches = (
        Counter({kind: (used - earlier[kind]) / count for kind, used in later.items()})
        for earlier, later in zip(before, costs(hosts), strict=True)
    )
    return Measured(count / (now - began), cpu, switches)


def costs(hosts: Hosts) -> tuple[Counter[str], Counter[str]]:
    """Return the microseconds of CPU and the context switches so far, by kind of process."""
    cpu, switches = Counter[str](), Counter[str]()
    for role, each in hosts.items():
        for process in (process for processes in each for process in processes.family()):
            kind = f"{role} {_KINDS.get(process.name, 'index of words')}".strip()
            cpu[kind] += round(process.cpu_s * 1e6)
            switches[kind] += process.switches
    cpu["client"] = round(time.process_time() * 1e6)
    return cpu, switches


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
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=given.folder))
    try:
        with Cluster(folder, nodes=given.nodes, front_by="") as cluster:
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
    hosts = {
        "broker": [Processes(cluster.broker.pid)],
        "primary": [Processes(primary.pid)],
        "secondaries": [Processes(each.pid) for each in cluster.nodes if each is not primary],
    }
    for way in ways.values():  # Everything warms up, and the index of words has its processes.
        measure_way(way, _WARM_UP_S, hosts)
    found: dict[str, list[Measured]] = {name: [] for name in ways}
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        measured = {name: measure_way(way, given.seconds, hosts) for name, way in ways.items()}
        for name, each in measured.items():
            found[name].append(each)
            ratios[name].append(each.per_s / measured["bare appends"].per_s)
        print("   ".join(f"{name} {each.per_s:.0f}/s" for name, each in measured.items()), flush=True)
    for name, each in ratios.items():
        print(f"  {name:28} {statistics.median(each):.2f} of bare appends")
    for title, field in (("µs of CPU", "cpu_us"), ("context switches", "switches")):
        print_costs(title, {name: [getattr(each, field) for each in runs] for name, runs in found.items()})
    log.close()


def print_costs(title: str, found: Mapping[str, Sequence[Counter[str]]]) -> None:
    """Print a table: a row for each kind of process, a column for each way, medians."""
    print(f"\n| {title} | {' | '.join(found)} |\n| ---{' | ---' * len(found)} |")
    kinds = sorted({kind for runs in found.values() for each in runs for kind in each})
    columns = [
        {kind: statistics.median(each[kind] for each in runs) for kind in kinds} for runs in found.values()
    ]
    for kind in kinds:
        print(f"| {kind} | {' | '.join(f'{column[kind]:.1f}' for column in columns)} |")
    print(f"| all | {' | '.join(f'{sum(column.values()):.1f}' for column in columns)} |")


if __name__ == "__main__":
    main()
