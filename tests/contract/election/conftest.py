from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from deploy.local.broker import Broker
from deploy.local.proxy import Proxy
from deploy.local.zookeeper import ZooKeeper
from election.contract import Identity
from tests.contract.election.nodes import Candidate, Node, election_of


@dataclass
class Authority:
    """The meeting point of one test's nodes: a group or chroot. Its nodes and processes end with it."""

    kind: str
    address: str
    folder: Path
    proxy: Proxy | None = None
    server: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    group: str = field(default_factory=lambda: f"election-{uuid.uuid4().hex[:8]}")
    nodes: list[Node] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)

    def node(self, own: Identity, *, through: Proxy | None = None, **settings: Any) -> Node:
        address = through.address if through else self.address
        made = Node(own, election_of(self.kind, address, self.group, own, **self.settings | settings))
        self.nodes.append(made)
        return made

    def candidate(self, own: Identity, **settings: Any) -> Candidate:
        made = Candidate(self.folder, self.kind, self.address, self.group, own, self.settings | settings)
        self.candidates.append(made)
        return made.start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for candidate in self.candidates:
            candidate.kill()
        for node in self.nodes:
            await node.close()


KINDS = ["kafka", "zookeeper"]


@pytest.fixture(params=KINDS)
def authority(request: pytest.FixtureRequest, tmp_path: Path) -> Authority:
    """Return the server that all tests share; it runs all the time."""
    return Authority(request.param, request.getfixturevalue(request.param).address, tmp_path)


@pytest.fixture(scope="session")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    short = {"group.min.session.timeout.ms": "1000"}
    with Broker(tmp_path_factory.mktemp("kafka"), proxies=1, settings=short) as broker:
        yield broker


@pytest.fixture(scope="session")
def own_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(params=KINDS)
def frail(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Authority]:
    """Start a server that may be stopped; its ``proxy`` may be cut."""
    server = request.getfixturevalue(f"own_{request.param}")
    if not server.running:
        server.start().wait()
    if request.param == "kafka":
        proxy = server.proxies[0]
        yield Authority("kafka", server.address, tmp_path, proxy, server, {"session_timeout_s": 2.0})
        proxy.heal()
        return
    with Proxy(server.address) as proxy:
        yield Authority("zookeeper", server.address, tmp_path, proxy, server, {"session_timeout_s": 2.0})
