"""The first minute of an incident: many cold clients at once, through TLS, with half of the nodes gone.

    python bench/herd.py [--clients 10000] [--ids 100] [--folder /tmp]

Two nodes on one broker, with users and TLS; one of them is killed. Then all clients connect at the same
moment, each to a random node, and to the other one if that is gone. Each reads one of the ids and stays
connected. Prints how long they waited from that moment on, and how often the remaining node asked Kafka
where the log ends.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import resource
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import uvloop

from bench.command_line import run_in_folder
from deploy.local.broker import Broker
from deploy.local.node import Node
from deploy.local.process import free_port, until
from deploy.local.proxy import Proxy
from registry.security.authentication.passwords import hash_password
from tests.faults.load import Line, Login
from tests.support.certificates import Authority

LIMIT_S = 30.0
PASSWORD = "correct horse battery"
SCHEMA = '{"type":"record","name":"R%d","fields":[{"name":"f","type":"long"}]}'
# The broker's request that asks where a partition ends (Kafka's protocol, ListOffsets).
LIST_OFFSETS = 2


class Served(NamedTuple):
    """The outcome of a herd: seconds from the common start to each answer, and counts of the rest."""

    seconds: list[float]
    errors: Counter[str]
    refused: int  # connections to nodes that are gone
    warned: int  # answers that may be stale


async def send_herd(
    ports: Sequence[int], login: Login, ids: Sequence[int], clients: int, *, limit_s: float = LIMIT_S
) -> Served:
    """Let clients connect and read at once; return when all have an answer or have failed."""
    found = Served([], Counter(), 0, 0)
    refused = warned = 0
    chance = random.Random(1)
    open_connections: list[asyncio.StreamWriter] = []
    began = time.monotonic()

    async def one(order: Sequence[int], schema_id: int) -> None:
        nonlocal refused, warned
        try:
            async with asyncio.timeout(limit_s):
                for port in order:
                    try:
                        reader, writer = await asyncio.open_connection(
                            "127.0.0.1",
                            port,
                            ssl=login.context,
                            ssl_handshake_timeout=limit_s,
                            server_hostname="localhost",
                        )
                    except ConnectionRefusedError:
                        refused += 1
                        continue
                    open_connections.append(writer)
                    writer.write(
                        f"GET /schemas/ids/{schema_id} HTTP/1.1\r\nHost: localhost\r\n"
                        f"Authorization: {login.authorization}\r\n\r\n".encode()
                    )
                    status, warns = await _read_status(reader)
                    warned += warns
                    if status == 200:
                        found.seconds.append(time.monotonic() - began)
                    else:
                        found.errors[f"status {status}"] += 1
                    return
                found.errors["no node"] += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            found.errors[type(error).__name__] += 1

    await asyncio.gather(
        *(one(chance.sample(ports, len(ports)), ids[each % len(ids)]) for each in range(clients))
    )
    for writer in open_connections:
        writer.transport.abort()
    return found._replace(refused=refused, warned=warned)


async def _read_status(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Return the status of an answer, and true if it has a warning."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1]), b"\r\nwarning:" in head


class Requests:
    """Counts the requests that one node sends to its broker through a proxy, by their API key."""

    def __init__(self, proxy: Proxy) -> None:
        self.counts = Counter[int]()
        proxy.observe = self._observe

    def _observe(self) -> Callable[[bytes], None]:
        pending = bytearray()

        def see(chunk: bytes) -> None:
            # A request: its length in four bytes, its key in two, and the rest.
            pending.extend(chunk)
            while len(pending) >= 6:
                end = 4 + int.from_bytes(pending[:4], "big")
                if len(pending) < end:
                    return
                self.counts[int.from_bytes(pending[4:6], "big")] += 1
                del pending[:end]

        return see


class Site(NamedTuple):
    """Two nodes with users and TLS, the files of their clients, and counts of what they ask Kafka for."""

    nodes: list[Node]
    login: Login
    requests: list[Requests]

    def register(self, count: int) -> list[int]:
        """Register schemas; return their ids."""
        line = Line(self.nodes[0].port, login=self.login)
        ids = []
        for number in range(count):
            said, _ = line.ask("POST", f"/subjects/herd-{number}/versions", {"schema": SCHEMA % number})
            ids.append(int(said["answer"]["id"]))
        line.close()
        return ids


@contextmanager
def site(folder: Path, broker: Broker, *flags: str) -> Iterator[Site]:
    """Run two nodes that reach the broker through its first proxies."""
    authority = Authority()
    certificate, key = authority.issue().write(folder, "server")
    (folder / "users").write_text(f"herd:{hash_password(PASSWORD)}\n")
    context = ssl.create_default_context(cafile=str(authority.write(folder, "ca")))
    login = Login("Basic " + base64.b64encode(f"herd:{PASSWORD}".encode()).decode(), context)
    secured = ("--users", str(folder / "users"), "--tls-certificate", str(certificate), "--tls-key", str(key))
    requests, nodes = [], []
    for number, proxy in enumerate(broker.proxies[:2]):
        requests.append(Requests(proxy))
        port = free_port()
        listen = ("--kafka", proxy.address, "--listeners", f"https://127.0.0.1:{port}")
        node = Node(folder / f"node-{number}", [*listen, *secured, *flags], port=port)
        node.url = f"https://{node.address}"
        node.headers, node.context = {"Authorization": login.authorization}, context
        nodes.append(node)
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait()
        until(lambda: any(node.role == "primary" for node in nodes), 60, "a primary")
        yield Site(nodes, login, requests)
    finally:
        for node in nodes:
            node.stop()


def main() -> None:
    run_in_folder(__doc__, run, clients=10_000, ids=100, readers=2)


def run(given: argparse.Namespace, folder: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < given.clients + 1000:
        sys.exit(f"{given.clients} clients need more open files than {hard}: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with (
        Broker(folder / "kafka", proxies=2) as broker,
        site(folder, broker, "--readers", str(given.readers)) as made,
    ):
        print(json.dumps(measure(made, given.clients, given.ids)))


def _is_gone(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def measure(made: Site, clients: int, ids: int, *, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Kill one node, send the herd, and return what happened as JSON."""
    known = made.register(ids)
    rest = made.nodes[1]
    until(lambda: rest.status().get("applied") == made.nodes[0].status().get("applied"), 60, "equal nodes")
    made.nodes[0].kill()
    until(lambda: _is_gone(made.nodes[0].port), 60, "the killed node to be gone")
    before = made.requests[1].counts[LIST_OFFSETS]
    ports = [node.port for node in made.nodes]
    found = uvloop.run(send_herd(ports, made.login, known, clients, limit_s=limit_s))
    waited = sorted(found.seconds) or [0.0]
    return {
        "clients": clients,
        "ids": ids,
        "served": len(found.seconds),
        "errors": dict(found.errors),
        "refused_first": found.refused,
        "warned": found.warned,
        "p50_s": round(waited[len(waited) // 2], 2),
        "p99_s": round(waited[int(len(waited) * 0.99)], 2),
        "last_s": round(waited[-1], 2),
        "queries_of_log_end": made.requests[1].counts[LIST_OFFSETS] - before,
    }


if __name__ == "__main__":
    main()
