"""Load on a running registry, with three yardsticks in the same run; prints ratios.

    python bench/load.py [--schemas 100000] [--seconds 4] [--rounds 3] [--readers 2] [--folder /tmp]

The yardsticks answer a constant of the same size: nginx, and the registry's own HTTP server in as many
processes as there are readers, with a bare ASGI callable and once more in front of ASGI. Load comes from wrk
with one thread and 32 connections; rounds take turns, and the median of each counts. Needs wrk and nginx.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402
import orjson  # noqa: E402

from bench.command_line import run_in_folder  # noqa: E402
from registry.domain.log_format.records import Entry, schema_key  # noqa: E402
from registry.domain.log_format.values import schema_value  # noqa: E402
from registry.domain.model import Subject  # noqa: E402
from registry.domain.schemas import FORMATS  # noqa: E402
from registry.log.embedded.log import EmbeddedLog  # noqa: E402
from tests.support.running import Registry, children_of, free_port, until  # noqa: E402

FIELDS = 30
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}

# Lua for wrk. Every load runs a script, so that the yardsticks pay for it too.
BY_ID = """
math.randomseed({seed})
function request() return wrk.format("GET", "/schemas/ids/" .. math.random(1, {count})) end
"""
_SMALL = BY_ID.replace("1, {count}", "{count} + 1, 2 * {count}")
_AGAIN = """
math.randomseed({seed})
wrk.headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
local template = {template}
function request()
  local n = math.random(0, 999)
  return wrk.format("POST", "/subjects/subject-" .. n .. "/versions", nil, (template:gsub("@", n)))
end
"""
NEW = """
wrk.headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
local template = {template}
local n = 0
function request()
  n = n + 1
  local name = "{seed}x" .. n
  return wrk.format("POST", "/subjects/new-" .. name .. "/versions", nil, (template:gsub("@", name)))
end
"""


def schema(name: str) -> str:
    """Return a record of thirty fields of typical kinds."""
    kinds = ["long", "string", ["null", "string"], "double", "boolean", {"type": "array", "items": "int"}]
    fields = [{"name": f"field_{n}", "type": kinds[n % len(kinds)]} for n in range(FIELDS)]
    record = {"type": "record", "name": f"R{name}", "namespace": "com.example.bench", "fields": fields}
    return orjson.dumps(record).decode()


class Measured(NamedTuple):
    """The report of wrk."""

    per_s: float
    p50_ms: float
    p99_ms: float
    errors: int


def new_body() -> str:
    """Return the body of a registration as a string of Lua, with ``@`` for the schema's name."""
    # Lua reads JSON strings as its own: both escape quotes and backslashes alike.
    return orjson.dumps(orjson.dumps({"schema": schema("@")}).decode()).decode()


def write_script(path: Path, text: str, **values: object) -> Path:
    """Write a script for wrk: ``text``, with ``{seed}``, ``{count}`` and ``{template}`` replaced."""
    path.write_text(re.sub(r"\{(seed|count|template)\}", lambda found: str(values[found[1]]), text))
    return path


def wrk(url: str, script: Path, seconds: int, connections: int = 32) -> Measured:
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", str(script), url]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def percentile(name: str) -> float:
        number, unit = re.search(rf"{name}%\s+([\d.]+)(us|ms|s)", said).groups()  # type: ignore[union-attr]
        return float(number) * _UNITS[unit]

    errors = sum(map(int, re.findall(r"Non-2xx or 3xx responses: (\d+)", said)))
    errors += sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", said)))
    per_s = float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])  # type: ignore[index]
    return Measured(per_s, percentile("50"), percentile("99"), errors)


def fill(folder: Path, count: int, *, small: bool = False) -> None:
    """Create a log with ``count`` versions under as many subjects, and with as many ``small`` ones."""
    log = EmbeddedLog(folder / "log", record_bytes_max=5_600_000)
    canonical = FORMATS["AVRO"].parse(schema("NAME")).canonical
    for first in range(0, count, 5000):
        entries = []
        for number in range(first, min(first + 5000, count)):
            subject = Subject.parse(f"subject-{number}")
            text = canonical.replace("RNAME", f"R{number}")
            entries.append(Entry(schema_key(subject, 1), schema_value(subject, 1, number + 1, text)))
        log.append(entries)
    for first in range(count, 2 * count, 5000) if small else ():
        entries = []
        for number in range(first, min(first + 5000, 2 * count)):
            subject, text = (
                Subject.parse(f"small-{number}"),
                f'{{"type":"fixed","name":"F{number}","size":8}}',
            )
            entries.append(Entry(schema_key(subject, 1), schema_value(subject, 1, number + 1, text)))
        log.append(entries)
    log.close()


@contextmanager
def nginx(folder: Path, body: bytes, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Run nginx, one process, answering ``body`` to everything; ``tls``: with a certificate and its key."""
    port = free_port()
    (folder / "body").write_bytes(body)
    config = folder / "nginx.conf"
    text = body.decode().replace("\\", "\\\\").replace('"', '\\"').replace("$", "")
    secured = "" if tls is None else f"ssl_certificate {tls[0]}; ssl_certificate_key {tls[1]};"
    config.write_text(
        f"worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n"
        "events { worker_connections 1024; }\n"
        "http { access_log off; keepalive_requests 1000000000;\n"
        f"  server {{ listen 127.0.0.1:{port}{' ssl' * bool(tls)}; {secured} location / {{\n"
        f'    default_type application/json; return 200 "{text}"; }} }} }}\n'
    )
    with subprocess.Popen(["nginx", "-c", str(config)]) as process:
        try:
            yield up(f"http{'s' * bool(tls)}://127.0.0.1:{port}")
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def constant(folder: Path, body: bytes, processes: int, way: str) -> Iterator[str]:
    """Run the registry's own server, answering ``body`` from a callable: ``asgi``, or ``quick`` before it."""
    port = free_port()
    (folder / "body").write_bytes(body)
    words = [sys.executable, str(ROOT / "bench" / "constant.py"), str(port), str(folder / "body"), way]
    running = [subprocess.Popen(words) for _ in range(max(1, processes))]
    try:
        yield up(f"http://127.0.0.1:{port}")
    finally:
        for process in running:
            process.terminate()
            process.wait()


def up(url: str) -> str:
    deadline = time.monotonic() + 20
    while True:
        try:
            httpx.get(url, verify=False)
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return url


def memory(registry: Registry) -> str:
    """Return the memory of the node and its readers, each with its part of what they share."""
    found = []
    for pid, name in children_of(registry.process.pid).items():
        pages = Path(f"/proc/{pid}/smaps_rollup").read_text()
        anonymous = int(re.search(r"Pss_Anon:\s+(\d+)", pages)[1]) >> 10  # type: ignore[index]
        found.append(f"{name.removeprefix('registry-')} {anonymous} MB")
    return ", ".join(sorted(found))


def main() -> None:
    run_in_folder(__doc__, run, schemas=100_000, seconds=4, rounds=3, readers=2)


def run(given: argparse.Namespace, folder: Path) -> None:
    data = folder / "data"
    data.mkdir()
    began = time.monotonic()
    fill(data, given.schemas, small=True)
    took = time.monotonic() - began
    print(
        f"{given.schemas} schemas of {FIELDS} fields and as many small ones written to a log in {took:.1f} s"
    )
    flags = ("--readers", str(given.readers))
    began = time.monotonic()
    registry = Registry(data, *flags).wait()
    print(f"folded into an empty store and ready in {time.monotonic() - began:.1f} s")
    registry.stop()
    began = time.monotonic()
    registry = Registry(data, *flags).wait()
    print(f"started again over the full store: ready in {time.monotonic() - began:.2f} s")
    until(lambda: httpx.get(f"{registry.url}/node").json()["search"]["built"] == 1, 600, "the index of words")
    print(f"the index of words complete after {time.monotonic() - began:.0f} s")
    body = httpx.get(f"{registry.url}/schemas/ids/{given.schemas // 2}").content
    small = httpx.get(f"{registry.url}/schemas/ids/{given.schemas * 3 // 2}").content
    few = folder / "small"
    few.mkdir()
    try:
        with (
            nginx(few, small) as small_url,
            nginx(folder, body) as nginx_url,
            constant(folder, body, given.readers, "asgi") as asgi_url,
            constant(folder, body, given.readers, "quick") as quick_url,
        ):
            measure(given, folder, registry, nginx_url, asgi_url, quick_url)
            measure_small(given, folder, registry, small_url, len(small))
    finally:
        registry.stop()


def measure(
    given: argparse.Namespace, folder: Path, registry: Registry, nginx_url: str, asgi_url: str, quick_url: str
) -> None:
    template = new_body()
    scripts = {"by id": BY_ID, "again": _AGAIN, "new": NEW}

    def load(name: str, url: str, round_: int) -> Measured:
        values = {"seed": f"{round_}{os.getpid()}", "count": given.schemas, "template": template}
        return wrk(url, write_script(folder / "load.lua", scripts[name], **values), given.seconds)

    rows: dict[str, Callable[[int], Measured]] = {
        "nginx, a constant": lambda round_: load("by id", nginx_url, round_),
        "a bare ASGI callable": lambda round_: load("by id", asgi_url, round_),
        "own server, a constant": lambda round_: load("by id", quick_url, round_),
        "GET /schemas/ids/{id}": lambda round_: load("by id", registry.url, round_),
        "register again": lambda round_: load("again", registry.url, round_),
        "register new": lambda round_: load("new", registry.url, round_),
    }
    results: dict[str, list[Measured]] = {name: [] for name in rows}
    for round_ in range(given.rounds):
        for name, take in rows.items():
            results[name].append(take(round_))
    print(
        f"\nwrk -t1 -c32, {given.rounds} rounds of {given.seconds} s, {given.readers} readers, "
        f"{os.cpu_count()} cores, bodies of {len(httpx.get(quick_url).content)} bytes"
    )
    titles = ("per s", "p50 ms", "p99 ms", "/nginx", "/ASGI", "/const", "/by id", "errors")
    print(" " * 26 + "".join(f"{title:>9}" for title in titles))
    median = {name: statistics.median(each.per_s for each in found) for name, found in results.items()}
    nginx_rate, asgi_rate, constant_rate, by_id, *_ = median.values()
    for name, found in results.items():
        rate, p50, p99 = median[name], *(statistics.median(each[n] for each in found) for n in (1, 2))
        print(
            f"{name:26}{rate:9.0f}{p50:9.2f}{p99:9.2f}{rate / nginx_rate:9.2f}{rate / asgi_rate:9.2f}"
            f"{rate / constant_rate:9.2f}{rate / by_id:9.2f}{sum(each.errors for each in found):9}"
        )
    print(f"\nprivate memory: {memory(registry)}")


def measure_small(
    given: argparse.Namespace, folder: Path, registry: Registry, nginx_url: str, body_bytes: int
) -> None:
    """Compare reads by id of small schemas with nginx's constant of their size, in turns."""
    found: dict[str, list[float]] = {nginx_url: [], registry.url: []}
    for round_ in range(given.rounds):
        for url, rates in found.items():
            script = write_script(
                folder / "load.lua", _SMALL, seed=f"{round_}{os.getpid()}", count=given.schemas
            )
            rates.append(wrk(url, script, given.seconds).per_s)
    constant_rate, by_id = map(statistics.median, found.values())
    print(
        f"\nbodies of {body_bytes} bytes: nginx, a constant {constant_rate:.0f}; "
        f"GET /schemas/ids/{{id}} {by_id:.0f}, {by_id / constant_rate:.2f} of it"
    )


if __name__ == "__main__":
    main()
