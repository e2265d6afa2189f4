"""CPU of builds, step by step, and what follows for larger logs and more cores.

    python bench/build_costs.py [--sizes 325000,1300000] [--kafka ADDRESS] [--folder /tmp]

builds snapshots of whole logs of two sizes (bench/fold.py) by both engines, and prints for each step the
seconds by the clock and of CPU in all processes: this one, Java and Python's workers. ``serial`` is what only
one core can do: the CPU of the builder's first thread, and of Java's threads that run no task. Of Spark, the
rest is divided among the cores; of the built-in fold, it is what other threads do at the same time. Lines
through the two sizes give what is fixed and what a record takes, and those the tables for more records and
cores. With ``--kafka``, topics are made on a broker that runs, and left there.

On a busy machine a second of CPU does less; repeat, and compare figures of the same hour.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.fold import build as append_records
from deploy.local.broker import Broker
from registry.base.config.settings import Settings
from registry.log.kafka.log import KafkaLog
from registry.log.kafka.security import Security
from snapshots.building import builder
from snapshots.building.cost import PREPARING, cpu_s, descendants

ROOT = Path(__file__).parent.parent
SCHEMA_BYTES = 400
MILLIONS, CORES = (1, 3, 10, 100, 1_000), (2, 4, 8, 16, 32, 64)
# Cores that starting Spark, loading classes and compiling keep busy, roughly.
STARTING_CORES = 2
# Threads of Java that do work of tasks, or compile, or collect garbage: as many as there are cores.
_PARALLEL = ("Executor task l", "stdout writer f", "C1 ", "C2 ", "GC ", "Writer for", "kafka-")


class Spent(NamedTuple):
    """Seconds by the clock, of CPU, and of the CPU that only one core can do."""

    wall_s: float
    cpu_s: float
    serial_s: float

    def plus(self, other: Spent) -> Spent:
        """Return the sum of both."""
        return Spent(*(a + b for a, b in zip(self, other, strict=True)))

    def since(self, before: Spent) -> Spent:
        """Return the difference."""
        return Spent(*(a - b for a, b in zip(self, before, strict=True)))


NOTHING = Spent(0.0, 0.0, 0.0)


class Line(NamedTuple):
    """Cost as a function of the number of records: fixed seconds, and microseconds for each record."""

    fixed_s: float
    record_us: float

    def at(self, records: float) -> float:
        """Return the seconds for a number of records."""
        return self.fixed_s + self.record_us * records / 1e6


class Build(NamedTuple):
    """The costs of the steps of a build."""

    records: int
    steps: Mapping[str, Spent]

    @property
    def total(self) -> Spent:
        """The cost of the whole build."""
        total = NOTHING
        for each in self.steps.values():
            total = total.plus(each)
        return total


class Engine(NamedTuple):
    """The cost of an engine: work that one core does, and work that all share."""

    serial: Line
    parallel: Line

    def cpu_at(self, records: float) -> float:
        """Return the CPU of a build."""
        return self.serial.at(records) + self.parallel.at(records)

    def time_at(self, records: float, cores: int) -> float:
        """Return the seconds by the clock if nothing else runs, and no core waits for another's task."""
        shared = self.parallel.fixed_s / min(cores, STARTING_CORES)
        return self.serial.at(records) + shared + self.parallel.record_us * records / 1e6 / cores

    def time_of_one(self, records: float) -> float:
        """Return the seconds of a build by the built-in fold at best: if its other threads never wait."""
        return max(self.serial.at(records), self.parallel.at(records))


def measure(engine: str, data: Path, address: str, topic: str, location: Path, records: int) -> Build:
    """Build in a process of its own. Without an address, the log is the embedded one in ``data``."""
    command = [sys.executable, __file__, "--one", engine, str(data), address, topic, str(location)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return Build(records, {step: Spent(*cost) for step, cost in found.items()})


def line_through(fewer: Build, more: Build, cost: Callable[[Build], float]) -> Line:
    """Return the line through a cost of two builds; neither of its numbers is negative."""
    slope = max(0.0, (cost(more) - cost(fewer)) / (more.records - fewer.records))
    return Line(max(0.0, cost(fewer) - slope * fewer.records), slope * 1e6)


def sum_of_lines(fewer: Build, more: Build, cost: Callable[[Spent], float]) -> Line:
    """Return the sum of the steps' lines, so that noise of one step does not hide the growth of others."""
    lines = [
        line_through(fewer, more, lambda build, step=step: cost(build.steps.get(step, NOTHING)))  # type: ignore[misc]
        for step in dict.fromkeys([*fewer.steps, *more.steps])
    ]
    return Line(sum(each.fixed_s for each in lines), sum(each.record_us for each in lines))


def engine_of(fewer: Build, more: Build) -> Engine:
    """Return what two builds say about an engine."""
    return Engine(
        sum_of_lines(fewer, more, lambda spent: spent.serial_s),
        sum_of_lines(fewer, more, lambda spent: spent.cpu_s - spent.serial_s),
    )


def steps_table(engine: str, fewer: Build, more: Build) -> list[str]:
    """Return CPU and time of each step at both sizes, what of the CPU is fixed and what a record takes."""
    sizes = "".join(f" {build.records:,}: CPU, of it serial (clock) |" for build in (fewer, more))
    lines = [f"| {engine} |{sizes} fixed | a record | of it serial |", "| --- |" + " --- |" * 5]
    for name in [*dict.fromkeys([*fewer.steps, *more.steps]), "all"]:

        def cost_of(build: Build, name: str = name) -> Spent:
            return build.total if name == "all" else build.steps.get(name, NOTHING)

        cells = "".join(
            f" {each.cpu_s:.1f} s, {each.serial_s:.1f} ({each.wall_s:.1f}) |"
            for each in map(cost_of, (fewer, more))
        )
        cpu = line_through(fewer, more, lambda build: cost_of(build).cpu_s)
        serial = line_through(fewer, more, lambda build: cost_of(build).serial_s)
        if name == "all":
            serial = engine_of(fewer, more).serial
        lines.append(
            f"| {name} |{cells} {cpu.fixed_s:.1f} s | {cpu.record_us:.1f} µs | {serial.record_us:.2f} µs |"
        )
    return lines


def forecast(spark: Engine, local: Engine) -> list[str]:
    """Return what follows for larger logs, and from how many records Spark is ahead."""
    cores = "".join(f" {count} cores |" for count in CORES)
    lines = [
        f"| million records | CPU: Spark, built-in | built-in |{cores}",
        "| --- |" + " --- |" * (len(CORES) + 2),
    ]
    for millions in MILLIONS:
        records = millions * 1_000_000
        times = "".join(f" {seconds(spark.time_at(records, count))} |" for count in CORES)
        cpu = f"{seconds(spark.cpu_at(records))}, {seconds(local.cpu_at(records))}"
        lines.append(f"| {millions:,} | {cpu} | {seconds(local.time_of_one(records))} |{times}")
    lines += ["", "| cores | Spark is ahead from |", "| --- | --- |"]
    return [*lines, *(f"| {count} | {ahead(spark, local, count)} |" for count in CORES[:3])]


def ahead(spark: Engine, local: Engine, cores: int) -> str:
    """Return from how many records Spark is ahead."""
    sizes = (step * 10_000 for step in range(1, 10_000))
    least = next((size for size in sizes if spark.time_at(size, cores) < local.time_of_one(size)), None)
    return f"{least / 1e6:.1f} million records" if least else "more than 100 million records"


def seconds(value: float) -> str:
    """Return a duration for a table."""
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 36_000 else f"{value / 3600:.0f} h"


def print_costs(spark: Sequence[Build], local: Sequence[Build]) -> None:
    """Print the tables; each engine has built a smaller and a larger log."""
    for name, (fewer, more) in (("Spark", spark), ("built-in fold", local)):
        print(*steps_table(name, fewer, more), "", sep="\n", flush=True)
    print(*forecast(engine_of(*spark), engine_of(*local)), sep="\n")


class Meter:
    """A :class:`snapshots.building.task.Progress` that measures each step."""

    def __init__(self) -> None:
        self.steps: dict[str, Spent] = {}
        # What this process has used already belongs to the first step.
        self._step, self._began = PREPARING, NOTHING._replace(wall_s=time.monotonic())

    def __call__(self, step: str, done: int, total: int) -> None:
        """Receive progress; another step ends the one before."""
        if step != self._step:
            self.end()
            self._step = step
        if done == total:
            self.end()  # Processes that end from now on may take what they have used with them.

    def end(self) -> None:
        """End the current step."""
        now = Spent(*map(max, (time.monotonic(), cpu_s(), serial_s()), self._began))
        self.steps[self._step] = self.steps.get(self._step, NOTHING).plus(now.since(self._began))
        self._began = now


def serial_s() -> float:
    """Return the CPU of this thread, the first one, and of Java's threads that run no task."""
    return time.thread_time() + sum(
        used
        for pid in descendants()
        if name_of(Path("/proc", str(pid))) == "java"
        for thread, used in threads_of(pid)
        if not thread.startswith(_PARALLEL)
    )


def threads_of(pid: int) -> list[tuple[str, float]]:
    """Return the names of a process' threads with their CPU."""
    found = []
    for folder in Path("/proc", str(pid), "task").iterdir():
        try:
            ran_ns = int((folder / "schedstat").read_text().split()[0])
            found.append((name_of(folder), ran_ns / 1e9))
        except OSError:
            continue  # It has ended.
    return found


def name_of(folder: Path) -> str:
    """Return the name of a process or thread; empty if it has ended."""
    try:
        return (folder / "comm").read_text().rstrip("\n")
    except OSError:
        return ""


def build_one(engine: str, data: str, address: str, topic: str, location: str) -> None:
    """Build, and print the cost of each step as JSON."""
    where = {"kafka": address, "topic": topic} if address else {}
    meter = Meter()
    given = Settings(data=Path(data), snapshots=location, **where)
    builder.build_now(given, None, engine, meter, extend=False)
    meter.end()
    print(json.dumps(meter.steps))


def make_topic(address: str, records: int) -> str:
    """Make a topic of so many records, unless there is one; return its name."""
    topic = f"records-{records}"
    log = KafkaLog(
        Security(), address, topic, transactional_id=f"registrar.{topic}.{topic}", append_timeout_s=60.0
    )
    if log.query_end(10.0) < records:
        append_records(log, records, SCHEMA_BYTES)
    log.close()
    return topic


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        build_one(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="325000,1300000", help="numbers of records, ascending")
    parser.add_argument("--kafka", default="", help="a broker that runs, instead of one of its own")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        with ExitStack() as stack:
            address = options.kafka
            if not address:
                broker = Broker(folder / "kafka").start().wait()
                stack.callback(broker.stop)
                address = broker.address
            topics = {size: make_topic(address, size) for size in sizes}
            builds = {
                engine: [
                    measure(engine, folder, address, topic, folder / f"{engine}-{size}", size)
                    for size, topic in topics.items()
                ]
                for engine in ("spark", "local")
            }
            print_costs(builds["spark"], builds["local"])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
