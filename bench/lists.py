"""Cost of lists for a reader, and delays of others meanwhile.

    python bench/lists.py [--sizes 300000,1300000] [--folder /tmp]

For each size a node with one reader over a log of first versions under as many subjects (bench/fold.py), one
of whose ids is held by 20,000 of them. For each list: seconds to the first byte and in all, megabytes, the
milliseconds that a bystander waits for a schema by its id meanwhile, and by how many megabytes the reader's
own memory grew. The bystander is a process of its own that asks every five milliseconds over one connection.
A schema is registered before each list, because each write makes a reader forget positions in lists.
"""

from __future__ import annotations

import argparse
import http.client
import os
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import orjson

from bench.bystander import Bystander
from bench.fold import entry
from deploy.local.node import Node
from registry.domain.log_format.records import Entry
from registry.domain.model import DEFAULT_CONTEXT
from registry.domain.rows.layout import VERSION, after, id_prefix
from registry.domain.rows.view import scan
from registry.log.embedded.log import EmbeddedLog
from registry.store.layout import BLOCK
from registry.store.reader import StoreReader

SCHEMA_BYTES = 400
SHARED_ID = 2_000_000_000
SHARERS = 20_000
WAIT_S = 900.0


class Row(NamedTuple):
    """The cost of one list."""

    target: str
    first_ms: float
    seconds: float
    megabytes: float
    p50_ms: float
    p99_ms: float
    grown_mb: int


def targets(size: int) -> list[str]:
    """Return the requested lists: whole ones, and short pages near the end."""
    return [
        "/subjects?limit=10",
        f"/subjects?limit=10&offset={size // 2}",
        f"/subjects?limit=10&offset={size - 20}",
        f"/subjects?limit=10&deleted=true&offset={size - 20}",
        f"/subjects?limit=10&sort=-name&offset={size - 20}",
        "/subjects?limit=10&sort=-id",
        f"/subjects?limit=10&sort=-id&offset={size - 20}",
        "/subjects?limit=1000&sort=-id&detail=true",
        f"/schemas?limit=10&offset={size - 20}",
        f"/schemas?limit=10&latestOnly=true&offset={size - 20}",
        "/schemas",
        "/subjects",
        "/subjects?sort=-name",
        "/subjects?sort=-id",
        "/subjects?deletedOnly=true",
        "/schemas?ruleType=NONE",
        "/schemas?resourceType=topic",
    ]


def targets_of_id(schema_id: int) -> list[str]:
    """Return the lists of items with an id."""
    return [
        f"/schemas/ids/{schema_id}/subjects",
        f"/schemas/ids/{schema_id}/subjects?limit=10",
        f"/schemas/ids/{schema_id}/subjects?limit=10&offset={SHARERS - 20}",
        f"/schemas/ids/{schema_id}/versions?limit=10&offset={SHARERS - 20}",
        f"/schemas/ids/{schema_id}?includeSubjects=true",
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
    """Return a record of a subject that holds the shared id."""
    found = entry(number, size, SCHEMA_BYTES)
    members = orjson.loads(found.value or b"") | {"id": SHARED_ID, "schema": '"string"'}
    return Entry(found.key, orjson.dumps(members))


def measure_list(node: Node, target: str) -> Row:
    """Read one list while the bystander runs."""
    reader = reader_of(node)
    before = own_memory(reader)
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=WAIT_S)
    size, most = 0, before
    with Bystander(node.address) as bystander:
        began = time.monotonic()
        connection.request("GET", target)
        answer = connection.getresponse()
        size += len(answer.read(1))
        first = time.monotonic() - began
        while part := answer.read(1 << 20):
            size += len(part)
            most = max(most, own_memory(reader))
        seconds = time.monotonic() - began
    connection.close()
    waited = bystander.waited
    return Row(target, first * 1000, seconds, size / 1e6, waited.p50, waited.p99, most - before)


def is_counted(node: Node, shared_id: int | None = None) -> bool:
    """Return true once all versions in the store of a node are counted, and the rows of a shared id."""
    reader = StoreReader(node.data / "store")
    try:
        with reader.view() as view:
            at = VERSION
            while at < after(VERSION) and (block := view.block(at)) is not None:
                at = block.end
            if shared_id is None or at != after(VERSION):
                return at == after(VERSION)
            shared = list(islice(scan(view, id_prefix(DEFAULT_CONTEXT, shared_id)), BLOCK))
            # An id of fewer rows has no blocks.
            return len(shared) < BLOCK or view.block(shared[0][0]) is not None
    finally:
        reader.close()


def seconds_until_counted(node: Node, shared_id: int | None = None) -> float:
    """Wait until :func:`is_counted`; an offset near the end of a list is found by steps until then."""
    began = time.monotonic()
    while not is_counted(node, shared_id):
        if time.monotonic() - began > WAIT_S:
            raise SystemExit(f"not counted in {WAIT_S:.0f} s\n{node.output}")
        time.sleep(0.5)
    return time.monotonic() - began


def register(node: Node, number: int) -> None:
    """Register a schema under a new subject."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=WAIT_S)
    body, headers = orjson.dumps({"schema": '"int"'}), {"content-type": "application/json"}
    connection.request("POST", f"/subjects/a{number}/versions", body, headers)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(said.decode())


def reader_of(node: Node) -> int:
    """Return the process that answers: the node's child that runs ``reader``."""
    waiting, found = [node.pid], node.pid
    while waiting:
        pid = waiting.pop()
        name = Path(f"/proc/{pid}/comm").read_text()
        found = pid if name == "registry-reader\n" else found
        for task in Path(f"/proc/{pid}/task").iterdir():
            waiting += map(int, (task / "children").read_text().split())
    return found


def own_memory(pid: int) -> int:
    """Return the MB of a process that are not mapped from files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("RssAnon:"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="300000,1300000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
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
            waited, load = seconds_until_counted(node, SHARED_ID), os.getloadavg()[0]
            print(f"\n{size:,} schemas, counted {waited:.0f} s after the node was ready; load {load:.1f}\n")
            print("| list | first byte | in all | MB | bystander p50 | p99 | memory |")
            print("| --- | --- | --- | --- | --- | --- | --- |")
            try:
                for number, target in enumerate([*targets(size), *targets_of_id(SHARED_ID)]):
                    register(node, number)
                    row = measure_list(node, target)
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
