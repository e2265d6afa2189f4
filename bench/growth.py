"""Cost of requests, lists, starts, memory and builds as more is stored.

    python bench/growth.py [--schemas 100000,1000000,5000000] [--subjects 1,1000,100000]
                           [--versions 1,1000,5000] [--requests 200] [--seconds 60] [--spark]
                           [--charts bench] [--folder /tmp]

Three things grow, each by itself: the schemas, one in each subject; the subjects of one id; the versions of
one subject. Each point is a log that is written directly, and a new node over it, with one reader. Requests
are sent one after another over one connection, the kinds in turns. For each kind, p50 and p99 are printed,
also as a multiple of the cheapest requests (by id), because other load of the machine changes both. Then
follow lists and their cost for a bystander (bench/lists.py), and builds of snapshots. Versions of one subject
are measured by bench/versions.py.

The last lines name everything that grows faster than its work; the exit code is then 1. The work of a request
for one item or one page is constant, and so are the bystander's delay and the time until a list begins. The
work of whole lists, starts from the log, builds, and requests that examine each version of a subject is
proportional to what is stored. Charts show all points.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench import lists, versions
from bench.bystander import TYPE
from bench.chart import Series, draw
from bench.growth_requests import AXES, Ask, Axis, Kind
from bench.start import Place, build_snapshot, memory, size_of
from deploy.local.node import Node
from registry.domain.log_format.records import Entry
from registry.log.embedded.log import EmbeddedLog

ROOT = Path(__file__).parent.parent
# The maximum ratio of a duration at the largest point to that at the smallest.
GROWS = 3.0
# The maximum ratio per item that is examined.
GROWS_EACH = 2.0
# A bystander that waits no longer than this, in seconds, is not disturbed.
UNDISTURBED_S = 0.02
# A list that begins within this time, in seconds, is not late: its first slice ends after 20 ms.
BEGINS_S = 0.04
# Requests whose work is proportional to what is stored.
EACH = re.compile(
    r"in all$|^start, log alone|^build|^first registration|^FULL_TRANSITIVE|^check against all|delete$"
)
DISTURBED = re.compile(r"bystander|during")
# Samples of each kind of request, however long they take.
LEAST = 3
WAIT_S = 1800.0
BATCH = 5000
COLORS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#000000", "#aa7700", "#66aa00", "#aa0077", "#0077aa", "#777700",
)  # fmt: skip

# Seconds by the name of the measurement and by the amount stored.
Points = dict[int, dict[str, float]]


def fill(log: EmbeddedLog, entries: Iterator[Entry]) -> None:
    """Append all entries."""
    while batch := list(itertools.islice(entries, BATCH)):
        log.append(batch)


class Line:
    """Open one connection."""

    def __init__(self, port: int) -> None:
        self._line = HTTPConnection("127.0.0.1", port, timeout=300)

    def seconds(self, ask: Ask) -> float:
        """Return the duration of one answer."""
        method, path, body = ask
        packed = None if body is None else orjson.dumps(body)
        began = time.perf_counter()
        self._line.request(method, path, packed, TYPE)
        answer = self._line.getresponse()
        try:
            said = answer.read()
        except IncompleteRead as error:
            raise SystemExit(f"{method} {path}: the answer breaks off: {error}") from None
        took = time.perf_counter() - began
        assert answer.status in (200, 204), f"{method} {path}: {answer.status} {said[:200]!r}"
        return took


def measure(axis: Axis, count: int, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Measure one point, and print results as they come; return seconds by name."""
    place = Place(folder, None)
    (folder / "node" / "data").mkdir(parents=True)
    began = time.monotonic()
    log = EmbeddedLog(folder / "node" / "data" / "log")
    fill(log, axis.records(count))
    log.close()
    print(f"\n{axis.name}: {count:,} (written in {time.monotonic() - began:.1f} s)", flush=True)
    found: dict[str, float] = {}
    for name in ("start, log alone", "start, kept store"):
        node = Node(folder / "node", ["--readers", "1", *place.flags, "--snapshots-load", "off"])
        found[name] = start_node(node)
        print(f"  {name:30} {found[name]:9.2f} s, {memory(node.pid)[0]} MB of its own", flush=True)
        waited = lists.seconds_until_counted(node, axis.shared_id)
        print(f"  {'counted, after that':30} {waited:9.2f} s", flush=True)
        if name == "start, kept store":
            try:
                found |= measure_requests(axis.kinds(count), node, given)
                found |= measure_lists(axis.lists(count), node)
            except BaseException:
                print(node.output)
                raise
            print(f"  {'after all requests':30} {memory(node.pid)[0]:9} MB of its own", flush=True)
        node.stop()
    print(f"  {'store':30} {size_of(folder / 'node' / 'data' / 'store'):9.0f} MB", flush=True)
    for engine in ("local", *(["spark"] if given.spark and axis.name == "schemas" else [])):
        found[f"build, {engine}"], _ = build_snapshot(place, engine, "--full")
        print(f"  build, {engine:23} {found[f'build, {engine}']:9.2f} s", flush=True)
    return found


def start_node(node: Node) -> float:
    """Start a node; return the seconds until it is ready."""
    began = time.monotonic()
    node.start()
    while not node.ready():
        if time.monotonic() - began > WAIT_S:
            raise SystemExit(node.output)
        time.sleep(0.02)
    return time.monotonic() - began


def measure_requests(kinds: Sequence[Kind], node: Node, given: argparse.Namespace) -> dict[str, float]:
    """Return the median seconds of each kind of request; the kinds take turns."""
    took: dict[str, list[float]] = {kind.name: [] for kind in kinds}
    line, began = Line(node.port), time.monotonic()
    for number in range(given.requests):
        if number >= LEAST and time.monotonic() - began > given.seconds:
            break
        for kind in kinds:
            took[kind.name].append(line.seconds(kind.ask(number)))
    found = {name: statistics.median(each) for name, each in took.items()}
    for name, each in took.items():
        p99 = sorted(each)[min(len(each) - 1, len(each) * 99 // 100)]
        print(
            f"  {name:30} {found[name] * 1000:9.2f} ms, p99 {p99 * 1000:9.2f} ms, "
            f"{1 / found[name]:8.0f}/s, {found[name] / found['by id']:7.1f} times by id",
            flush=True,
        )
    return found


def measure_lists(targets: Sequence[str], node: Node) -> dict[str, float]:
    """Return the cost of each list, and a bystander's delay meanwhile; of equal kinds the first counts."""
    found: dict[str, float] = {}
    for target in targets:
        row = lists.measure_list(node, target)
        name = f"list {re.sub(r'offset=[0-9]+', 'offset=end', target)}"
        seconds = {
            "first byte": row.first_ms / 1000,
            "in all": row.seconds,
            "bystander's p99": row.p99_ms / 1000,
        }
        for what, each in seconds.items():
            found.setdefault(f"{name}, {what}", each)
        print(
            f"  {name:45} first byte {row.first_ms:8.1f} ms, in all {row.seconds:7.2f} s, "
            f"bystander p99 {row.p99_ms:7.1f} ms, +{row.grown_mb} MB",
            flush=True,
        )
    return found


def defects(axis: str, points: Points) -> Iterator[str]:
    """Yield what grows faster than its work."""
    least, most = points[min(points)], points[max(points)]
    ratio = max(points) / min(points)
    for name in least.keys() & most.keys():
        allowed = GROWS_EACH * ratio if EACH.search(name) else GROWS
        grown = most[name] / least[name]
        if not name.startswith(("start", "build", "list")):
            # Others use the machine: the cheapest requests show how much.
            grown = min(grown, grown * least.get("by id", 1) / most.get("by id", 1))
        if DISTURBED.search(name) and most[name] < UNDISTURBED_S:
            continue
        if name.endswith("first byte") and most[name] < BEGINS_S:
            continue
        if grown > allowed:
            yield f"{axis}: {name}, from {least[name] * 1000:.2f} to {most[name] * 1000:.2f} ms"


def chart(title: str, points: Points, names: Sequence[str], file: Path) -> None:
    """Draw milliseconds by the amount stored."""
    series = [
        Series(name, [(count, points[count][name] * 1000) for count in sorted(points)], color)
        for name, color in zip(names, COLORS, strict=False)
    ]
    file.write_text(draw(title, series), encoding="utf-8")


def charts(axis: str, points: Points, folder: Path) -> None:
    """Draw requests, lists, and starts and builds separately."""
    names = [each for each in points[max(points)] if ": CPU" not in each]
    groups: dict[str, Callable[[str], bool]] = {
        f"growth-{axis}": lambda name: not name.startswith(("list", "start", "build")),
        f"growth-{axis}-lists": lambda name: name.startswith("list"),
        f"growth-{axis}-starts": lambda name: name.startswith(("start", "build")),
    }
    for file, belongs in groups.items():
        chosen = [each for each in names if belongs(each)]
        if chosen:
            chart(f"Milliseconds, by number of {axis}", points, chosen, folder / f"{file}.svg")


def of_versions(counts: list[int], folder: Path, requests: int) -> Points:
    """Measure versions of one subject, and print them."""
    rows = versions.measure_versions(folder, counts, requests)
    print(f"\nversions\n\n{versions.table(rows)}", flush=True)
    return {count: {name: ms / 1000 for name, ms in row.items()} for count, row in rows.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, sizes in (
        ("schemas", "100000,1000000,5000000"),
        ("subjects", "1,1000,100000"),
        ("versions", "1,1000,5000"),
    ):
        parser.add_argument(f"--{name}", default=sizes, help="numbers, ascending; none: left out")
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    parser.add_argument("--seconds", type=float, default=60, help="for the requests of a point, about")
    parser.add_argument("--spark", action="store_true", help="build with Spark too, of the schemas")
    parser.add_argument("--charts", type=Path, default=ROOT / "bench", help="folder of the charts")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="growth-", dir=given.folder))
    measured: dict[str, Points] = {}
    try:
        for axis in AXES:
            points = measured.setdefault(axis.name, {})
            for count in [int(each) for each in getattr(given, axis.name).split(",") if each]:
                place = folder / f"{axis.name}-{count}"
                points[count] = measure(axis, count, place, given)
                shutil.rmtree(place)
        counts = [int(each) for each in given.versions.split(",") if each]
        if counts:
            measured["versions"] = of_versions(counts, folder / "versions", max(1, given.requests // 5))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    grown = {axis: points for axis, points in measured.items() if len(points) > 1}
    for axis, points in grown.items():
        charts(axis, points, given.charts)
    bad = [each for axis, points in grown.items() for each in defects(axis, points)]
    print("\nGrows faster than its work:" if bad else "\nNothing grows faster than its work.")
    print("\n".join(f"  {each}" for each in bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
