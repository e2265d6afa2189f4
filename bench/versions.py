"""Cost of requests at a subject of 1, 1,000, 2,000 and 5,000 versions, and delays of others meanwhile.

    python bench/versions.py [--versions 1 1000 2000 5000] [--requests 40] [--folder /tmp] [--source TREE]

Prints a table with a column for each number of versions: milliseconds, medians of ``--requests`` if that is
more than one, one connection, one request at a time. ``CPU`` is the CPU time of all processes of the registry
for one request, which other load changes less. Subjects are written into an embedded log before the node
starts, so that each first request meets rows of which nothing is cached. ``--source``: measure another tree.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
_SOURCE = Path(sys.argv[sys.argv.index("--source") + 1]) if "--source" in sys.argv else ROOT
sys.path[:0] = [str(_SOURCE), str(ROOT / "bench")]
os.chdir(_SOURCE)

import httpx  # noqa: E402
import orjson  # noqa: E402
from bystander import Bystander, Kind  # type: ignore[import-not-found] # noqa: E402

from registry.domain.log_format.records import Entry, config_key, schema_key  # noqa: E402
from registry.domain.log_format.subject_values import config_value  # noqa: E402
from registry.domain.log_format.values import schema_value  # noqa: E402
from registry.domain.model import Subject  # noqa: E402
from registry.domain.schemas import FORMATS  # noqa: E402
from registry.log.embedded.log import EmbeddedLog  # noqa: E402
from tests.support.running import Registry  # noqa: E402

FIELDS = 10
NONE = {"compatibilityLevel": "NONE"}
# Subjects for each number of versions: their config, and how their schemas are made.
PURPOSES = {
    "none": (NONE, "AVRO"),
    "backward": ({"compatibilityLevel": "BACKWARD"}, "AVRO"),
    "documented": ({"compatibilityLevel": "BACKWARD"}, "DOCUMENTED"),
    "logical": ({"compatibilityLevel": "BACKWARD", "compatibilityPolicy": "LOGICAL"}, "DOCUMENTED"),
    "transitive": ({"compatibilityLevel": "FULL_TRANSITIVE"}, "AVRO"),
    "deleted": (NONE, "AVRO"),
    "json": (NONE, "JSON"),
    "protobuf": (NONE, "PROTOBUF"),
}
TRANSITIVE = 5
WARM_UP = 25


def avro(number: int) -> str:
    """Return a record of ten fields and one of the version's own; each is compatible with all others."""
    listed = [{"name": f"field{at}", "type": ["null", "string"], "default": None} for at in range(FIELDS)]
    own = {"name": f"own{number}", "type": ["null", "long"], "default": None}
    value = {"type": "record", "name": "Order", "namespace": "shop", "fields": [*listed, own]}
    return orjson.dumps(value).decode()


def avro_with_doc(number: int) -> str:
    """Return the fields that all versions have, with a doc of the version's own: no column comes or goes."""
    value = orjson.loads(avro(number))
    return orjson.dumps(value | {"fields": value["fields"][:-1], "doc": f"version {number}"}).decode()


def json_schema(number: int) -> str:
    """Return the same as an object."""
    listed: dict[str, object] = {f"field{at}": {"type": "string"} for at in range(FIELDS)}
    return orjson.dumps(
        {"type": "object", "title": "Order", "properties": listed | {f"own{number}": {"type": "integer"}}}
    ).decode()


def protobuf(number: int) -> str:
    """Return the same as a message."""
    listed = "".join(f"  string field{at} = {at + 1};\n" for at in range(FIELDS))
    return f'syntax = "proto3";\npackage shop;\n\nmessage Order {{\n{listed}  int64 own{number} = 99;\n}}\n'


SCHEMAS = {"AVRO": avro, "DOCUMENTED": avro_with_doc, "JSON": json_schema, "PROTOBUF": protobuf}
# The formats of those that are not named after theirs.
TYPES = {"DOCUMENTED": "AVRO"}


def spelled_otherwise(number: int) -> str:
    """Return the Avro schema with its attributes in another order."""
    value = orjson.loads(avro(number))
    return orjson.dumps(dict(reversed(value.items()))).decode()


def fill(log: EmbeddedLog, counts: list[int]) -> None:
    """Append a subject of each purpose for each count."""
    schema_id = 0
    for count in counts:
        for purpose, (config, kind) in PURPOSES.items():
            subject = Subject.parse(f"{purpose}-{count}")
            log.append([Entry(config_key(subject), config_value(subject, config))])
            for first in range(1, count + 1, 1000):
                numbers = range(first, min(first + 1000, count + 1))
                log.append([version(subject, number, schema_id + number, kind) for number in numbers])
            schema_id += count


def version(subject: Subject, number: int, schema_id: int, kind: str) -> Entry:
    """Return the record of a version."""
    schema_type = TYPES.get(kind, kind)
    text = FORMATS[schema_type].parse(SCHEMAS[kind](number)).canonical
    value = schema_value(subject, number, schema_id, text, schema_type=schema_type)
    return Entry(schema_key(subject, number), value)


def cpu_ms(pid: int) -> float:
    """Return the milliseconds of CPU of a process and all processes below it."""
    found = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += int((task / "schedstat").read_text().split()[0]) / 1e6
        found += sum(map(cpu_ms, map(int, (task / "children").read_text().split())))
    return found


class Bench:
    """Requests for one running registry."""

    def __init__(self, address: str, pid: int, requests: int) -> None:
        self.client = httpx.Client(base_url=f"http://{address}", timeout=300)
        self._address, self._pid, self._requests = address, pid, requests
        self._fresh = 10**6

    def _new(self, kind: str = "AVRO") -> dict[str, str]:
        self._fresh += 1
        return {"schema": SCHEMAS[kind](self._fresh), "schemaType": TYPES.get(kind, kind)}

    def time_request(
        self, method: str, path: str, body: dict[str, str] | None = None, ok: int = 200
    ) -> float:
        """Send one request and return the milliseconds it took."""
        began = time.perf_counter()
        answer = self.client.request(method, path, json=body)
        took = (time.perf_counter() - began) * 1000
        if answer.status_code != ok:
            raise SystemExit(f"{method} {path}: {answer.status_code}: {answer.text[:500]}")
        return took

    def register(self, subject: str, kind: str = "AVRO") -> float:
        """Register what is not there yet."""
        return self.time_request("POST", f"/subjects/{subject}/versions", self._new(kind))

    def several(self, request: Callable[[], float], times: int = 0) -> tuple[float, float]:
        """Return the median of the milliseconds, and those of CPU for each."""
        before, times = cpu_ms(self._pid), times or self._requests
        median = statistics.median([request() for _ in range(times)])
        return median, (cpu_ms(self._pid) - before) / times

    def during(self, kind: Kind, work: Callable[[], object]) -> tuple[float, float]:
        """Return a bystander's delay at the 99th percentile and at most."""
        with Bystander(self._address, kind) as bystander:
            work()
        return bystander.waited.p99, bystander.waited.most

    def row(self, count: int) -> dict[str, float]:
        """Return everything at subjects of one length."""
        none, backward, documented, logical, transitive, deleted, json, proto = (
            f"{purpose}-{count}" for purpose in PURPOSES
        )
        equal = {"schema": spelled_otherwise(1)}
        found = {
            "first registration, Avro": self.register(none),
            "first registration, JSON Schema": self.register(json, "JSON"),
            "first registration, Protobuf": self.register(proto, "PROTOBUF"),
            "first lookup": self.time_request("POST", f"/subjects/{none}", equal),
        }
        for subject in (none, backward):
            for _ in range(WARM_UP):  # A reader indexes some versions with each request.
                self.register(subject)
        for subject in (documented, logical):
            for _ in range(WARM_UP):
                self.register(subject, "DOCUMENTED")
        asked: dict[str, Callable[[], float]] = {
            "registration, NONE": lambda: self.register(none),
            "registration, BACKWARD": lambda: self.register(backward),
            "the same columns, BACKWARD": lambda: self.register(documented, "DOCUMENTED"),
            "the same columns, LOGICAL": lambda: self.register(logical, "DOCUMENTED"),
            "equal to an earlier version": lambda: self.time_request(
                "POST", f"/subjects/{none}/versions", equal
            ),
            "lookup": lambda: self.time_request("POST", f"/subjects/{none}", equal),
            "lookup of what is not there": lambda: self.time_request(
                "POST", f"/subjects/{none}", self._new(), 404
            ),
        }
        for name, request in asked.items():
            found[name], found[f"{name}: CPU"] = self.several(request)
        found["the same columns, LOGICAL: times the CPU of BACKWARD"] = (
            found["the same columns, LOGICAL: CPU"] / found["the same columns, BACKWARD: CPU"]
        )
        found |= self._transitive(transitive)
        found["soft delete"] = self.time_request("DELETE", f"/subjects/{deleted}")
        found["permanent delete"] = self.time_request("DELETE", f"/subjects/{deleted}?permanent=true")
        return found

    def _transitive(self, subject: str) -> dict[str, float]:
        """Return the cost of registrations that are compared with all versions, and others' delays."""
        found = {"FULL_TRANSITIVE, first": self.register(subject)}
        name = "FULL_TRANSITIVE, next"
        found[name], found[f"{name}: CPU"] = self.several(lambda: self.register(subject), TRANSITIVE)
        check, body = f"/compatibility/subjects/{subject}/versions", self._new()
        found["check against all, first"] = self.time_request("POST", check, body)
        found["check against all, again"], _ = self.several(lambda: self.time_request("POST", check, body))
        for kind in ("reads", "writes"):
            name = f"{kind} during FULL_TRANSITIVE"
            found[f"{name}, p99"], found[f"{name}, most"] = self.during(
                kind, lambda: [self.register(subject) for _ in range(TRANSITIVE)]
            )
        name = "reads during checks against all"
        found[f"{name}, p99"], found[f"{name}, most"] = self.during(
            "reads", lambda: [self.time_request("POST", check, self._new()) for _ in range(TRANSITIVE)]
        )
        return found


def measure_versions(folder: Path, counts: list[int], requests: int) -> dict[int, dict[str, float]]:
    """Return the rows by number of versions, measured on a new node."""
    data = folder / "data"
    data.mkdir(parents=True)
    log = EmbeddedLog(data / "log")
    fill(log, [*counts, 2])
    log.close()
    running = Registry(data, "--readers", "1", "--request-timeout-s", "120").wait()
    try:
        bench = Bench(f"127.0.0.1:{running.port}", running.process.pid, requests)
        bench.row(2)  # Load and compile what is needed first.
        return {count: bench.row(count) for count in counts}
    finally:
        running.stop()


def table(rows: dict[int, dict[str, float]]) -> str:
    """Return a table with a column for each number of versions."""
    lines = [
        "| milliseconds | " + " | ".join(f"{count:,}" for count in rows) + " |",
        "| --- |" + " ---: |" * len(rows),
    ]
    for name in next(iter(rows.values())):
        values = " | ".join(f"{row[name]:,.1f}" for row in rows.values())
        lines.append(f"| {name} | {values} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--versions", type=int, nargs="+", default=[1, 1000, 2000, 5000])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--source", type=Path, help="the checkout to measure, by default this one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        print(table(measure_versions(Path(folder), arguments.versions, arguments.requests)))


if __name__ == "__main__":
    main()
