"""Small writes while many large ones wait: durations of a bystander's writes and reads.

    python bench/large_writes.py [--large 200] [--bytes 5000000] [--fields 0] [--kafka] [--secondary]
                                 [--flags=…] [--folder /tmp]

Without Kafka one node with one reader; with it a cluster of two nodes, the load going through the primary or,
with ``--secondary``, through the other one. All large bodies are sent at once by a separate process.
Meanwhile small schemas are registered and read, one every 50 ms each, until the last large one is answered;
so a pause without answers counts for all requests that came in it. ``--fields`` gives the large schemas so
many fields, instead of one long comment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import httpx

from deploy.local.broker import Broker
from deploy.local.cluster import Cluster
from tests.support.running import Registry

TYPE = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
PATIENCE_S = 300.0
EVERY_S = 0.05
TOPIC_BYTES = 16 << 20


def large(number: int, size: int, fields: int) -> bytes:
    """Return a body of about ``size`` bytes."""
    parts = [{"name": f"field_{n}", "type": "int"} for n in range(fields)]
    schema = {"type": "record", "name": f"Large{number}", "doc": "", "fields": parts}
    schema["doc"] = "x" * max(0, size - len(json.dumps({"schema": json.dumps(schema)})))
    return json.dumps({"schema": json.dumps(schema)}).encode()


def send(port: int, count: int, size: int, fields: int, said: Connection) -> None:
    """Register ``count`` large schemas at once; print the answers and the duration until the last one."""
    bodies = [large(number, size, fields) for number in range(count)]
    answers: Counter[str] = Counter()
    began = time.monotonic()

    def one(number: int) -> None:
        try:
            line = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            line.request("POST", f"/subjects/large-{number}/versions", bodies[number], TYPE)
            answer = line.getresponse()
            text = answer.read().decode()
            answers[str(answer.status) if answer.status == 200 else f"{answer.status} {text[:90]}"] += 1
        except OSError as error:
            answers[repr(error)] += 1

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said.send((dict(answers), time.monotonic() - began))


class Bystander:
    """A client that sends requests without pause, in a separate process."""

    def __init__(self, port: int, method: str, name: str) -> None:
        self.name = name
        self._said, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_ask, args=(port, method, name, theirs), daemon=True)
        self._process.start()

    def end(self) -> tuple[list[float], Counter[str]]:
        """The seconds of each answer, and its status."""
        self._said.send(None)
        took: tuple[list[float], Counter[str]] = self._said.recv()
        self._process.join()
        return took


def _ask(port: int, method: str, name: str, said: Connection) -> None:
    """Send a request every ``EVERY_S``, even while answers are missing."""
    asyncio.run(_ask_on_time(port, method, name, said))


async def _ask_on_time(port: int, method: str, name: str, said: Connection) -> None:
    took: list[float] = []
    answers: Counter[str] = Counter()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, limits=limits, headers=TYPE
    ) as client:

        async def one(number: int) -> None:
            path, body = "/schemas/ids/1", None
            if method == "POST":
                schema = {"type": "record", "name": f"Small{name}{number}", "fields": []}
                path = f"/subjects/small-{name}-{number}/versions"
                body = json.dumps({"schema": json.dumps(schema)}).encode()
            began = time.monotonic()
            try:
                answer = await client.request(method, path, content=body)
            except httpx.HTTPError as error:
                answers[repr(error)] += 1
            else:
                answers[str(answer.status_code)] += 1
            took.append(time.monotonic() - began)

        async with asyncio.TaskGroup() as group:
            number = 0
            while not said.poll():
                group.create_task(one(number := number + 1))
                await asyncio.sleep(EVERY_S)
    said.send((took, answers))


def row(name: str, took: list[float], answers: Counter[str]) -> str:
    ordered = sorted(took)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000 for part in (0.5, 0.99, 1)]
    percentiles = f"p50 {at[0]:8.1f} ms, p99 {at[1]:8.1f} ms, max {at[2]:8.1f} ms"
    return f"  {name:28}{len(took):7} answers, {percentiles}  {dict(answers)}"


def trial(port: int, given: argparse.Namespace) -> None:
    """Measure first without, then with the large writes."""
    first = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    first.request("POST", "/subjects/first/versions", json.dumps({"schema": '"int"'}), TYPE)
    print(first.getresponse().read().decode())
    writing, reading = Bystander(port, "POST", "calm"), Bystander(port, "GET", "calm")
    time.sleep(3)
    print(row("writes alone", *writing.end()))
    print(row("reads alone", *reading.end()), flush=True)
    said, theirs = multiprocessing.Pipe()
    sender = multiprocessing.Process(target=send, args=(port, given.large, given.bytes, given.fields, theirs))
    sender.start()
    writing, reading = Bystander(port, "POST", "loaded"), Bystander(port, "GET", "loaded")
    answers, seconds = said.recv()
    print(row("writes with large ones", *writing.end()))
    print(row("reads with large ones", *reading.end()))
    print(f"  {given.large} large writes of {given.bytes} bytes in {seconds:.1f} s: {answers}", flush=True)
    sender.join()


@contextmanager
def serve_load(folder: Path, given: argparse.Namespace) -> Iterator[int]:
    """Return the port that takes the load."""
    flags = given.flags.split()
    if not given.kafka:
        registry = Registry(folder / "data", "--readers", "1", *flags).wait()
        try:
            yield registry.port
        finally:
            registry.stop()
            if given.print:
                print(registry.output)
        return
    limits = {"message.max.bytes": str(TOPIC_BYTES), "replica.fetch.max.bytes": str(TOPIC_BYTES)}
    with (
        Broker(folder / "kafka", settings=limits) as broker,
        Cluster(folder / "cluster", nodes=2, front_by="", kafka=broker.address, settings=flags) as cluster,
    ):
        primary = cluster.primary()
        yield next(each for each in cluster.nodes if (each is primary) is not given.secondary).port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--large", type=int, default=200)
    parser.add_argument("--bytes", type=int, default=5_000_000)
    parser.add_argument("--fields", type=int, default=0)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--secondary", action="store_true")
    parser.add_argument("--flags", default="")
    parser.add_argument("--print", action="store_true", help="what the registry has printed")
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=given.folder))
    try:
        with serve_load(folder, given) as port:
            trial(port, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
