"""New schemas over one connection, compared with bare appends of the same size in the same run.

    python bench/one_connection.py [--seconds 2] [--rounds 5] [--folder /tmp]

A cluster of two nodes with one reader each. Rounds take turns: bare appends, registrations through the
primary, through the secondary. Each round's rates are divided by the rate of its own appends, and the median
of each counts: other load of the machine changes them all alike.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.fold import entry
from bench.load import schema
from deploy.local.cluster import Cluster
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security

TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
RECORD_BYTES = 1700


def per_second(one: Callable[[int], object], seconds: float) -> float:
    """Return how often ``one`` was done in a second, one after another."""
    count, began = 0, time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        one(count)
        count += 1
    return count / (now - began)


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
    for each in ways.values():  # Everything warms up.
        per_second(each, 1.0)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        rates = {name: per_second(way, given.seconds) for name, way in ways.items()}
        for name, rate in rates.items():
            found[name].append(rate / rates["bare appends"])
        print("   ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items()), flush=True)
    for name, ratios in found.items():
        print(f"  {name:28} {statistics.median(ratios):.2f} of bare appends")
    log.close()


if __name__ == "__main__":
    main()
