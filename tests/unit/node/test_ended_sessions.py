"""Signing out of the console on all nodes: what nodes report to each other."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from registry.domain.errors import RegistryError
from registry.forwarding.reports import Report, Reports
from registry.node import ended_sessions
from registry.node.ended_sessions import SharedEnds
from registry.security.authentication.sessions import ENDED_MAX, EndedSessions

SOON = time.time() + 6 * 3600  # later than the end of any run, which imports its modules first


class Heard(NamedTuple):
    node: str


class Node:
    """A node with the sessions that were ended on its host."""

    def __init__(self, folder: Path) -> None:
        self.ended = EndedSessions(folder)
        self.shared = SharedEnds(self.ended)


class Nodes:
    def __init__(self, folder: Path, count: int) -> None:
        self.nodes = {f"n{number}": Node(folder / f"n{number}") for number in range(count)}
        self.deaf: set[str] = set()
        self.asked: list[set[str]] = []

    async def ask(self, body: bytes, nodes: Collection[str]) -> dict[str, bytes | None]:
        self.asked.append({*nodes})
        return {
            each: None if each in self.deaf else await self.nodes[each].shared.take(body) for each in nodes
        }

    async def share(self, name: str, rounds: int = 1) -> None:
        """Let a node look around and tell the others, some times."""
        others = [Heard(each) for each in self.nodes if each != name]
        for _ in range(rounds):
            self.nodes[name].shared._look()
            await self.nodes[name].shared._report({each.node for each in others}, self.ask)

    def knowing(self, id: bytes) -> set[str]:
        return {name for name, each in self.nodes.items() if id in each.ended}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_sessions, "AGAIN_S", 0.0)


def test_all_other_nodes_learn_once_what_was_ended_here_also_those_that_were_away(tmp_path: Path) -> None:
    nodes, ended = Nodes(tmp_path, 3), secrets.token_bytes(16)
    nodes.deaf = {"n2"}
    nodes.nodes["n0"].ended.add(ended, SOON)

    async def main() -> None:
        await nodes.share("n0", 2)
        assert nodes.knowing(ended) == {"n0", "n1"}
        nodes.deaf.clear()
        await nodes.share("n0", 3)
        assert nodes.knowing(ended) == {"n0", "n1", "n2"}
        assert nodes.asked == [{"n1", "n2"}, {"n2"}, {"n2"}]
        await nodes.share("n1", 2)  # what it was told it does not tell
        assert len(nodes.asked) == 3
        nodes.nodes["n3"] = Node(tmp_path / "n3")
        await nodes.share("n0")
        assert nodes.knowing(ended) == {*nodes.nodes}

    asyncio.run(main())


def test_a_node_looks_when_it_hears_of_others_and_has_no_timer(tmp_path: Path) -> None:
    nodes, first, second = Nodes(tmp_path, 2), secrets.token_bytes(16), secrets.token_bytes(16)
    here, reports = nodes.nodes["n0"], Reports("n0")

    async def main() -> None:
        told = asyncio.Event()

        async def ask(body: bytes, others: Collection[str]) -> dict[str, bytes | None]:
            try:
                return await nodes.ask(body, others)
            finally:
                told.set()

        sharing = asyncio.create_task(here.shared.share(reports.others, reports.news, ask))
        for ended in (first, second):
            told.clear()
            before = here.ended.state()
            here.ended.add(ended, SOON)
            if before:  # within one step of the file system's time
                os.utime(tmp_path / "n0", ns=(before, before))
            reports.take(msgspec.msgpack.encode([Report("n1", b"")]))
            async with asyncio.timeout(30):
                await told.wait()
            assert nodes.knowing(ended) == {"n0", "n1"}
        timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        assert all(each.cancelled() for each in timers)
        sharing.cancel()

    asyncio.run(main())


def test_a_node_that_starts_again_tells_what_its_host_still_has(tmp_path: Path) -> None:
    nodes, ended = Nodes(tmp_path, 2), secrets.token_bytes(16)
    nodes.nodes["n0"].ended.add(ended, SOON)
    nodes.nodes["n0"] = Node(tmp_path / "n0")
    asyncio.run(nodes.share("n0"))
    assert nodes.knowing(ended) == {"n0", "n1"}


def test_what_is_no_session_or_has_expired_is_not_taken(tmp_path: Path) -> None:
    node, ended = Node(tmp_path / "n"), secrets.token_bytes(16)
    odd = {b"short": SOON, ended: time.time() - 1}
    assert asyncio.run(node.shared.take(msgspec.msgpack.encode(odd))) == b""
    assert node.ended.current() == {}
    for body in (b"", b"x", msgspec.msgpack.encode({"text": "text"})):
        with pytest.raises(msgspec.DecodeError):
            asyncio.run(node.shared.take(body))
    many = {secrets.token_bytes(16): SOON for _ in range(ENDED_MAX + 1)}
    with pytest.raises(RegistryError, match="Too many"):
        asyncio.run(node.shared.take(msgspec.msgpack.encode(many)))


def test_what_could_not_be_written_is_taken_when_it_comes_again(tmp_path: Path) -> None:
    nodes, ended = Nodes(tmp_path, 2), secrets.token_bytes(16)
    here, folder = nodes.nodes["n1"], tmp_path / "n1"
    folder.touch()  # so that no folder can be made
    report = msgspec.msgpack.encode({ended: SOON})
    with pytest.raises(RegistryError, match="cannot be written: File exists"):
        asyncio.run(here.shared.take(report))
    folder.unlink()
    asyncio.run(here.shared.take(report))
    assert nodes.knowing(ended) == {"n1"}
    asyncio.run(nodes.share("n1"))
    assert nodes.asked == []
