"""Registering through Kafka, by a single node and in a cluster of three; hand-over; the start of a node.

    python bench/cluster.py [--seconds 5] [--rounds 3] [--records 1300000] [--folder /tmp]

Hand-over: clients write through all nodes without pause while the primary is stopped, killed or frozen; the
longest time without an acknowledged write counts, and the failed writes. Everything shares the machine's
cores: the broker, the nodes with one reader each, and the load. Next to each figure is that of one node of
Confluent's Schema Registry 8.3.1 on a machine of two cores, and for registering the yardstick of the same
run: bare appends of one record each to the same broker, one after another. Needs wrk.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.fold import build, entry
from bench.load import schema
from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from deploy.local.node import Node
from deploy.local.process import until
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from tests.faults.history import History, Kind, Request
from tests.faults.load import Line

WRITERS = 4
HEAL_S = 60.0
CALM_S = 2.0
SUBJECTS = 1000
APPENDS = 2000
# Requests per second.
CONFLUENT = {
    "new, 32 connections": 133.0,
    "new, 1 connection": 129.0,
    "by id": 1990.0,
}

_NEW = """
wrk.headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
local template = {template}
local n = 0
function request()
  n = n + 1
  local name = "{seed}x" .. n
  return wrk.format("POST", "/subjects/new-" .. name .. "/versions", nil, (template:gsub("@", name)))
end
"""
_LATEST = """
math.randomseed({seed})
function request()
  return wrk.format("GET", "/subjects/latest-" .. math.random(1, {count}) .. "/versions/latest")
end
"""


class Measured(NamedTuple):
    """The report of wrk for one run."""

    per_s: float
    errors: int


def wrk(url: str, script: str, connections: int, seconds: int, folder: Path) -> Measured:
    path = folder / "load.lua"
    path.write_text(script)
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(path), url]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    errors = sum(map(int, re.findall(r"Non-2xx or 3xx responses: (\d+)", said)))
    errors += sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", said)))
    return Measured(float(re.findall(r"Requests/sec:\s+([\d.]+)", said)[0]), errors)


class Writing:
    """Writers through all nodes, each of which records when its writes began and were acknowledged."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.history = History()
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(cluster, name, number), daemon=True)
            for number in range(WRITERS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(HEAL_S)

    def _write(self, cluster: Cluster, name: str, writer: int) -> None:
        lines = [Line(node.port) for node in cluster.nodes]
        # Each stays with its node until a write fails: otherwise all could wait for a frozen one at once.
        turn = writer % len(lines)
        number = 0
        while not self._ended.is_set():
            number += 1
            subject = f"{name}{writer}-{number}"
            text = schema(f"{name}{writer}x{number}")
            while not self._ended.is_set():
                began = time.monotonic()
                answer, ended = lines[turn].ask("POST", f"/subjects/{subject}/versions", {"schema": text})
                request = Request(Kind.REGISTER, turn, subject, began, ended, schema=text, **answer)
                self.history.add(request)
                if request.done:
                    break
                turn = (turn + 1) % len(lines)
                self._ended.wait(0.01)
        for line in lines:
            line.close()

    def stood_still_s(self, since: float) -> float:
        """Return the longest time after ``since`` without an acknowledged write."""
        times = sorted(each.ended for each in self.history.requests if each.done and each.ended > since)
        return max(later - earlier for earlier, later in zip([since, *times], times, strict=False))

    def failed_elsewhere(self, but: int) -> int:
        """Return the writes that failed at other nodes than number ``but``."""
        return sum(each.failed and each.sent and each.node != but for each in self.history.requests)


def hand_over(
    cluster: Cluster, name: str, end: Callable[[Node], object], mend: Callable[[Node], object]
) -> str:
    """The effect of one hand-over on the writers."""
    with Writing(cluster, name) as writing:
        calm(CALM_S)
        primary = cluster.primary()
        began = time.monotonic()
        end(primary)
        until(lambda: another(cluster, primary), HEAL_S, "another primary")
        calm(CALM_S)
        seen = time.monotonic()
        mend(primary)
        calm(CALM_S)
    primary.wait()
    still = writing.stood_still_s(began)
    failed = writing.failed_elsewhere(cluster.nodes.index(primary))
    took = seen - began - CALM_S
    return f"writes stood still {still:.2f} s, another was primary after {took:.2f} s; {failed} failed"


def calm(seconds: float) -> None:
    """Let the load run."""
    ends_at = time.monotonic() + seconds
    until(lambda: time.monotonic() > ends_at, 2 * seconds + 1, "time to pass")


def another(cluster: Cluster, primary: Node) -> Node | None:
    return next((each for each in cluster.nodes if each is not primary and each.role == "primary"), None)


def hand_overs(cluster: Cluster, rounds: int) -> None:
    kinds: dict[str, tuple[Callable[[Node], object], Callable[[Node], object], str]] = {
        "stopped": (
            lambda node: node.stop(),
            lambda node: node.start(),
            "0.57 s, 7 failed; goal 0.5 s, none",
        ),
        "killed": (lambda node: node.kill(), lambda node: node.start(), "9.8 s, 165 failed; goal 2 s, none"),
        "frozen": (lambda node: node.freeze(), lambda node: node.thaw(), "goal: session of 6 s + 1 s, none"),
    }
    print("\nHand-over, the primary is")
    for kind, (end, mend, note) in kinds.items():
        for round_ in range(rounds):
            print(f"  {kind:8} {hand_over(cluster, f'{kind}{round_}', end, mend)}   ({note})", flush=True)


class Load:
    """Requests without pause, to one node at a time."""

    def __init__(self, folder: Path, seconds: int) -> None:
        self._folder, self._seconds = folder, seconds
        self._template = orjson.dumps(orjson.dumps({"schema": schema("@")}).decode()).decode()
        self._chance = random.Random()

    def new(self, node: Node, connections: int) -> Measured:
        """Register schemas of 30 fields, each under a subject of its own."""
        script = _NEW.replace("{template}", self._template).replace("{seed}", self._seed())
        return wrk(node.url, script, connections, self._seconds, self._folder)

    def latest(self, node: Node) -> Measured:
        """Request the latest versions of :meth:`prepare`'s subjects."""
        script = _LATEST.replace("{count}", str(SUBJECTS)).replace("{seed}", self._seed())
        return wrk(node.url, script, 32, self._seconds, self._folder)

    def _seed(self) -> str:
        return str(self._chance.randrange(10**9))

    @staticmethod
    def prepare(node: Node) -> None:
        """Register the requested schemas."""
        line = Line(node.port)
        for number in range(1, SUBJECTS + 1):
            line.ask("POST", f"/subjects/latest-{number}/versions", {"schema": schema(f"L{number}")})
        line.close()


def appends(servers: str) -> float:
    """Return the appends per second, each of one record and begun when the last one was acknowledged."""
    log = KafkaLog(Security(), servers, "yardstick", transactional_id="yardstick", append_timeout_s=30.0)
    try:
        log.claim()
        for number in range(APPENDS // 2):  # The broker warms up.
            log.append([entry(number, APPENDS, 1700)])
        began = time.monotonic()
        for number in range(APPENDS):
            log.append([entry(number, APPENDS, 1700)])
        return APPENDS / (time.monotonic() - began)
    finally:
        log.close()


def rates(
    rows: Mapping[str, tuple[Callable[[], Measured], str]], given: argparse.Namespace
) -> dict[str, float]:
    """Measure the rows in turn and print the medians; each names Confluent's figure to compare it with."""
    found: dict[str, list[Measured]] = {name: [] for name in rows}
    for _ in range(given.rounds):
        for name, (take, _) in rows.items():
            found[name].append(take())
    print(f"Requests/s, median of {given.rounds} rounds of {given.seconds} s; schemas of 30 fields")
    medians = {name: statistics.median(each.per_s for each in runs) for name, runs in found.items()}
    for name, (_, compared) in rows.items():
        errors = sum(each.errors for each in found[name])
        ratio = medians[name] / CONFLUENT[compared]
        print(f"  {name:35}{medians[name]:9.0f}   {ratio:5.1f} times Confluent {errors} errors", flush=True)
    return medians


def alone(folder: Path, given: argparse.Namespace) -> None:
    """Measure one node, as Confluent's figures were measured."""
    with Cluster(folder / "alone", nodes=1, front_by="") as cluster:
        node, load = cluster.primary(), Load(folder, given.seconds)
        load.new(node, 32)  # The broker warms up.
        print("\nOne node")
        assert cluster.broker is not None
        bare = appends(cluster.broker.address)
        medians = rates(
            {
                "new, 32 connections": (lambda: load.new(node, 32), "new, 32 connections"),
                "new, 1 connection": (lambda: load.new(node, 1), "new, 1 connection"),
            },
            given,
        )
        print(f"  {'the yardstick, bare appends':35}{bare:9.0f}")
        for name, median in medians.items():
            print(f"  {name}, of the yardstick: {median / bare:.2f}")


def loads(cluster: Cluster, given: argparse.Namespace, folder: Path) -> None:
    """Measure the rates of registering and of reading the latest version, in a cluster."""
    primary = cluster.primary()
    secondary = next(node for node in cluster.nodes if node is not primary)
    load = Load(folder, given.seconds)
    load.prepare(primary)
    print("\nThree nodes")
    medians = rates(
        {
            "new, 32 connections, primary": (lambda: load.new(primary, 32), "new, 32 connections"),
            "new, 32 connections, secondary": (lambda: load.new(secondary, 32), "new, 32 connections"),
            "new, 1 connection, primary": (lambda: load.new(primary, 1), "new, 1 connection"),
            "new, 1 connection, secondary": (lambda: load.new(secondary, 1), "new, 1 connection"),
            "latest, 32 connections, primary": (lambda: load.latest(primary), "by id"),
            "latest, 32 connections, secondary": (lambda: load.latest(secondary), "by id"),
        },
        given,
    )
    primarys, secondarys = (medians[f"new, 32 connections, {each}"] for each in ("primary", "secondary"))
    print(f"  new through a secondary, of the rate on the primary: {secondarys / primarys:.2f} (goal 0.6)")


def start(folder: Path, records: int) -> None:
    """Measure a node with an empty store over a long log."""
    with Broker(folder / "kafka") as broker:
        log = KafkaLog(
            Security(), broker.address, "_schemas", transactional_id="bench", append_timeout_s=30.0
        )
        build(log, records, 400)
        log.close()
        node = Node(folder / "node", ["--kafka", broker.address, "--readers", "1"])
        began = time.monotonic()
        node.start()
        peak = 0
        ready = False
        while not ready:
            peak = max(peak, own_memory(node))
            ready = node.ready()
            calm(0.1)
        took = time.monotonic() - began
        print(
            f"\nStart over {records} records with an empty store: {took:.1f} s, at most {peak} MB next to "
            "mapped pages, all processes (Confluent 35 s, 3108 MB; goal 35 s, 200 MB)"
        )
        node.stop()


def own_memory(node: Node) -> int:
    """Return the MB of all processes of the node that are not mapped files, shared pages once."""
    total = 0
    for pid in node.processes():
        with contextlib.suppress(OSError, IndexError):
            pages = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(re.findall(r"Pss_Anon:\s+(\d+)", pages)[0])
    return total >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_300_000, help="0 leaves the start out")
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=given.folder))
    try:
        alone(folder, given)
        with Cluster(folder / "cluster", front_by="") as cluster:
            loads(cluster, given, folder)
            hand_overs(cluster, given.rounds)
        if given.records:
            start(folder, given.records)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
