"""What requests, starts, memory and builds take as more is stored.

    python bench/growth.py [--schemas 100000,1000000,5000000] [--versions 1,1000,5000]
                           [--subjects 1,1000,100000] [--requests 200] [--seconds 60] [--spark]
                           [--charts bench] [--folder /tmp]

Three things grow, each by itself: the schemas, one in each subject; the versions of one subject; the subjects
of one id. Each point is a log that is written directly, and a node of its own over it, with one reader.
Requests come one after another over one connection, the kinds in turns; p50 and p99 of each kind are printed,
and how many times as long as those that do the least (by id) they take, because what else the machine does
changes both.

Where that factor is more than GROWS times as large at the largest point as at the smallest, the last lines
say so, and the exit code is 1: the answers stay as long as they were. Charts are drawn of all points.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.chart import Series, drawn
from bench.start import Place, built, memory, size_of
from deploy.local.node import Node
from registry.domain.log_format.records import Entry, config_key, schema_key
from registry.domain.log_format.values import config_value, schema_value
from registry.domain.model import TOP, Subject
from registry.domain.schemas import FORMATS
from registry.log.embedded.log import EmbeddedLog

ROOT = Path(__file__).parent.parent
TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
GROWS = 3.0
# Of each kind of request, however long they take.
LEAST = 5
WAIT_S = 1800.0
BATCH = 5000
COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#000000", "#aa7700",
)  # fmt: skip

Ask = tuple[str, str, dict[str, object] | None]


class Kind(NamedTuple):
    """A kind of request."""

    name: str
    ask: Callable[[int], Ask]
    """The request with a number of its own."""


class Axis(NamedTuple):
    """What grows."""

    name: str
    records: Callable[[int], Iterator[Entry]]
    kinds: Callable[[int], list[Kind]]


def schema(name: str, own: str = "own") -> str:
    """A record of six fields."""
    fields = [{"name": f"field{at}", "type": ["null", "string"], "default": None} for at in range(5)]
    fields.append({"name": own, "type": ["null", "long"], "default": None})  # type: ignore[dict-item]
    return orjson.dumps({"type": "record", "name": name, "namespace": "bench", "fields": fields}).decode()


_CANONICAL = FORMATS["AVRO"].parse(schema("NAME", "OWN")).canonical


def version(subject: str, number: int, schema_id: int, name: str, own: str = "own") -> Entry:
    """The record of a version."""
    of = Subject.parse(subject)
    text = _CANONICAL.replace("NAME", name).replace("OWN", own)
    return Entry(schema_key(of, number), schema_value(of, number, schema_id, text))


# --- schemas, each the first version of its subject


def schemas_records(count: int) -> Iterator[Entry]:
    return (version(f"subject-{number:07d}", 1, number + 1, f"R{number}") for number in range(count))


def schemas_kinds(count: int) -> list[Kind]:
    def subject(number: int) -> str:
        return f"/subjects/subject-{number * 7919 % count:07d}"

    def stored(number: int, own: str = "own") -> dict[str, object]:
        return {"schema": schema(f"R{number * 7919 % count}", own)}

    def fresh(number: int) -> dict[str, object]:
        return {"schema": schema(f"N{number}")}

    last = max(0, count - 10)
    return [
        Kind("by id", lambda n: ("GET", f"/schemas/ids/{n * 7919 % count + 1}", None)),
        Kind("latest", lambda n: ("GET", f"{subject(n)}/versions/latest", None)),
        Kind("look up", lambda n: ("POST", subject(n), stored(n))),
        Kind("register again", lambda n: ("POST", f"{subject(n)}/versions", stored(n))),
        Kind("check", lambda n: ("POST", f"/compatibility{subject(n)}/versions/latest", stored(n, "new"))),
        Kind("register, next version", lambda n: ("POST", f"{subject(n)}/versions", stored(n, f"new{n}"))),
        Kind("register, new subject", lambda n: ("POST", f"/subjects/new-{n}/versions", fresh(n))),
        Kind("10 subjects, first", lambda _: ("GET", "/subjects?limit=10", None)),
        Kind("10 subjects, last", lambda _: ("GET", f"/subjects?offset={last}&limit=10", None)),
        Kind("10 schemas, first", lambda _: ("GET", "/schemas?limit=10", None)),
        Kind("10 schemas, last", lambda _: ("GET", f"/schemas?offset={last}&limit=10", None)),
        Kind("delete a subject", lambda n: ("DELETE", f"/subjects/new-{n}", None)),
    ]  # fmt: skip


# --- versions of one subject


def versions_records(count: int) -> Iterator[Entry]:
    yield Entry(config_key(TOP), config_value(TOP, {"compatibilityLevel": "NONE"}))
    for number in range(count):
        yield version("many", number + 1, number + 1, "Many", f"own{number}")


def versions_kinds(count: int) -> list[Kind]:
    many = "/subjects/many"

    def stored(number: int) -> dict[str, object]:
        return {"schema": schema("Many", f"own{number * 7919 % count}")}

    def fresh(number: int) -> dict[str, object]:
        return {"schema": schema("Many", f"new{number}")}

    return [
        Kind("by id", lambda n: ("GET", f"/schemas/ids/{n * 7919 % count + 1}", None)),
        Kind("latest", lambda _: ("GET", "/subjects/many/versions/latest", None)),
        Kind("a version", lambda n: ("GET", f"/subjects/many/versions/{n * 7919 % count + 1}", None)),
        Kind("look up", lambda n: ("POST", many, stored(n))),
        Kind("check", lambda n: ("POST", f"/compatibility{many}/versions/latest", fresh(n))),
        Kind("register, next version", lambda n: ("POST", f"{many}/versions", fresh(n))),
        Kind("10 versions", lambda _: ("GET", "/subjects/many/versions?limit=10", None)),
        Kind("delete a version", lambda n: ("DELETE", f"/subjects/many/versions/{count + n + 1}", None)),
    ]  # fmt: skip


# --- subjects of one id


def subjects_records(count: int) -> Iterator[Entry]:
    return (version(f"shared-{number:07d}", 1, 1, "Shared") for number in range(count))


def subjects_kinds(count: int) -> list[Kind]:
    shared: dict[str, object] = {"schema": schema("Shared")}
    of_id, page = "/schemas/ids/1", f"offset={max(0, count - 10)}&limit=10"
    return [
        Kind("by id", lambda _: ("GET", of_id, None)),
        Kind("latest", lambda n: ("GET", f"/subjects/shared-{n * 7919 % count:07d}/versions/latest", None)),
        Kind("look up", lambda n: ("POST", f"/subjects/shared-{n * 7919 % count:07d}", shared)),
        Kind("register, new subject", lambda n: ("POST", f"/subjects/zz-{n}/versions", shared)),
        Kind("10 subjects of the id, first", lambda _: ("GET", f"{of_id}/subjects?limit=10", None)),
        Kind("10 subjects of the id, last", lambda _: ("GET", f"{of_id}/subjects?{page}", None)),
        Kind("10 versions of the id", lambda _: ("GET", f"{of_id}/versions?limit=10", None)),
        Kind("delete a subject", lambda n: ("DELETE", f"/subjects/zz-{n}", None)),
        Kind("delete it for good", lambda n: ("DELETE", f"/subjects/zz-{n}?permanent=true", None)),
    ]  # fmt: skip


AXES = (
    Axis("schemas", schemas_records, schemas_kinds),
    Axis("versions", versions_records, versions_kinds),
    Axis("subjects", subjects_records, subjects_kinds),
)


# --- measuring


def fill(log: EmbeddedLog, entries: Iterator[Entry]) -> None:
    """Append them all."""
    while batch := list(itertools.islice(entries, BATCH)):
        log.append(batch)


class Line:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._line = HTTPConnection("127.0.0.1", port, timeout=300)

    def seconds(self, ask: Ask) -> float:
        """How long one answer takes."""
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
    """One point, printed as it is measured; seconds by name."""
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
        found[name] = started(node)
        print(f"  {name:30} {found[name]:9.2f} s, {memory(node.pid)[0]} MB of its own", flush=True)
        if name == "start, kept store":
            try:
                found |= asked(axis.kinds(count), node, given)
            except BaseException:
                print(node.output)
                raise
            print(f"  {'after all requests':30} {memory(node.pid)[0]:9} MB of its own", flush=True)
        node.stop()
    print(f"  {'store':30} {size_of(folder / 'node' / 'data' / 'store'):9.0f} MB", flush=True)
    for engine in ("local", *(["spark"] if given.spark else [])):
        found[f"build, {engine}"], _ = built(place, engine, "--full")
        print(f"  build, {engine:23} {found[f'build, {engine}']:9.2f} s", flush=True)
    return found


def started(node: Node) -> float:
    """Start a node; seconds until it is ready."""
    began = time.monotonic()
    node.start()
    while not node.ready():
        if time.monotonic() - began > WAIT_S:
            raise SystemExit(node.output)
        time.sleep(0.02)
    return time.monotonic() - began


def asked(kinds: Sequence[Kind], node: Node, given: argparse.Namespace) -> dict[str, float]:
    """The median seconds of each kind of request; the kinds take turns."""
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


def defects(axis: Axis, points: dict[int, dict[str, float]]) -> Iterator[str]:
    """Yield what takes longer, the more is stored."""
    least, most = points[min(points)], points[max(points)]
    for kind in axis.kinds(max(points)):
        name = kind.name
        if (
            most[name] / most["by id"] > GROWS * least[name] / least["by id"]
            and most[name] > GROWS * least[name]
        ):
            yield f"{axis.name}: {name}, from {least[name] * 1000:.2f} to {most[name] * 1000:.2f} ms"
    name = "start, kept store"
    if most[name] > GROWS * least[name]:
        yield f"{axis.name}: {name}, from {least[name]:.2f} to {most[name]:.2f} s"


def chart(axis: Axis, points: dict[int, dict[str, float]], file: Path) -> None:
    """Draw the milliseconds of each kind of request."""
    lines = [
        Series(kind.name, [(count, points[count][kind.name] * 1000) for count in sorted(points)], colour)
        for kind, colour in zip(axis.kinds(max(points)), COLOURS, strict=False)
    ]
    file.write_text(drawn(f"Milliseconds a request, by number of {axis.name}", lines), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, sizes in (
        ("schemas", "100000,1000000,5000000"),
        ("versions", "1,1000,5000"),
        ("subjects", "1,1000,100000"),
    ):
        parser.add_argument(f"--{name}", default=sizes, help="numbers, ascending; none: left out")
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    parser.add_argument("--seconds", type=float, default=60, help="for the requests of a point, about")
    parser.add_argument("--spark", action="store_true", help="build with Spark too")
    parser.add_argument("--charts", type=Path, default=ROOT / "bench", help="folder of the charts")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="growth-", dir=given.folder))
    bad: list[str] = []
    try:
        for axis in AXES:
            points: dict[int, dict[str, float]] = {}
            for count in [int(each) for each in getattr(given, axis.name).split(",") if each]:
                place = folder / f"{axis.name}-{count}"
                points[count] = measure(axis, count, place, given)
                shutil.rmtree(place)
            if len(points) > 1:
                chart(axis, points, given.charts / f"growth-{axis.name}.svg")
                bad += defects(axis, points)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\nGrows faster than its work:" if bad else "\nNothing grows faster than its work.")
    print("\n".join(f"  {each}" for each in bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
