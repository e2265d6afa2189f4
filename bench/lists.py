"""What lists cost a reader, and what others notice of them.

    python bench/lists.py [--sizes 300000,1300000] [--folder /tmp]

For each size a node with one reader over a log of first versions under as many subjects (bench/fold.py), one
of whose ids is held by 20,000 of them. For each list: seconds to the first byte and in all, megabytes, the
milliseconds that a bystander waits for a schema by its id meanwhile, and by how many megabytes the reader's
own memory grew. The bystander is a process of its own that asks every five milliseconds over one connection.
"""

from __future__ import annotations

import argparse
import http.client
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.fold import entry
from deploy.local.node import Node
from registry.domain.log_format.records import Entry
from registry.log.embedded.log import EmbeddedLog

SCHEMA_BYTES = 400
SHARED_ID = 2_000_000_000
SHARERS = 20_000
PAUSE_S = 0.005
WAIT_S = 900.0


class Row(NamedTuple):
    """What one list cost."""

    target: str
    first_ms: float
    seconds: float
    megabytes: float
    p50_ms: float
    p99_ms: float
    grown_mb: int


def targets(size: int) -> list[str]:
    """The lists that are asked for: whole ones, and short pages that begin near the end."""
    return [
        "/subjects",
        "/subjects?deletedOnly=true",
        "/subjects?limit=10",
        f"/subjects?limit=10&offset={size - 20}",
        f"/subjects?limit=10&offset={size - 10}",
        "/schemas",
        f"/schemas?limit=10&offset={size - 20}",
        "/schemas?ruleType=NONE",
        f"/schemas/ids/{SHARED_ID}/subjects",
        f"/schemas/ids/{SHARED_ID}/subjects?limit=10",
    ]


def fill(log: EmbeddedLog, size: int) -> None:
    """Append first versions under ``size`` subjects, the last of which share an id."""
    log.claim()
    shared = max(0, size - SHARERS)
    for first in range(0, shared, 1000):
        log.append([entry(number, size, SCHEMA_BYTES) for number in range(first, min(first + 1000, shared))])
    for first in range(shared, size, 1000):
        log.append([sharing(number, size) for number in range(first, min(first + 1000, size))])


def sharing(number: int, size: int) -> Entry:
    """A record of a subject that holds the shared id."""
    key, value = entry(number, size, SCHEMA_BYTES)
    members = orjson.loads(value or b"") | {"id": SHARED_ID, "schema": '"string"'}
    return Entry(key, orjson.dumps(members))


def measured(node: Node, target: str) -> Row:
    """Read one list while the bystander asks."""
    reader = reader_of(node)
    before = own_memory(reader)
    bystander = subprocess.Popen(
        [sys.executable, __file__, "--bystander", node.address],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert bystander.stdout is not None
    bystander.stdout.readline()
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=WAIT_S)
    began, size, most = time.monotonic(), 0, before
    connection.request("GET", target)
    answer = connection.getresponse()
    size += len(answer.read(1))
    first = time.monotonic() - began
    while part := answer.read(1 << 20):
        size += len(part)
        most = max(most, own_memory(reader))
    seconds = time.monotonic() - began
    connection.close()
    time.sleep(max(0.0, 1.0 - seconds))  # so that the bystander has asked often enough to have a p99
    told, _ = bystander.communicate("stop\n")
    p50, p99 = map(float, told.split())
    return Row(target, first * 1000, seconds, size / 1e6, p50, p99, most - before)


def bystander(address: str) -> None:
    """Ask for a schema until told to stop; print the median and the 99th percentile in ms."""
    connection = http.client.HTTPConnection(address)
    waited: list[float] = []
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        began = time.perf_counter()
        connection.request("GET", "/schemas/ids/1")
        connection.getresponse().read()
        waited.append((time.perf_counter() - began) * 1000)
        if len(waited) == 1:
            print("asking", flush=True)
    percentiles = quantiles(waited, n=100)
    print(percentiles[49], percentiles[98])


def reader_of(node: Node) -> int:
    """The process that answers: the one of the node's below that is called with ``reader``."""
    waiting, found = [node.pid], node.pid
    while waiting:
        pid = waiting.pop()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        found = pid if b"registry.reader" in command else found
        for task in Path(f"/proc/{pid}/task").iterdir():
            waiting += map(int, (task / "children").read_text().split())
    return found


def own_memory(pid: int) -> int:
    """MB of a process that are not mapped from files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("RssAnon:"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="300000,1300000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--bystander", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bystander:
        bystander(options.bystander)
        return
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=options.folder) as made:
            node = Node(Path(made), ["--readers", "1"])
            log = EmbeddedLog(node.data / "log")
            fill(log, size)
            log.close()
            node.start()
            began = time.monotonic()
            while not node.ready():
                if time.monotonic() - began > WAIT_S:
                    raise SystemExit(node.output)
                time.sleep(0.1)
            print(f"\n{size:,} schemas\n")
            print("| list | first byte | in all | MB | bystander p50 | p99 | memory |")
            print("| --- | --- | --- | --- | --- | --- | --- |")
            try:
                for target in targets(size):
                    row = measured(node, target)
                    print(
                        f"| `{row.target}` | {row.first_ms:.0f} ms | {row.seconds:.2f} s "
                        f"| {row.megabytes:.1f} | {row.p50_ms:.1f} ms | {row.p99_ms:.1f} ms "
                        f"| +{row.grown_mb} MB |",
                        flush=True,
                    )
            finally:
                node.stop()


if __name__ == "__main__":
    main()
