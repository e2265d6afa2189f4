"""Hostile clients, one kind at a time, against a running registry: their cost for it and its other clients.

    python bench/hostile.py [--seconds 5] [--readers 1] [--only trailer]

Each trial has its own registry. It prints the private memory of the node and of the largest reader: before,
at its peak, and two seconds after the last client has gone. Next to it is the latency of a bystander that
reads by id all the time over its own connection. To add a trial, write a function of ``Target`` that returns
its count, and add it to ``TRIALS``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import re
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402

from tests.process.raw import get, post  # noqa: E402
from tests.process.test_lifecycle import children  # noqa: E402
from tests.support.running import PATIENT, Registry  # noqa: E402

LARGE_BYTES = 2_400_000
LARGE_COUNT = 40
SETTLE_S = 2.0
_CHUNKED = b"POST /subjects/a/versions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"


class Target(NamedTuple):
    """The registry under trial; a trial ends at ``deadline`` (monotonic time) at the latest."""

    port: int
    deadline: float

    @contextlib.contextmanager
    def client(self) -> Iterator[socket.socket]:
        """Connect; the server may break the connection."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection,
        ):
            yield connection

    def crowd(self, count: int, act: Callable[[socket.socket], int]) -> int:
        """Run ``count`` clients repeatedly, all at once; return the sum of their results."""
        done: list[int] = []

        def live() -> None:
            while time.monotonic() < self.deadline:
                with self.client() as connection:
                    done.append(act(connection))

        threads = [threading.Thread(target=live) for _ in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return sum(done)

    def send(self, connection: socket.socket, pieces: Iterator[bytes], most: int) -> int:
        """Send until the server refuses, ``most`` bytes are sent or time is up; return the bytes sent."""
        sent = 0
        with contextlib.suppress(OSError):
            for piece in pieces:
                if sent >= most or time.monotonic() > self.deadline:
                    break
                connection.sendall(piece)
                sent += len(piece)
        return sent


def _mb(sent: int) -> str:
    return f"{sent / 1e6:.0f} MB sent"


def endless_trailer(target: Target) -> str:
    """Send an endless trailer value."""
    pieces = itertools.chain([_CHUNKED + b"0\r\nX: "], itertools.repeat(b"y" * 65536))
    with target.client() as connection:
        return _mb(target.send(connection, pieces, 300_000_000))
    return "refused"


def many_trailers(target: Target) -> str:
    """Send endless trailers, on eight connections."""

    def act(connection: socket.socket) -> int:
        pieces = itertools.chain([_CHUNKED + b"0\r\n"], itertools.repeat(b"x: y\r\n" * 8192))
        return target.send(connection, pieces, 50_000_000)

    return _mb(target.crowd(8, act))


def tiny_chunks(target: Target) -> str:
    """Send bodies in chunks of two bytes, on eight connections."""

    def act(connection: socket.socket) -> int:
        return target.send(
            connection, itertools.chain([_CHUNKED], itertools.repeat(b"2\r\nab\r\n" * 8192)), 20_000_000
        )

    return _mb(target.crowd(8, act))


def unread_lists(target: Target) -> str:
    """Sixteen clients request all schemas (96 MB) and do not read; they stay until the end."""

    def act(connection: socket.socket) -> int:
        connection.sendall(get("/schemas"))
        while time.monotonic() < target.deadline:
            time.sleep(0.05)
        return 1

    return f"{target.crowd(16, act)} clients"


def unread_schemas(target: Target) -> str:
    """256 clients request large schemas repeatedly, and do not read."""

    def act(connection: socket.socket) -> int:
        request = b"".join(get(f"/schemas/ids/{2 + number}") for number in range(LARGE_COUNT))
        return target.send(connection, itertools.repeat(request), 1_000_000)

    return _mb(target.crowd(256, act))


def sent_ahead(target: Target) -> str:
    """Thirty-two clients send endless requests, and read nothing."""

    def act(connection: socket.socket) -> int:
        return target.send(connection, itertools.repeat(get("/schemas/ids/1") * 1000), 100_000_000)

    return _mb(target.crowd(32, act))


def large_bodies(target: Target) -> str:
    """Sixteen clients register schemas of 4.5 MB."""
    number = itertools.count()

    def act(connection: socket.socket) -> int:
        connection.settimeout(30.0)
        name = f"H{next(number)}"
        text = json.dumps({"type": "record", "name": name, "doc": "d" * 4_500_000, "fields": []})
        connection.sendall(post(f"/subjects/{name}/versions", json.dumps({"schema": text}).encode()))
        return len(connection.recv(1000)) > 0

    return f"{target.crowd(16, act)} registered"


def half_bodies(target: Target) -> str:
    """Sixty-four clients send bodies of 5 MB without the last byte, and stay."""

    def act(connection: socket.socket) -> int:
        request = post("/subjects/half/versions", b" " * 5_000_000)[:-1]
        sent = target.send(connection, iter([request]), len(request))
        while sent and time.monotonic() < target.deadline:
            time.sleep(0.05)
        return sent

    return _mb(target.crowd(64, act))


TRIALS: dict[str, Callable[[Target], str]] = {
    "an endless trailer": endless_trailer,
    "endless trailers": many_trailers,
    "chunks of 2 bytes": tiny_chunks,
    "unread lists": unread_lists,
    "unread schemas": unread_schemas,
    "requests sent ahead": sent_ahead,
    "large bodies": large_bodies,
    "unfinished bodies": half_bodies,
}


class Bystander:
    """Reads by id over one connection, in a separate process, and records the duration of each answer."""

    def __init__(self, port: int) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_read, args=(port, theirs), daemon=True)
        self._process.start()

    def end(self) -> str:
        self._pipe.send(None)
        took_ms, failed = self._pipe.recv()
        self._process.join()
        hundredths = statistics.quantiles(took_ms, n=100)
        return f"{hundredths[49]:.1f}, {hundredths[98]:.1f}" + (f", {failed} failed" * bool(failed))


def _read(port: int, stopping: Connection) -> None:
    took_ms: list[float] = []
    failed = 0
    connection = HTTPConnection("127.0.0.1", port, timeout=30.0)
    while not stopping.poll(0.005):
        began = time.monotonic()
        try:
            connection.request("GET", "/schemas/ids/1")
            connection.getresponse().read()
        except (OSError, HTTPException):
            failed += 1
            connection.close()
        took_ms.append((time.monotonic() - began) * 1e3)
    connection.close()
    stopping.send((took_ms, failed))


class Memory(threading.Thread):
    """Watches the private memory of the node, and of the reader that has most."""

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self._kinds = [(pid, name.removeprefix("registry-")) for pid, name in children(registry).items()]
        self._ended = threading.Event()
        self.peak = self.now()

    def now(self) -> dict[str, int]:
        found = {"node": 0, "reader": 0}
        for pid, kind in self._kinds:
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                anonymous = re.search(r"RssAnon:\s+(\d+)", status)
                found[kind] = max(found[kind], int(anonymous[1]) >> 10 if anonymous else 0)
        return found

    def run(self) -> None:
        while not self._ended.wait(0.02):
            self.peak = {kind: max(size, self.peak[kind]) for kind, size in self.now().items()}

    def end(self) -> None:
        self._ended.set()
        self.join()


def fill(registry: Registry) -> None:
    """Register one small schema, and forty large ones."""
    with httpx.Client(base_url=registry.url, timeout=PATIENT) as client:
        for number in range(LARGE_COUNT + 1):
            doc = "d" * (LARGE_BYTES if number else 10)
            text = json.dumps({"type": "record", "name": f"R{number}", "doc": doc, "fields": []})
            client.post(f"/subjects/s{number}/versions", json={"schema": text}).raise_for_status()


def trial(name: str, seconds: float, flags: tuple[str, ...], folder: Path) -> None:
    registry = Registry(folder / "data", *flags).wait()
    try:
        fill(registry)
        registry.stop()
        registry = Registry(folder / "data", *flags).wait()
        memory, bystander = Memory(registry), Bystander(registry.port)
        before = memory.now()
        memory.start()
        did = TRIALS[name](Target(registry.port, time.monotonic() + seconds))
        latency = bystander.end()
        time.sleep(SETTLE_S)
        memory.end()
        after = memory.now()
        sizes = [f"{before[kind]}, {memory.peak[kind]}, {after[kind]}" for kind in ("reader", "node")]
        print(f"| {name} | {did} | {sizes[0]} | {sizes[1]} | {latency} |", flush=True)
    finally:
        registry.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a trial's name")
    given = parser.parse_args()
    print("| trial | done | reader before, peak, after MB | node | bystander p50, p99 ms |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for name in (each for each in TRIALS if given.only in each):
        folder = Path(tempfile.mkdtemp(prefix="hostile-"))
        try:
            trial(name, given.seconds, ("--readers", str(given.readers)), folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
