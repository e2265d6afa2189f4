"""The open contract for speed: loads that the field measures, with corrected latencies; writes one page.

    python bench/contract.py [--seconds 3] [--runs 5] [--clients 100] [--herd 10000] [--folder /tmp]

One registry over 1,000 Avro schemas, limited to 2 CPUs and 2 GiB, with TLS and passwords. Requests: GET by
id, registration of new schemas, search for subjects. They arrive at constant rates on 100 connections,
whether or not earlier ones were answered, and a latency counts from the moment at which its request should
have been sent (otherwise a pause of the server would delay the load and hide itself). Each run takes all
combinations in another random order. Then a herd of cold clients comes to a cluster that has lost half of its
nodes (bench/herd.py).

Writes bench/CONTRACT.md, bench/contract.svg and all histograms, bench/contract.jsonl (docs/proof.md).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import math
import os
import platform
import random
import resource
import ssl
import statistics
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import uvloop

from bench.chart import Series, draw
from bench.command_line import run_in_folder
from bench.herd import PASSWORD
from bench.load import fill, schema
from deploy.local.node import Node
from deploy.local.process import free_port
from registry.security.authentication.passwords import hash_password
from tests.faults.load import Login
from tests.support.certificates import Authority

ROOT = Path(__file__).parent.parent
SCHEMAS = 1000
CPUS, MEMORY_BYTES = 2, 2 << 30
# Requests per second.
RATES: dict[str, tuple[int, ...]] = {
    "by id": (250, 1000, 2000),
    "register": (50, 150, 300),
    "search": (250, 500, 1000),
}
_COLORS = {"by id": "#1f77b4", "register": "#d62728", "search": "#2ca02c"}
_COLUMNS = 120
_PERCENTILES = (50.0, 99.0, 99.9)
PAGE, CHART = ROOT / "bench" / "CONTRACT.md", ROOT / "bench" / "contract.svg"
HISTOGRAMS = ROOT / "bench" / "contract.jsonl"


class Histogram:
    """Counts of latencies in µs: each power of two is divided into 128 buckets, so errors are below 1 %."""

    BITS = 7

    def __init__(self, counts: Iterable[tuple[int, int]] = ()) -> None:
        # The smallest value of each bucket, and its count.
        self.counts = Counter[int](dict(counts))

    def add(self, value: int) -> None:
        """Count one value."""
        shift = max(0, value.bit_length() - self.BITS - 1)
        self.counts[value >> shift << shift] += 1

    def plus(self, other: Histogram) -> Histogram:
        """Return a histogram of the values of both."""
        return Histogram((self.counts + other.counts).items())

    def percentile(self, part: float) -> int:
        """Return the value that so many per cent of all values do not exceed, by their buckets."""
        wanted = max(1, math.ceil(self.counts.total() * part / 100))
        seen = 0
        for low in sorted(self.counts):
            seen += self.counts[low]
            if seen >= wanted:
                return low
        return 0

    def as_json(self) -> list[tuple[int, int]]:
        """Return pairs of a bucket's smallest value and its count."""
        return sorted(self.counts.items())


class Measured(NamedTuple):
    """One combination in one run."""

    request: str
    rate: int
    histogram: Histogram
    errors: int


async def measure(
    port: int, login: Login, name: str, rate: int, clients: int, seconds: float, requests: Iterator[bytes]
) -> Measured:
    """Send requests at a constant rate; return their latencies from the intended moments on."""
    histogram, errors = Histogram(), 0
    lines = await asyncio.gather(
        *(
            asyncio.open_connection("127.0.0.1", port, ssl=login.context, server_hostname="localhost")
            for _ in range(clients)
        )
    )
    # The first answer on each connection checks the password.
    for reader, writer in lines:
        writer.write(_get("/schemas/ids/1", login))
        await _status(reader)
    total, begin = int(rate * seconds), time.monotonic() + 0.1

    async def one(number: int) -> None:
        nonlocal errors
        reader, writer = lines[number]
        for turn in range(number, total, clients):
            intended = begin + turn / rate
            if (wait := intended - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            writer.write(next(requests))
            errors += await _status(reader) != 200
            histogram.add(int((time.monotonic() - intended) * 1e6))

    await asyncio.gather(*map(one, range(clients)))
    for _, writer in lines:
        writer.transport.abort()
    return Measured(name, rate, histogram, errors)


async def _status(reader: asyncio.StreamReader) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    if length:
        await reader.readexactly(int(length))
    else:  # long lists come in chunks
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return int(head.split(b" ", 2)[1])


def _get(path: str, login: Login) -> bytes:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login.authorization}\r\n\r\n"
    return head.encode()


def _requests(login: Login, seed: int) -> dict[str, Iterator[bytes]]:
    chance = random.Random(seed)
    body = json.dumps({"schema": schema("@")})
    head = (
        f"Host: localhost\r\nAuthorization: {login.authorization}\r\n"
        "Content-Type: application/vnd.schemaregistry.v1+json\r\n"
    )

    def register(number: int) -> bytes:
        text = body.replace("@", f"n{seed}x{number}")
        path = f"POST /subjects/new-{seed}-{number}/versions HTTP/1.1\r\n"
        return f"{path}{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()

    def search(_: int) -> bytes:
        return _get(f"/subjects?subjectPrefix=subject-{chance.randrange(100)}&limit=20", login)

    def by_id(_: int) -> bytes:
        return _get(f"/schemas/ids/{chance.randint(1, SCHEMAS)}", login)

    made: dict[str, Callable[[int], bytes]] = {"by id": by_id, "register": register, "search": search}
    return {name: map(make, itertools.count()) for name, make in made.items()}


@contextmanager
def resource_limits() -> Iterator[tuple[str, Callable[[int], None]]]:
    """Yield what limits a process to the contract's resources, in words, and the function that does it."""
    own = Path("/proc/self/cgroup").read_text().partition("0::/")[2].strip()
    group = Path("/sys/fs/cgroup") / own / f"contract-{os.getpid()}"
    try:
        if not (group.parent / "cgroup.controllers").exists():  # version 1 of control groups, or none
            raise FileNotFoundError
        group.mkdir()
        try:
            (group / "cpu.max").write_text(f"{CPUS * 100_000} 100000")
            (group / "memory.max").write_text(str(MEMORY_BYTES))
        except OSError:
            group.rmdir()
            raise
    except OSError:
        yield f"affinity to {CPUS} CPUs, and 2 GiB of data for each process (RLIMIT_DATA)", _limit_by_calls
        return
    try:
        yield (
            f"a control group with {CPUS} CPUs and 2 GiB",
            lambda pid: (group / "cgroup.procs").write_text(str(pid)) and None,
        )
    finally:
        group.rmdir()


def _limit_by_calls(pid: int) -> None:
    os.sched_setaffinity(pid, sorted(os.sched_getaffinity(0))[:CPUS])
    resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


@contextmanager
def registry(folder: Path, limit: Callable[[int], None]) -> Iterator[tuple[int, Login]]:
    """Run a registry over schemas, with TLS and a user; yield its port and the user."""
    authority = Authority()
    certificate, key = authority.issue().write(folder, "server")
    (folder / "users").write_text(f"bench:{hash_password(PASSWORD)}\n")
    context = ssl.create_default_context(cafile=str(authority.write(folder, "ca")))
    login = Login("Basic " + base64.b64encode(f"bench:{PASSWORD}".encode()).decode(), context)
    data = folder / "node" / "data"
    data.mkdir(parents=True)
    fill(data, SCHEMAS)
    port = free_port()
    flags = [
        *("--listeners", f"https://127.0.0.1:{port}", "--users", str(folder / "users")),
        *("--tls-certificate", str(certificate), "--tls-key", str(key), "--readers", str(CPUS)),
    ]
    node = Node(folder / "node", flags, port=port)
    node.url, node.context = f"https://127.0.0.1:{port}", context
    node.headers = {"Authorization": login.authorization}
    try:
        node.start()
        limit(node.pid)
        node.wait()
        yield port, login
    finally:
        node.stop()


def main() -> None:
    run_in_folder(__doc__, run, seconds=3, runs=5, clients=100, herd=10_000, seed=1)


def run(given: argparse.Namespace, folder: Path) -> None:
    measured: list[Measured] = []
    combinations = [(name, rate) for name, rates in RATES.items() for rate in rates]
    with (
        resource_limits() as (way, limit),
        registry(folder, limit) as (port, login),
        HISTOGRAMS.open("w") as file,
    ):
        for number in range(given.runs):
            order = random.Random(given.seed + number).sample(combinations, len(combinations))
            requests = _requests(login, given.seed * 1000 + number)
            for name, rate in order:
                found = uvloop.run(
                    measure(port, login, name, rate, given.clients, given.seconds, requests[name])
                )
                measured.append(found)
                line = {"run": number, "request": name, "rate": rate, "errors": found.errors}
                line |= {"unit": "us", "buckets": found.histogram.as_json()}
                print(json.dumps(line, separators=(",", ":")), file=file, flush=True)
                print(f"run {number}: {name} at {rate}/s: p99 {found.histogram.percentile(99) / 1e3:.1f} ms")
    herd = _herd(given, folder)
    CHART.write_text(_chart(measured))
    PAGE.write_text(_page(given, way, measured, herd))


def _herd(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the herd in a process of its own, and return what it printed."""
    words = [sys.executable, str(ROOT / "bench" / "herd.py"), "--clients", str(given.herd)]
    done = subprocess.run([*words, "--folder", str(folder)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _sum_up(measured: Sequence[Measured], name: str, rate: int) -> tuple[Histogram, list[int], int]:
    """Return all latencies of a combination, the p99 of each run, and the number of errors."""
    runs = [each for each in measured if (each.request, each.rate) == (name, rate)]
    all_of_them = Histogram()
    for each in runs:
        all_of_them = all_of_them.plus(each.histogram)
    return all_of_them, [each.histogram.percentile(99) for each in runs], sum(each.errors for each in runs)


def _chart(measured: Sequence[Measured]) -> str:
    series = []
    for name, rates in RATES.items():
        for part, dashed in ((50.0, True), (99.0, False)):
            points = [(rate, _sum_up(measured, name, rate)[0].percentile(part) / 1e3) for rate in rates]
            series.append(Series(f"{name}, p{part:g}", points, _COLORS[name], dashed))
    return draw("Latency in ms by requests per second", series)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _page(given: argparse.Namespace, way: str, measured: Sequence[Measured], herd: dict[str, Any]) -> str:
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    herds = (
        f"{herd['clients']} cold clients connect at once, through TLS, while one of two nodes is gone. Each "
        f"reads one of {herd['ids']} ids."
    )
    lines = [
        "# The open contract for speed",
        "",
        textwrap.fill(
            f"Written by `make bench-contract` on {time.strftime('%Y-%m-%d')}, commit {commit}, Python "
            f"{platform.python_version()}, {os.cpu_count()} cores, which the registry and its load share. "
            "[How it is measured](../docs/proof.md#the-open-contract-for-speed). Limit of the registry: "
            f"{way}. {SCHEMAS} Avro schemas in a log on disk, TLS, passwords, {given.clients} connections, "
            f"{given.runs} shuffled runs of {given.seconds} s each. Latencies are in ms, from the intended "
            "moment on.",
            _COLUMNS,
        ),
        "",
        "![Latency by rate](contract.svg)",
        "",
        "| request | per second | p50 | p99 | p99.9 | p99 of the runs | errors |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, rates in RATES.items():
        for rate in rates:
            histogram, runs, errors = _sum_up(measured, name, rate)
            shown = " | ".join(f"{histogram.percentile(each) / 1e3:.1f}" for each in _PERCENTILES)
            middle = statistics.median(runs) / 1e3
            spread = f"{min(runs) / 1e3:.1f} to {max(runs) / 1e3:.1f}, median {middle:.1f}"
            lines.append(f"| {name} | {rate} | {shown} | {spread} | {errors} |")
    waits = (f"{herd[name]} s" for name in ("p50_s", "p99_s", "last_s"))
    lines += [
        "",
        "## The first minute of an incident",
        "",
        textwrap.fill(herds, _COLUMNS),
        "",
        "| served | errors | p50 | p99 | last answer | queries of the log's end |",
        "| --- | --- | --- | --- | --- | --- |",
        _row(herd["served"], sum(herd["errors"].values()), *waits, herd["queries_of_log_end"]),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
