"""Cost of schemas of each type for a running registry, and delays of others during the heaviest comparisons.

    python bench/formats.py [--seconds 4] [--readers 2] [--folder /tmp]

Registrations and checks of thirty fields by 16 connections of one asyncio process, which takes about half a
core; then a JSON schema of 2,000 fields and a file of 300 messages, one after another; then four clients that
send comparisons without end, while others read and write. The effect on a cluster, above all on its
heartbeats, is measured by ``bench/heartbeat.py``, which ``--cluster`` runs too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.running import Registry  # noqa: E402

FIELDS = 30
CONNECTIONS = 16
BUDGET_S = 5

Requests = Iterator[tuple[str, bytes]]


def avro(name: str, fields: int = FIELDS) -> str:
    """Return a record."""
    kinds = ["long", "string", ["null", "string"], "double", "boolean", {"type": "array", "items": "int"}]
    listed = [
        {"name": f"field_{n}", "type": kinds[n % len(kinds)], "default": DEFAULTS[n % len(kinds)]}
        for n in range(fields)
    ]
    return json.dumps({"type": "record", "name": f"R{name}", "fields": listed})


DEFAULTS: tuple[Any, ...] = (0, "", None, 0.5, True, [])


def json_schema(name: str, fields: int = FIELDS) -> str:
    """Return a closed object."""
    kinds: list[dict[str, Any]] = [
        {"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 40}, {"type": ["null", "string"]},
        {"type": "number"}, {"type": "boolean"}, {"type": "array", "items": {"type": "integer"}},
    ]  # fmt: skip
    properties = {f"field_{n}": kinds[n % len(kinds)] for n in range(fields)}
    said = {"title": f"R{name}", "type": "object", "properties": properties, "additionalProperties": False}
    return json.dumps(said)


def protobuf(name: str, fields: int = FIELDS) -> str:
    """Return a file of one message."""
    kinds = ("int64", "string", "optional string", "double", "bool", "repeated int32")
    lines = [f"  {kinds[n % len(kinds)]} field_{n} = {n + 1};" for n in range(fields)]
    return "\n".join(['syntax = "proto3";', f"message R{name} {{", *lines, "}"])


def messages(name: str, count: int) -> str:
    """Return a file of many messages, each with the one before it."""
    listed = [
        f"message M{n} {{\n  string a = 1;\n  M{max(0, n - 1)} b = 2;\n  repeated int64 c = 3;\n}}"
        for n in range(count)
    ]
    return "\n".join(['syntax = "proto3";', f"package p{name};", *listed])


def endless(leaf: str) -> str:
    """Return a schema that takes longer to compare with another of its kind than anyone waits."""
    return '{"anyOf":[{"type":"null"},' * 1500 + f'{{"type":"{leaf}"}}' + "]}" * 1500


FORMATS: dict[str, Callable[..., str]] = {"AVRO": avro, "JSON": json_schema, "PROTOBUF": protobuf}


class Client:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        assert self._reader is not None
        kind = b"content-type: application/vnd.schemaregistry.v1+json\r\n" if body else b""
        head = b"%s %s HTTP/1.1\r\nhost: 127.0.0.1\r\n%scontent-length: %d\r\n\r\n"
        self._writer.write(head % (method.encode(), target.encode(), kind, len(body)) + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return int(answer[9:12]), await self._reader.readexactly(length)

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()


class Measured(NamedTuple):
    """The number of answers in a period, and their durations."""

    per_s: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, took_s: list[float], seconds: float) -> Measured:
        """Compute it from single durations."""
        if len(took_s) < 2:
            return cls(len(took_s) / seconds, *[1000 * sum(took_s)] * 2)
        parts = statistics.quantiles(took_s, n=100)
        return cls(len(took_s) / seconds, parts[49] * 1000, parts[98] * 1000)

    def __str__(self) -> str:
        return f"{self.per_s:8.0f}/s   p50 {self.p50_ms:7.1f} ms   p99 {self.p99_ms:7.1f} ms"


async def load(
    port: int, requests: Requests, seconds: float, connections: int = CONNECTIONS, method: str = "POST"
) -> Measured:
    """Send one request after another on each connection."""
    took_s: list[float] = []
    until = time.perf_counter() + seconds

    async def one() -> None:
        client = Client(port)
        while (began := time.perf_counter()) < until:
            target, body = next(requests)
            status, said = await client.send(method, target, body)
            assert status == 200, said
            took_s.append(time.perf_counter() - began)
        client.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return Measured.of(took_s, seconds)


def body(kind: str, schema: str) -> bytes:
    """Return a ``RegisterSchemaRequest``."""
    return json.dumps({"schemaType": kind, "schema": schema}).encode()


def new(kind: str) -> Requests:
    """Register a new schema under a new subject, repeatedly."""
    template = body(kind, FORMATS[kind]("NAME")).decode()
    return ((f"/subjects/{kind}-{n}/versions", template.replace("RNAME", f"R{n}").encode()) for n in count())


def checks(kind: str) -> Requests:
    """Check a schema with one more field, another one each time."""
    template = body(kind, FORMATS[kind]("0", FIELDS + 1)).decode()
    target = f"/compatibility/subjects/{kind}-0/versions/latest"
    return ((target, template.replace("field_30", f"field_{n}").encode()) for n in count(100))


async def large(port: int) -> None:
    """Register and check large schemas, one request after another, each of them new."""
    for what, kind, make, size in (
        ("JSON schema, 2,000 fields", "JSON", json_schema, 2000),
        ("Protobuf file, 300 messages", "PROTOBUF", messages, 300),
        ("Avro record, 2,000 fields", "AVRO", avro, 2000),
    ):
        client, took, text = Client(port), dict[str, list[float]](), ""
        subject = f"large-{kind}"
        for n in range(5):
            text = make("L", size + n)
            for way, target in (
                ("check", f"/compatibility/subjects/{subject}/versions/latest"),
                ("register", f"/subjects/{subject}/versions"),
            ):
                began = time.perf_counter()
                status, said = await client.send("POST", target, body(kind, text))
                assert status == 200, said
                took.setdefault(way, []).append((time.perf_counter() - began) * 1000)
        client.close()
        summary = ", ".join(f"{way} {statistics.median(times):.0f} ms" for way, times in took.items())
        print(f"{what} ({len(text) // 1000} kB): {summary}", flush=True)


async def others(port: int, seconds: float) -> dict[str, Measured]:
    """Answers of two connections that write and of two that read."""
    numbers = count(int(time.time() * 1000))
    schema = json.dumps({"type": "record", "name": "NAME", "fields": []})
    writes = ((f"/subjects/w-{n}/versions", body("AVRO", schema.replace("NAME", f"N{n}"))) for n in numbers)
    reads = (("/schemas/ids/1", b"") for _ in count())
    written, read = await asyncio.gather(
        load(port, writes, seconds, 2), load(port, reads, seconds, 2, method="GET")
    )
    return {"write": written, "read": read}


async def heavy(port: int, seconds: float) -> None:
    """Measure other requests, alone and with four clients whose comparisons take all the time they may."""
    client = Client(port)
    await client.send("POST", "/subjects/endless/versions", body("JSON", endless("string")))
    alone = await others(port, seconds)
    sent = body("JSON", endless("integer"))
    outcomes: list[int] = []

    async def one(target: str) -> None:
        own = Client(port)
        while True:
            outcomes.append((await own.send("POST", target, sent))[0])

    targets = ("/subjects/endless/versions", "/compatibility/subjects/endless/versions/latest")
    tasks = [asyncio.create_task(one(target)) for target in targets * 2]
    loaded = await others(port, max(seconds, 3 * BUDGET_S))
    for task in tasks:
        task.cancel()
    ended = {each: outcomes.count(each) for each in sorted(set(outcomes))}
    print(f"comparisons by the status of their answers: {ended}")
    for what in alone:
        print(f"{what:6} alone   {alone[what]}\n{what:6} loaded  {loaded[what]}")


async def run(port: int, seconds: float) -> None:
    """Print all results."""
    rates: dict[str, Measured] = {}
    for kind in FORMATS:
        for way, requests in (("register", new(kind)), ("check", checks(kind))):
            rates[f"{way} {kind}"] = found = await load(port, requests, seconds)
            ratio = found.per_s / rates[f"{way} AVRO"].per_s
            print(f"{way:8} {kind:8} {found}   {ratio:.2f} of Avro's", flush=True)
    await large(port)
    await heavy(port, seconds)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--readers", default="2")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--cluster", action="store_true", help="then bench/heartbeat.py")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        flags = ("--readers", given.readers, "--compatibility-budget-s", str(BUDGET_S))
        registry = Registry(Path(folder) / "data", *flags).wait()
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        asyncio.run(run(registry.port, given.seconds))
        registry.stop()
    if given.cluster:
        command = [sys.executable, str(ROOT / "bench" / "heartbeat.py"), "--folder", str(given.folder)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
