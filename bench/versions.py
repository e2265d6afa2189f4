"""What one request costs at a subject of 1, 1,000, 2,000 and 5,000 versions; prints a table of milliseconds.

    python bench/versions.py [--versions 1 1000 2000 5000] [--requests 40] [--folder /tmp] [--source TREE]

Subjects are written into an embedded log before the node starts, so each first request meets rows of which
nothing is known yet. One connection, one request at a time; medians. ``--source``: measure another checkout.
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
sys.path.insert(0, str(_SOURCE))
os.chdir(_SOURCE)

import httpx  # noqa: E402
import orjson  # noqa: E402

from registry.domain.log_format.records import Entry, config_key, schema_key  # noqa: E402
from registry.domain.log_format.values import config_value, schema_value  # noqa: E402
from registry.domain.model import Subject  # noqa: E402
from registry.domain.schemas import FORMATS  # noqa: E402
from registry.log.embedded.log import EmbeddedLog  # noqa: E402
from tests.running import Registry  # noqa: E402

FIELDS = 10
_PURPOSES = ("none", "transitive", "deleted")


def schema(number: int, **more: str) -> str:
    """A record of ten fields, one of them the version's own; each is compatible with all others."""
    listed = [{"name": f"field{at}", "type": ["null", "string"], "default": None} for at in range(FIELDS)]
    own = {"name": f"own{number}", "type": ["null", "long"], "default": None}
    value = {"type": "record", "name": "Order", "namespace": "shop", **more, "fields": [*listed, own]}
    return orjson.dumps(value).decode()


def spelled_otherwise(number: int) -> str:
    """The same schema with its attributes in another order."""
    value = orjson.loads(schema(number))
    return orjson.dumps(dict(reversed(value.items()))).decode()


def fill(folder: Path, counts: list[int]) -> None:
    """Write the log: for each count a subject of each purpose."""
    log = EmbeddedLog(folder / "log")
    parse, schema_id = FORMATS["AVRO"].parse, 0
    for count in counts:
        subjects = [Subject.parse(f"{purpose}-{count}") for purpose in _PURPOSES]
        for subject in subjects:
            level = "FULL_TRANSITIVE" if subject.name.startswith("transitive") else "NONE"
            value = config_value(subject, {"compatibilityLevel": level})
            log.append([Entry(config_key(subject), value)])
        entries: list[Entry] = []
        for number in range(1, count + 1):
            text = parse(schema(number)).canonical
            schema_id += 1
            entries += [
                Entry(schema_key(each, number), schema_value(each, number, schema_id, text))
                for each in subjects
            ]
        for start in range(0, len(entries), 1000):
            log.append(entries[start : start + 1000])
    log.close()


def timed(request: Callable[[], httpx.Response], ok: tuple[int, ...] = (200,)) -> float:
    """Send one request and return the milliseconds it took."""
    began = time.perf_counter()
    answer = request()
    took = (time.perf_counter() - began) * 1000
    if answer.status_code not in ok:
        raise SystemExit(f"{answer.status_code}: {answer.text[:500]}")
    return took


class Bench:
    """Requests for one running registry."""

    def __init__(self, url: str, requests: int) -> None:
        self.client = httpx.Client(base_url=url, timeout=300)
        self._requests = requests
        self._fresh = 10**6

    def _new(self) -> dict[str, str]:
        self._fresh += 1
        return {"schema": schema(self._fresh)}

    def register(self, subject: str) -> httpx.Response:
        """Register what is not there yet."""
        return self.client.post(f"/subjects/{subject}/versions", json=self._new())

    def _median(self, request: Callable[[], httpx.Response], ok: tuple[int, ...] = (200,)) -> float:
        return statistics.median(timed(request, ok) for _ in range(self._requests))

    def row(self, count: int) -> dict[str, float]:
        """Everything at subjects of one length."""
        none, transitive, deleted = (f"{purpose}-{count}" for purpose in _PURPOSES)
        post = self.client.post
        equal = {"schema": spelled_otherwise(1)}
        return {
            "first new": timed(lambda: self.register(none)),
            "new": self._median(lambda: self.register(none)),
            "equal": self._median(lambda: post(f"/subjects/{none}/versions", json=equal)),
            "first lookup": timed(lambda: post(f"/subjects/{none}", json=equal)),
            "lookup": self._median(lambda: post(f"/subjects/{none}", json=equal)),
            "missing": self._median(lambda: post(f"/subjects/{none}", json=self._new()), (404,)),
            "first transitive": timed(lambda: self.register(transitive)),
            "transitive": statistics.median(timed(lambda: self.register(transitive)) for _ in range(3)),
            "soft delete": timed(lambda: self.client.delete(f"/subjects/{deleted}")),
            "hard delete": timed(lambda: self.client.delete(f"/subjects/{deleted}?permanent=true")),
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, nargs="+", default=[1, 1000, 2000, 5000])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--source", type=Path, help="the checkout to measure, by default this one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        data = Path(folder) / "data"
        data.mkdir()
        fill(data, arguments.versions)
        running = Registry(data, "--readers", "1", "--request-timeout-s", "120").wait()
        try:
            bench = Bench(running.url, arguments.requests)
            bench.register("warm-up")
            for index, count in enumerate(arguments.versions):
                row = bench.row(count)
                if index == 0:
                    print("| versions |", " | ".join(row), "|")
                    print("| ---: |", " | ".join("---:" for _ in row), "|")
                print(f"| {count:,} |", " | ".join(f"{each:,.1f}" for each in row.values()), "|", flush=True)
        finally:
            running.stop()


if __name__ == "__main__":
    main()
