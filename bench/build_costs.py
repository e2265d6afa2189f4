"""CPU of builds, step by step, and what follows for larger logs and more cores.

    python bench/build_costs.py ENGINE DATA ADDRESS TOPIC LOCATION

builds the whole log by one engine and prints the cost of each step as JSON: seconds by the clock, and of
CPU in this process and all that it starts (Java, Python's workers). Without an ADDRESS it reads the embedded
log in DATA. bench/start.py runs it for two sizes and prints the tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from registry.base.config.settings import Settings
from snapshots.building import builder
from snapshots.building.cost import Cost, StepCosts
from snapshots.building.task import silent

ROOT = Path(__file__).parent.parent
NOTHING = Cost(0.0, 0.0)
MILLIONS, CORES = (1, 3, 10, 100, 1_000), (2, 4, 8, 16, 64)


class Line(NamedTuple):
    """Cost as a function of the number of records: fixed seconds, and microseconds for each record."""

    fixed_s: float
    record_us: float

    def at(self, records: float) -> float:
        """Return the seconds for a number of records."""
        return self.fixed_s + self.record_us * records / 1e6


class Measured(NamedTuple):
    """The costs of the steps of a build."""

    records: int
    steps: Mapping[str, Cost]

    @property
    def total(self) -> Cost:
        """The cost of the whole build."""
        return sum(self.steps.values(), NOTHING)


def measure(engine: str, data: Path, address: str, topic: str, location: Path, records: int) -> Measured:
    """Build in a process of its own."""
    command = [sys.executable, __file__, engine, str(data), address, topic, str(location)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return Measured(records, {step: Cost(*cost) for step, cost in found.items()})


def fitted(smaller: tuple[int, float], larger: tuple[int, float]) -> Line:
    """Return the line through two pairs of records and seconds."""
    (few, less), (many, more) = smaller, larger
    slope = (more - less) / (many - few)
    return Line(less - slope * few, slope * 1e6)


def steps_table(builds: Sequence[Measured]) -> list[str]:
    """Return CPU and time of each step at each size, what of the CPU is fixed and what a record takes."""
    sizes = "".join(f" {build.records:,}: CPU (clock) |" for build in builds)
    lines = [f"| step |{sizes} fixed | a record |", "| --- |" + " --- |" * (len(builds) + 2)]
    names = dict.fromkeys(step for build in builds for step in build.steps)
    for name in [*names, "all"]:
        costs = [build.total if name == "all" else build.steps.get(name, NOTHING) for build in builds]
        cells = "".join(f" {cost.cpu_s:.1f} s ({cost.wall_s:.1f}) |" for cost in costs)
        pairs = [(build.records, cost.cpu_s) for build, cost in zip(builds, costs, strict=True)]
        line = fitted(pairs[0], pairs[-1])
        lines.append(f"| {name} |{cells} {line.fixed_s:.1f} s | {line.record_us:.1f} µs |")
    return lines


def forecast_table(spark: Line, local: Line) -> list[str]:
    """Return what the lines say for larger logs: CPU, and time if all cores are busy with nothing else.

    The built-in fold uses one core. What is fixed of Spark's is taken to run on two.
    """
    cores = "".join(f" {count} |" for count in CORES)
    lines = [
        f"| million records | CPU: Spark, built-in | built-in |{cores}",
        "| --- |" + " --- |" * (len(CORES) + 2),
    ]
    for millions in MILLIONS:
        records = millions * 1_000_000
        times = "".join(f" {seconds(spark_time(spark, records, count))} |" for count in CORES)
        cpu = f"{seconds(spark.at(records))}, {seconds(local.at(records))}"
        lines.append(f"| {millions:,} | {cpu} | {seconds(local.at(records))} |{times}")
    for count in CORES:
        gain = local.record_us - spark.record_us / count
        at = (spark.fixed_s / 2 - local.fixed_s) / gain if gain > 0 else float("inf")
        lines.append(f"On {count} cores Spark is ahead from {max(0.0, at):.1f} million records." if gain > 0
                     else f"On {count} cores Spark is never ahead.")  # fmt: skip
    return lines


def spark_time(spark: Line, records: int, cores: int) -> float:
    """Return the seconds by the clock of a build whose tasks keep all cores busy."""
    return spark.fixed_s / 2 + spark.record_us * records / 1e6 / cores


def seconds(value: float) -> str:
    """Return a duration for a table."""
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 36_000 else f"{value / 3600:.0f} h"


def main() -> None:
    engine, data, address, topic, location = sys.argv[1:]
    where = {"kafka": address, "topic": topic} if address else {}
    costs = StepCosts(silent, began_with_process=True)
    given = Settings(data=Path(data), snapshots=location, **where)
    builder.build_now(given, None, engine, costs, extend=False)
    print(json.dumps(costs.steps))


if __name__ == "__main__":
    main()
