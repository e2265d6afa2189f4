"""Nodes that take part in an election, in this process or in one that can be killed and frozen."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploy.local.process import Process
from election.contract import (
    Election,
    Event,
    Identity,
    Lost,
    NoPrimary,
    PrimaryIs,
    Reachable,
    StaticElection,
    Won,
)
from election.kafka import KafkaElection
from election.zookeeper import ZooKeeperElection
from registry.log.kafka.broker_connection import login_with
from registry.log.kafka.security import Security

ROOT = Path(__file__).parents[3]
PATIENCE_S = 30.0


def identity(
    host: str, *, port: int = 8081, eligible: bool = True, node: str | None = None, since_ms: int = 0
) -> Identity:
    named = f"n-{host}" if node is None else node
    return Identity(
        "http", host, port, eligible=eligible, peer=f"{host}:9{port}", node=named, since_ms=since_ms
    )


def election_of(
    kind: str, address: str, group: str, own: Identity, *, reachable: Reachable | None = None, **settings: Any
) -> Election:
    if kind == "static":
        return StaticElection(own, **settings)
    if kind == "kafka":
        connect = login_with(Security()).connection
        return KafkaElection(address, connect, group, own, reachable=reachable, **settings)
    if kind == "zookeeper":
        return ZooKeeperElection(address, f"/{group}/schema_registry", own, reachable=reachable, **settings)
    raise AssertionError(kind)


async def until(
    condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S, pause_s: float = 0.01
) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        await asyncio.sleep(pause_s)
    return answer


class Node:
    """Consumes the events of an election; ``heard`` holds all of them, with the time in ``at``."""

    def __init__(self, own: Identity, election: Election) -> None:
        self.own = own
        self.election: Any = election
        self.heard: list[Event] = []
        self.at: list[float] = []
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for event in self.election.events():
            self.heard.append(event)
            self.at.append(time.monotonic())

    def listen_anew(self) -> None:
        self._task = asyncio.create_task(self._listen())

    @property
    def last(self) -> Event | None:
        return self.heard[-1] if self.heard else None

    @property
    def won(self) -> bool:
        return isinstance(self.last, Won)

    @property
    def refused(self) -> str:
        return self.last.reason if isinstance(self.last, NoPrimary) else ""

    def follows(self, other: Node) -> bool:
        return isinstance(self.last, PrimaryIs) and self.last.identity.url == other.own.url

    def losses(self) -> list[Event]:
        return [event for event in self.heard if isinstance(event, Lost)]

    async def close(self) -> None:
        await self.election.close()
        await asyncio.wait_for(self._task, PATIENCE_S)


async def until_agreed(nodes: list[Node]) -> Node:
    """Return the node that all of ``nodes`` take for the primary."""

    def agreed() -> Node | None:
        won = [node for node in nodes if node.won]
        if len(won) == 1 and all(node is won[0] or node.follows(won[0]) for node in nodes):
            return won[0]
        return None

    try:
        primary: Node = await until(agreed, "all to agree")
    except AssertionError as error:
        raise AssertionError(
            f"{error}: " + "\n".join(f"{node.own.url}: {node.heard}" for node in nodes)
        ) from None
    return primary


class Candidate(Process):
    """A node in a separate process, which can be killed and frozen; it prints its events."""

    def __init__(
        self, folder: Path, kind: str, address: str, group: str, own: Identity, settings: Any
    ) -> None:
        told = [kind, address, group, own.host, own.node, json.dumps(settings)]
        command = [sys.executable, "-m", "tests.contract.election.candidate", *told]
        super().__init__(f"the node at {own.url}", command, folder / f"{own.host}-{own.node}.txt")
        self.own = own
        self.environment = os.environ | {"PYTHONPATH": str(ROOT)}

    @property
    def won(self) -> bool:
        return self.output.split()[-1:] == ["Won"]
