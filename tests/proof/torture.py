"""Run the torture test on Registrar and on others, in one run on one machine.

Each registry has three nodes over one and the same Kafka broker; a hook kills one node after another with
``SIGKILL`` and starts it again. Apicurio is run from the folder into which its distribution was unpacked
(``apicurio-registry-app-VERSION-all.tar.gz`` of Maven Central), with its storage on Kafka. The registries are
tested one after the other. Prints one JSON line for each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from deploy.local.broker import Broker
from deploy.local.node import Node
from deploy.local.process import Process, free_port, until

NODES = 3
# A JVM on a busy machine takes long to start.
START_S = 300.0
_HEAP = "-Xmx384m"


class Peer(NamedTuple):
    """A node: its process, and the URL of its API."""

    process: Process
    url: str

    def ready(self) -> bool:
        """Return true if it lists subjects."""
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5.0):
                return True
        except OSError:
            return False

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self.process.start()
        try:
            until(self.ready, START_S, f"{self.process.name} to be ready", every_s=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.process.output[-2000:]}") from error


def registrar(folder: Path, kafka: str) -> list[Peer]:
    """Return the nodes of a cluster of this tree, not started."""
    nodes = [Node(folder / f"node-{n}", ["--kafka", kafka, "--readers", "1"]) for n in range(NODES)]
    return [Peer(node, node.url) for node in nodes]


def apicurio(folder: Path, kafka: str, unpacked: Path, java: str) -> list[Peer]:
    """Return nodes of Apicurio, not started, whose storage is a topic of the broker."""
    jar = next(iter([*unpacked.glob("quarkus-run.jar"), *unpacked.glob("*-runner.jar")]))
    peers = []
    for number in range(NODES):
        port = free_port()
        options = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": port,
            "quarkus.management.port": free_port(),
            "quarkus.otel.sdk.disabled": "true",
            "apicurio.storage.kind": "kafkasql",
            "apicurio.kafkasql.bootstrap.servers": kafka,
        }
        words = [java, _HEAP, *(f"-D{name}={value}" for name, value in options.items()), "-jar", jar]
        process = Process(f"Apicurio on {port}", [*map(str, words)], folder / f"node-{number}" / "output.txt")
        peers.append(Peer(process, f"http://127.0.0.1:{port}/apis/ccompat/v7"))
    return peers


@contextmanager
def killing(peers: Sequence[Peer]) -> Iterator[str]:
    """Serve the URL to which the hook posts an address: that node is killed, and answers again."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            url = self.rfile.read(int(self.headers["Content-Length"])).decode()
            peer = next(each for each in peers if each.url == url)
            peer.process.kill()
            peer.start()
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *words: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def tortured(peers: Sequence[Peer], hook: str, words: Sequence[str]) -> dict[str, object]:
    """Run the torture test; return its document, or what it printed instead."""
    urls = [word for peer in peers for word in ("--url", peer.url)]
    command = [sys.executable, "-m", "registry", "torture", *urls, "--yes", "--json", *words]
    done = subprocess.run([*command, "--hook", hook], capture_output=True, text=True, check=False)
    try:
        found: dict[str, object] = json.loads(done.stdout)
    except ValueError:
        return {"status": done.returncode, "printed": (done.stdout + done.stderr)[-2000:]}
    return {"status": done.returncode, **found}


def main() -> None:
    """Run all registries in turn."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.torture", description=__doc__)
    parser.add_argument("--apicurio", type=Path, metavar="FOLDER", help="also run Apicurio, unpacked there")
    parser.add_argument("--java", default="java", help="the JVM for it (Apicurio 3.3 needs 21)")
    parser.add_argument("options", nargs="*", help="options of registrar torture, after --")
    given = parser.parse_args()
    with TemporaryDirectory() as scratch, Broker(Path(scratch) / "kafka") as broker:
        runs = {"registrar": registrar(Path(scratch) / "registrar", broker.address)}
        if given.apicurio is not None:
            folder = Path(scratch) / "apicurio"
            runs["apicurio"] = apicurio(folder, broker.address, given.apicurio.resolve(), given.java)
        for name, peers in runs.items():
            with ExitStack() as stack:
                for peer in peers:
                    stack.callback(peer.process.kill)
                    peer.start()
                url = stack.enter_context(killing(peers))
                found = tortured(peers, f"curl --silent --fail {url} --data", given.options)
            print(json.dumps({"registry": name, "nodes": len(peers), **found}), flush=True)


if __name__ == "__main__":
    main()
