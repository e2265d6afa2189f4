"""Delays of a cluster's primary and its clients during endless heavy comparisons.

    python bench/heartbeat.py [--seconds 10] [--nodes 2] [--readers 2] [--folder /tmp]

A broker and nodes as processes. Four clients send comparisons that take all the time they may (Avro, JSON
Schema, Protobuf; registrations and checks), two write small schemas, two read. Reported are the answers of
both, and from the primary's metrics the lag of its event loops and the longest pause between its heartbeats
to Kafka's group.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.formats import Client, body, endless, others  # noqa: E402
from deploy.local.cluster import Cluster  # noqa: E402
from deploy.local.node import Node  # noqa: E402

FLAGS = ("--session-timeout-s", "6")
REPORTED = ("registrar_event_loop_lag_seconds", "registrar_heartbeat_gap_seconds", "registrar_epoch")


def entangled_schema(leaf: str, records: int = 80) -> str:
    """Return an Avro record whose unions hold all others: each is compared with each."""
    names = [f"R{n}" for n in range(records)]
    inner: list[object] = []
    for n in reversed(range(records)):
        both = [
            {"name": "f", "type": ["null", leaf, *inner, *names[:n]]},
            {"name": "g", "type": ["null", leaf, *names[: n + 1]]},
        ]
        inner = [{"type": "record", "name": names[n], "fields": both}]
    return json.dumps(inner[0])


def crossing(leaf: str, shift: int, messages: int = 120) -> str:
    """Return a Protobuf file whose messages name each other in every field; ``shift`` changes the names."""
    lines = ['syntax = "proto3";']
    for n in range(messages):
        named = (f"  M{(n * m + m + shift) % messages} f{m} = {m + 1};" for m in range(messages))
        lines += [f"message M{n} {{", *named, f"  {leaf} z = {messages + 1};", "}"]
    return "\n".join(lines)


HEAVY = {
    "AVRO": (entangled_schema("int"), entangled_schema("long")),
    "JSON": (endless("string"), endless("integer")),
    "PROTOBUF": (crossing("int32", 0), crossing("int64", 1)),
}


def rename_schema(kind: str, schema: str, name: str) -> str:
    """Return a variant of a schema that no cached result helps with."""
    if kind == "PROTOBUF":
        return f"{schema}\nmessage X{name} {{}}"
    return f'{{"title": "{name}", {schema[1:]}'


def figures(node: Node) -> dict[str, float]:
    """Return the values of :data:`REPORTED` in its ``/metrics``."""
    lines = node.ask("/metrics")[1].decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line.startswith(REPORTED))
    return {name.removeprefix("registrar_"): float(value) for name, _, value in pairs}


async def send_without_end(port: int, number: int, outcomes: list[tuple[str, int]]) -> None:
    """Run one client: one heavy comparison after another, of each format in turn."""
    client = Client(port)
    for turn in count(number):
        kind = list(HEAVY)[turn % len(HEAVY)]
        way = ("/subjects/heavy-{}/versions", "/compatibility/subjects/heavy-{}/versions/latest")[number % 2]
        schema = rename_schema(kind, HEAVY[kind][1], f"{number}x{turn}")
        status, _ = await client.send("POST", way.format(kind), body(kind, schema))
        outcomes.append((kind, status))


async def measure(primary: Node, seconds: float) -> None:
    """Print the durations of other requests, alone and under load, and the primary's delays meanwhile."""
    port, outcomes = primary.port, list[tuple[str, int]]()
    client = Client(port)
    for kind, (first, _) in HEAVY.items():
        status, said = await client.send("POST", f"/subjects/heavy-{kind}/versions", body(kind, first))
        assert status == 200, said
    await others(port, 1)  # So that nothing is done for the first time.
    alone, before = await others(port, seconds), figures(primary)
    sending = [asyncio.create_task(send_without_end(port, n, outcomes)) for n in range(4)]
    loaded, after = await others(port, max(40.0, seconds)), figures(primary)
    for task in sending:
        task.cancel()
    for what in alone:
        print(f"{what:6} alone   {alone[what]}\n{what:6} loaded  {loaded[what]}")
    print("answers of comparisons:", {each: outcomes.count(each) for each in sorted(set(outcomes))})
    for name, value in after.items():
        print(f"{name}: {before.get(name, 0.0):.3f} before, {value:.3f} under load")
    print(f"role: {primary.role}", flush=True)


def main() -> None:
    """Read the arguments, start everything and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--readers", default="2")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    flags = (*FLAGS, "--readers", given.readers)
    with (
        tempfile.TemporaryDirectory(dir=given.folder) as folder,
        Cluster(Path(folder), nodes=given.nodes, settings=flags, front_by="") as cluster,
    ):
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        asyncio.run(measure(cluster.primary(), given.seconds))


if __name__ == "__main__":
    main()
