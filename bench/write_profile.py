"""The parts of a new schema's milliseconds, over one connection to a standalone registry, drawn.

    python bench/write_profile.py [--seconds 3] [--chart bench/write-profile.svg] [--folder /tmp]

One registry is measured as it is: CPU of the reader and of the node for one write, and the time between two
answers. Another one runs under a profiler (bench/timed), whose shares are applied to that CPU: a function's
own time counts for its room, that of built-in functions for the room that calls them. What is left of the
time between two answers is waiting: for the disk, and for the processes to wake up. Needs wrk.
"""

from __future__ import annotations

import argparse
import os
import pstats
import signal
import sys
from collections import Counter
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.command_line import run_in_folder  # noqa: E402
from bench.load import NEW, new_body, write_script, wrk  # noqa: E402
from bench.process_costs import PLAIN, Processes  # noqa: E402
from tests.process.test_lifecycle import children  # noqa: E402
from tests.support.running import Registry, until  # noqa: E402

CHART = ROOT / "bench" / "write-profile.svg"
LOOP = "event loop and sockets"
# Parts by how paths below registry/ begin; the first that fits counts.
PARTS = {
    "http1/": "HTTP",
    "reader/": "fast path, state of the node",
    "api/": "handler and answer",
    "security/": "permissions",
    "domain/schemas/": "parsing the schema",
    "domain/decide/": "deciding",
    "domain/history/": "history",
    "domain/fold/": "applying",
    "domain/rows/": "rows in memory",
    "domain/": "commands and records",
    "store/": "store",
    "log/": "log",
    "ipc/": "messages",
    "node/write/": "queue and batch",
    "node/replication/": "reading back",
    "node/": "rest of the node",
    "base/": "metrics and sockets",
}
# A part below this share of its process is drawn as a part of "all else".
SHARE_MIN = 0.02
WIDTH, LEFT, ROW = 820, 280, 22
STYLE = """<style>
.ground { fill: #ffffff; }
text { font: 13px sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: bold; }
.reader { fill: #1f77b4; } .node { fill: #2ca02c; } .waiting { fill: #9a6700; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; }
text { fill: #e6edf3; }
.reader { fill: #58a6ff; } .node { fill: #3fb950; } .waiting { fill: #d29922; }
}
</style>"""


class Cost(NamedTuple):
    """The microseconds of one write."""

    between_answers: float
    # CPU by process: "reader", "node".
    cpu: dict[str, float]


def _pids(registry: Registry) -> dict[str, int]:
    """Return its processes as "node" and "reader"."""
    return {name.removeprefix("registry-"): pid for pid, name in children(registry).items()}


def measure(registry: Registry, folder: Path, seconds: int, seed: str) -> Cost:
    """Register new schemas over one connection."""
    pids = _pids(registry)
    processes = {name: Processes(pid) for name, pid in pids.items()}
    script = write_script(folder / "load.lua", NEW, seed=seed, count=0, template=new_body())
    before = {name: each.cpu_s() for name, each in processes.items()}
    found = wrk(registry.url, script, seconds, 1)
    assert not found.errors
    us = 1e6 / (found.per_s * seconds)
    cpu = {name: (each.cpu_s() - before[name]) * us for name, each in processes.items()}
    return Cost(1e6 / found.per_s, cpu)


def measure_parts(registry: Registry, folder: Path, seconds: int) -> dict[str, Counter[str]]:
    """Return seconds by process and part, while it registers schemas."""
    pids = _pids(registry)

    def toggle(suffix: str) -> None:
        for pid in pids.values():
            os.kill(pid, signal.SIGUSR1)
        files = [folder / f"{pid}{suffix}" for pid in pids.values()]
        until(lambda: all(each.exists() for each in files), 30, f"{suffix} of all processes")

    measure(registry, folder, 1, "w")
    toggle(".counting")
    measure(registry, folder, seconds, "p")
    toggle(".prof")
    return {name: parts_of(folder / f"{pid}.prof") for name, pid in pids.items()}


def parts_of(file: Path) -> Counter[str]:
    """Return the own seconds of a profile's functions by part."""
    found = Counter[str]()
    for (path, _, _), (_, _, own, _, callers) in pstats.Stats(str(file)).stats.items():  # type: ignore[attr-defined]
        if path != "~":
            found[part_of(path)] += own
        else:
            for (caller, _, _), (_, _, of_caller, _) in callers.items():
                found[part_of(caller)] += of_caller
    found[LOOP] = max(0.0, float(file.with_suffix(".cpu").read_text()) - found.total())
    return found


def part_of(path: str) -> str:
    """Return the part to which a function in this file belongs."""
    inside = path.removeprefix(f"{ROOT}/registry/")
    if inside == path:
        return "libraries"
    return next((part for prefix, part in PARTS.items() if inside.startswith(prefix)), "all else")


def rows_of(name: str, parts: Counter[str], cpu_us: float) -> list[tuple[str, str, float]]:
    """Return the process, part and microseconds of a process's parts, the largest first."""
    total = parts.total()
    large = {
        part: own / total for part, own in parts.items() if own / total >= SHARE_MIN and part != "all else"
    }
    rows = [(name, part, share * cpu_us) for part, share in sorted(large.items(), key=lambda each: -each[1])]
    return [*rows, (name, "all else", (1 - sum(large.values())) * cpu_us)]


def draw(title: str, rows: list[tuple[str, str, float]]) -> str:
    """Return bars as an SVG document that follows the reader's choice of light and dark."""
    longest = max(us for _, _, us in rows)
    height = 44 + ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        STYLE,
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="12" y="22">{escape(title)}</text>',
    ]
    for number, (process, part, us) in enumerate(rows):
        y = 36 + ROW * number
        length = round(max(1.0, us / longest * (WIDTH - LEFT - 80)), 1)
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(f"{process}: {part}")}</text>',
            f'<rect class="{process}" x="{LEFT}" y="{y + 2}" width="{length}" height="{ROW - 6}"/>',
            f'<text x="{LEFT + length + 8}" y="{y + 14}">{us:.0f} µs</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def run(given: argparse.Namespace, folder: Path) -> None:
    """Measure, print a table and draw it."""
    plain = Registry(folder / "plain", "--readers", "1", environment=PLAIN).wait()
    try:
        measure(plain, folder, 1, "w")
        cost = measure(plain, folder, given.seconds, "m")
    finally:
        plain.stop()
    timed = {"PYTHONPATH": str(ROOT / "bench" / "timed"), "COUNTS": str(folder)}
    registry = Registry(folder / "timed", "--readers", "1", environment=PLAIN | timed).wait()
    try:
        parts = measure_parts(registry, folder, given.seconds)
    finally:
        registry.stop()
    rows = [row for name in ("reader", "node") for row in rows_of(name, parts[name], cost.cpu[name])]
    waiting = max(0.0, cost.between_answers - cost.cpu["reader"] - cost.cpu["node"])
    rows.append(("waiting", "disk, client, wake-ups", waiting))
    print("| part of a write | |\n| --- | --- |")
    for name, part, us in rows:
        print(f"| {name}: {part} | {us:.0f} µs |")
    title = f"A new schema in {cost.between_answers / 1000:.2f} ms, over one connection"
    print(f"| all, of it CPU: {sum(cost.cpu.values()):.0f} µs | {cost.between_answers:.0f} µs |")
    given.chart.write_text(draw(title, rows), encoding="utf-8")


if __name__ == "__main__":
    run_in_folder(__doc__, run, seconds=3, chart=CHART)
