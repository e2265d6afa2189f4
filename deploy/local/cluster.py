"""A complete cluster on this machine: a broker, nodes and a load balancer.

``make cluster`` (``python -m deploy.local.cluster``) runs one for you; tests and benchmarks use the class.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from snapshots.spark.jars import NotAvailable

from . import front
from .broker import Broker
from .console import Console
from .node import Node
from .process import Process, until
from .zookeeper import ZooKeeper

PRIMARY_TIMEOUT_S = 60.0


class Cluster:
    """A broker, ``nodes`` and a load balancer, with all files in ``folder``.

    ``settings`` are flags of ``registrar serve`` for all nodes, ``each`` has further ones for every node.
    ``kafka`` names other brokers than one of its own, once or for every node; then ``broker`` is ``None``.
    ``zookeeper`` likewise names another server. ``front_by`` is ``nginx`` or ``haproxy``, by default what is
    installed; when it is empty, or nothing is, :attr:`url` is the first node's.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 3,
        election: str = "kafka",
        settings: Sequence[str] = (),
        *,
        each: Sequence[Sequence[str]] | None = None,
        kafka: str | Sequence[str] = "",
        zookeeper: str = "",
        front_by: str | None = None,
        port: int | None = None,
    ) -> None:
        self.broker = None if kafka else Broker(folder / "kafka")
        self.zookeeper = (
            ZooKeeper(folder / "zookeeper") if election == "zookeeper" and not zookeeper else None
        )
        brokers = [kafka] * nodes if isinstance(kafka, str) else list(kafka)
        if self.broker is not None:
            brokers = [self.broker.address] * nodes
        flags = ["--readers", "1", "--election", election]
        if election == "zookeeper":
            server = zookeeper or (self.zookeeper and self.zookeeper.address)
            flags += ["--zookeeper", f"{server}/registrar"]
        self.nodes: list[Node] = []
        for number, servers in enumerate(brokers):
            first = ["--primary", self.nodes[0].url] if election == "static" and self.nodes else []
            own = [*flags, "--kafka", servers, *first, *settings, *(each[number] if each else ())]
            self.nodes.append(Node(folder / f"node-{number + 1}", own))
        program = front.find_proxy() if front_by is None else front_by
        addresses = [node.address for node in self.nodes]
        self.front = front.Front(program, folder / program, addresses, port=port) if program else None

    @property
    def parts(self) -> dict[str, Process]:
        """The running processes, by the names that the console uses."""
        others = {"kafka": self.broker, "zookeeper": self.zookeeper, "balancer": self.front}
        nodes = {f"node-{number}": node for number, node in enumerate(self.nodes, 1)}
        return nodes | {name: part for name, part in others.items() if part is not None}

    @property
    def url(self) -> str:
        """The URL of the load balancer, without a trailing slash."""
        return self.front.url if self.front else self.nodes[0].url

    def start(self) -> Self:
        """Start the servers, then all nodes at once, then the load balancer."""
        for server in (self.broker, self.zookeeper):
            if server is not None:
                server.start()
        for server in (self.broker, self.zookeeper):
            if server is not None:
                server.wait()
        for node in self.nodes:
            node.start()
        if self.front is not None:
            self.front.start()
        return self

    def wait(self) -> Self:
        """Wait until every node is ready, one of them is the primary, and the URL answers."""
        for node in self.nodes:
            node.wait()
        self.primary()
        if self.front is not None:
            self.front.wait()
        return self

    def primary(self, timeout_s: float = PRIMARY_TIMEOUT_S) -> Node:
        """Return the running node that reports to be the primary; fail if there is none in time."""

        def find() -> Node | None:
            return next((node for node in self.nodes if node.running and node.role == "primary"), None)

        found: Node = until(find, timeout_s, "one of the nodes to become the primary")
        return found

    def stop(self) -> None:
        """Stop everything, the nodes before the servers that they need."""
        with ExitStack() as stack:
            for server in (self.broker, self.zookeeper):
                if server is not None:
                    stack.callback(server.stop)
            for node in self.nodes:
                stack.callback(node.stop)
            if self.front is not None:
                stack.callback(self.front.stop)

    def __enter__(self) -> Self:
        try:
            return self.start().wait()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *error: object) -> None:
        self.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a cluster until a signal and return the exit code."""
    given = _arguments(arguments)
    # Shells let the background jobs of scripts ignore SIGINT.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    with ExitStack() as stack:
        folder = given.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="registrar-")))
        try:
            cluster = Cluster(folder.resolve(), given.nodes, given.election, given.flags, port=given.port)
            stack.callback(cluster.stop)
            _say("Starting a broker and the nodes")
            cluster.start().wait()
            _describe(cluster, folder)
            Console(cluster.parts, _say).run()
        except KeyboardInterrupt:
            _say("Stopping")
        except (NotAvailable, AssertionError) as error:
            return _refuse(str(error))
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make cluster", description="Run a cluster on this machine.")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--election", choices=("kafka", "zookeeper", "static"), default="kafka")
    parser.add_argument("--port", type=int, help="port of the one URL; a free one if not given")
    parser.add_argument(
        "--data", type=Path, help="folder to keep everything in; a temporary one if not given"
    )
    parser.add_argument("flags", nargs="*", help="flags of registrar serve for every node, after --")
    return parser.parse_args(arguments)


def _describe(cluster: Cluster, folder: Path) -> None:
    _say("")
    if cluster.front is None:
        _say("One URL for all needs nginx or HAProxy: install the package nginx (apt-get install nginx).")
        _say("Without it, any of these will do; clients take several, with commas between them:")
    else:
        _say(f"  {cluster.url}   the cluster; each request goes to the next node")
    for number, node in enumerate(cluster.nodes, 1):
        _say(f"  {node.url}   node-{number}, process {node.pid}, {node.role}")
    if cluster.broker is not None:
        _say(f"  {cluster.broker.address}          Kafka")
    if cluster.zookeeper is not None:
        _say(f"  {cluster.zookeeper.address}          ZooKeeper")
    _say(f"\nData and output are in {folder}. Ctrl-C stops all.\n")


def _say(line: str) -> None:
    print(line, flush=True)


def _refuse(problem: str) -> int:
    print(problem, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
