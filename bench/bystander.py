"""A process that sends a request every few milliseconds over one connection, to measure how long others wait.

    python bench/bystander.py HOST:PORT reads|writes

It asks for a schema by its id, or registers a small new one, until a line comes in, and prints how long it
waited.
"""

from __future__ import annotations

import http.client
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from statistics import quantiles
from types import TracebackType
from typing import Literal, NamedTuple, Self

PAUSE_S = 0.005
TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}

Kind = Literal["reads", "writes"]


class Waited(NamedTuple):
    """Durations of answers, in milliseconds."""

    p50: float
    p99: float
    most: float


class Bystander:
    """A bystander that runs during the block; :attr:`waited` is known afterwards."""

    def __init__(self, address: str, kind: Kind = "reads") -> None:
        self._command = [sys.executable, str(Path(__file__)), address, kind]
        self.waited = Waited(0, 0, 0)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # It has to send enough requests for a percentile.
        time.sleep(max(0.0, 1.0 - (time.monotonic() - self._began)))
        said, _ = self._process.communicate("stop\n")
        if error is None:
            self.waited = Waited(*map(float, said.split()))


def ask(connection: http.client.HTTPConnection, kind: Kind, number: int) -> None:
    """Send one request and read the answer."""
    if kind == "reads":
        connection.request("GET", "/schemas/ids/1")
    else:
        body = json.dumps({"schema": json.dumps({"type": "fixed", "name": f"F{number}", "size": 4})})
        subject = f"/subjects/bystander-{time.time_ns()}/versions"
        connection.request("POST", subject, body, TYPE)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status == 200, said[:300]


def main() -> None:
    """Send requests until the event to stop is set."""
    connection = http.client.HTTPConnection(sys.argv[1], timeout=300)
    kind: Kind = "writes" if sys.argv[2] == "writes" else "reads"
    waited: list[float] = []
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        began = time.perf_counter()
        ask(connection, kind, len(waited))
        waited.append((time.perf_counter() - began) * 1000)
        if len(waited) == 1:
            print("asking", flush=True)
    percentiles = quantiles(waited, n=100)
    print(percentiles[49], percentiles[98], max(waited))


if __name__ == "__main__":
    main()
