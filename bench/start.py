"""Time until a node is ready: by reading the log, with a snapshot, and with its kept store.

    python bench/start.py [--sizes 10000,100000,360000,720000,1300000] [--embedded] [--spark]

A log of first versions under as many subjects (bench/fold.py) grows from size to size. Time runs from the
start of the process to a 200 of /health/ready; nothing is cached except the system's page cache and Python's
bytecode, as of an installed package. Memory is that of all processes of the node together, as the largest
sample; a sample takes long with a large store, so taking them is held to a fiftieth of the time. Of each size
a snapshot of the whole log is built, and of the last one others that extend it by 10,000 further records.
With --spark, the largest log and one of about a quarter of it are built by both engines, and the CPU of all
processes is printed for each step, fixed and for each record, and what follows for larger logs and more
cores. Prints tables and draws a chart.

The default sizes with --spark take about a quarter of an hour on two cores that do nothing else, and 8 GB.

Next to the figures are published ones, read off a chart (±1 s), and those of two other registries, measured
on a machine of this kind.
"""

from __future__ import annotations

import argparse
import compileall
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.build_costs import Build, measure, print_costs
from bench.chart import Series, draw
from bench.fold import entry
from deploy.local.broker import Broker
from deploy.local.node import Node
from registry.log.contract import Log
from registry.log.embedded.log import EmbeddedLog
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security

ROOT = Path(__file__).parent.parent
SIZES = (10_000, 100_000, 360_000, 720_000, 1_300_000)
FURTHER = 10_000
# Builds that extend the largest snapshot; the median counts.
ROUNDS = 3
SCHEMA_BYTES = 400
WAIT_S = 900.0
LOOK_S = 0.02
# Between two samples of the memory passes so many times the time that one takes: the kernel looks at each
# mapped page, with a large store for a fifth of a start's time if it were asked all the time.
SAMPLE_PART = 50
# Seconds until ready by schemas.
PUBLISHED = {
    "published, without": [(90_000, 17.0), (720_000, 74.0), (1_296_000, 162.0)],
    "published, with": [(90_000, 11.0), (720_000, 25.0), (1_296_000, 72.0)],
    "Confluent 8.3.1": [(1_300_000, 35.0)],
    "Apicurio": [(300_000, 84.0)],
}


class Start(NamedTuple):
    """One start of a node."""

    seconds: float
    # Private memory: not mapped from files.
    own_mb: int
    mapped_mb: int
    # Its log line about the loaded snapshot; empty for none.
    snapshot: str


class Row(NamedTuple):
    """The results for one size."""

    schemas: int
    replay: Start
    load: Start
    kept: Start
    build_s: float
    build_mb: int
    snapshot_mb: float
    store_mb: int


class Place:
    """A log, and the settings that name it for a node and builders."""

    def __init__(self, folder: Path, broker: Broker | None) -> None:
        self.folder = folder
        self.broker = broker
        self.snapshots = folder / "snapshots"
        self._topic = "schemas"

    @property
    def flags(self) -> list[str]:
        """Return settings for nodes and builders."""
        flags = ["--snapshots", str(self.snapshots), "--snapshots-load-ahead", "1", "--snapshots-keep", "100"]
        if self.broker is None:
            return flags
        return [*flags, "--kafka", self.broker.address, "--topic", self._topic, "--group", self._topic]

    def costs(self, engine: str, records: int) -> Build:
        """Build the whole log; return the cost of each step."""
        location = self.folder / f"costs-{engine}"
        address = self.broker.address if self.broker else ""
        found = measure(engine, self.folder / "node" / "data", address, self._topic, location, records)
        shutil.rmtree(location)
        return found

    @contextmanager
    def log(self) -> Iterator[Log]:
        """Return the log, for appends."""
        log: Log
        if self.broker is None:
            log = EmbeddedLog(self.folder / "node" / "data" / "log")
        else:
            log = KafkaLog(
                Security(), self.broker.address, self._topic,
                transactional_id=f"registrar.{self._topic}.{self._topic}", append_timeout_s=30.0,
            )  # fmt: skip
        try:
            yield log
        finally:
            log.close()

    def append(self, first: int, last: int, of: int) -> None:
        """Append records of first versions, as bench/fold.py makes them: some of ``of`` records."""
        with self.log() as log:
            log.claim()
            for at in range(first, last, 1000):
                log.append([entry(number, of, SCHEMA_BYTES) for number in range(at, min(at + 1000, last))])


def start_and_stop(place: Place, *flags: str) -> Start:
    """Start a node, wait until it is ready, stop it."""
    node = Node(place.folder / "node", ["--readers", "1", *place.flags, *flags])
    began, own, mapped, sample_at = time.monotonic(), 0, 0, 0.0
    node.start()
    try:
        while not node.ready():
            if (now := time.monotonic()) - began > WAIT_S:
                raise SystemExit(node.output)
            if now >= sample_at:
                one, other = memory(node.pid)
                own, mapped = max(own, one), max(mapped, other)
                sample_at = now + SAMPLE_PART * (time.monotonic() - now)
            time.sleep(LOOK_S)
        took = time.monotonic() - began
    finally:
        node.stop()
    loaded = re.findall(r"the snapshot \S+ was loaded in (.*)", node.output)
    node.printed.unlink()
    return Start(took, own, mapped, loaded[-1] if loaded else "")


def memory(pid: int) -> tuple[int, int]:
    """Return the MB of a process and its descendants, shared pages once: their own, and mapped."""
    own = mapped = 0
    for each in family(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        sizes = (line.partition(":") for line in lines[1:])
        found = {name: int(value.split()[0]) for name, _, value in sizes}
        own, mapped = own + found.get("Pss_Anon", 0), mapped + found.get("Pss_File", 0)
    return own >> 10, mapped >> 10


def family(pid: int) -> Iterator[int]:
    yield pid
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # Threads start processes too.
        for task in Path(f"/proc/{pid}/task").iterdir():
            if task.name != str(pid):
                below += (task / "children").read_text().split()
    except OSError:
        return
    for each in below:
        yield from family(int(each))


def build_snapshot(place: Place, engine: str, *flags: str) -> tuple[float, int]:
    """Build a snapshot; return the seconds, and the MB of the largest process."""
    began = time.monotonic()
    command = [sys.executable, "-m", "registry", "snapshot", "build", "--engine", engine, *flags]
    settings = ["--data", str(place.folder / "node" / "data"), *place.flags]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    said = subprocess.run([*command, *settings], cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode:
        raise SystemExit(said.stdout + said.stderr)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return time.monotonic() - began, 0 if largest == before else largest >> 10


def size_of(folder: Path) -> float:
    """Return the MB that the files of a folder take on disk."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()) / 1e6


def measure_starts(place: Place, schemas: int) -> Row:
    """Start without, kept and with a snapshot of the log, which has so many schemas."""
    store = place.folder / "node" / "data" / "store"
    shutil.rmtree(store, ignore_errors=True)
    replay = start_and_stop(place, "--snapshots-load", "off")
    kept = start_and_stop(place)
    store_mb = round(size_of(store))
    build_s, build_mb = build_snapshot(place, "local", "--full")
    shutil.rmtree(store)
    os.sync()  # a new host's disk has nothing to do for a store that was removed
    load = start_and_stop(place)
    snapshot_mb = size_of(max(place.snapshots.iterdir()))  # their names begin with their offsets
    row = Row(schemas, replay, load, kept, build_s, build_mb, snapshot_mb, store_mb)
    print(line(row), flush=True)
    return row


HEAD = (
    "| schemas | log alone | with snapshot | kept store | own memory: log, snapshot, kept | "
    "built (local) | snapshot | store |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def line(row: Row) -> str:
    starts = (row.replay, row.load, row.kept)
    memories = ", ".join(f"{start.own_mb}" for start in starts)
    replay, load, kept = (f"{start.seconds:.1f} s" for start in starts)
    load += "" if row.load.snapshot else " (not loaded)"
    return (
        f"| {row.schemas:,} | {replay} | {load} | {kept} | {memories} MB | "
        f"{row.build_s:.1f} s | {row.snapshot_mb:.0f} MB | {row.store_mb} MB |"
    )


def extend(place: Place, full: dict[str, float]) -> None:
    """Extend the largest snapshot by a few records; ``full``: seconds of a full build by each engine."""
    base = set(place.snapshots.iterdir())

    def seconds(engine: str, *flags: str) -> float:
        took, _ = build_snapshot(place, engine, *flags)
        for made in set(place.snapshots.iterdir()) - base:
            shutil.rmtree(made)
        return took

    for engine, whole in full.items():
        upon = median(seconds(engine, "--snapshots-deltas", "0") for _ in range(ROUNDS))
        print(
            f"{engine}: the whole log in {whole:.1f} s; {FURTHER:,} further records upon its snapshot in "
            f"{upon:.1f} s, {upon / whole:.2f} of that"
        )
    upon = median(seconds("local") for _ in range(ROUNDS))
    print(f"as a delta, which needs no engine: {FURTHER:,} further records in {upon:.1f} s")


def chart(rows: list[Row], file: Path) -> None:
    """Draw the measured and the published figures."""
    ours = [
        Series("log alone", [(row.schemas, row.replay.seconds) for row in rows], "#1f77b4"),
        Series("with a snapshot", [(row.schemas, row.load.seconds) for row in rows], "#2ca02c"),
        Series("kept store", [(row.schemas, row.kept.seconds) for row in rows], "#9467bd"),
    ]
    colors = ("#ff7f0e", "#d62728", "#7f7f7f", "#8c564b")
    others = [
        Series(name, points, color, dashed=True)
        for (name, points), color in zip(PUBLISHED.items(), colors, strict=True)
    ]
    file.write_text(draw("Seconds until ready, by number of schemas", [*ours, *others]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sizes = ",".join(map(str, SIZES))
    parser.add_argument("--sizes", default=sizes, help="numbers of schemas, ascending")
    parser.add_argument("--embedded", action="store_true", help="an embedded log instead of a broker's topic")
    parser.add_argument("--spark", action="store_true", help="build with Spark too")
    parser.add_argument("--chart", type=Path, default=ROOT / "bench" / "start.svg")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    sizes = list(map(int, options.sizes.split(",")))
    if options.spark and len(sizes) == 1:
        parser.error("--spark needs two sizes: what a record takes follows from their difference")
    for package in ("registry", "election", "snapshots"):
        compileall.compile_dir(ROOT / package, quiet=1)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    broker = None if options.embedded else Broker(folder / "kafka").start().wait()
    place = Place(folder / "place", broker)
    (place.folder / "node" / "data").mkdir(parents=True)
    quarter = min(sizes[:-1], key=lambda size: abs(size - sizes[-1] // 4), default=0)
    rows: list[Row] = []
    builds: dict[str, list[Build]] = {"spark": [], "local": []}
    try:
        print(HEAD, flush=True)
        for before, schemas in pairwise([0, *sizes]):
            place.append(before, schemas, sizes[-1] + FURTHER)
            rows.append(measure_starts(place, schemas))
            for engine in builds if options.spark and schemas in (quarter, sizes[-1]) else ():
                builds[engine].append(place.costs(engine, schemas))
        print(f"loading {sizes[-1]:,}: {rows[-1].load.snapshot}", flush=True)
        full = {"local": rows[-1].build_s}
        if options.spark:
            print_costs(builds["spark"], builds["local"])
            full = {engine: found[-1].total.wall_s for engine, found in builds.items()}
        place.append(sizes[-1], sizes[-1] + FURTHER, sizes[-1] + FURTHER)
        extend(place, full)
    finally:
        if broker is not None:
            broker.stop()
        shutil.rmtree(folder)
    chart(rows, options.chart)
    print("Published figures to compare with:")
    for name, points in PUBLISHED.items():
        print(f"  {name}: " + ", ".join(f"{schemas:,} in {seconds:.0f} s" for schemas, seconds in points))


if __name__ == "__main__":
    main()
