"""Readers get answers before there is a node, and none of their requests is lost when it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from registry.config.settings import Settings
from registry.domain.commands import DeleteSubject
from registry.domain.pending_command import CommandRequest
from registry.ipc.messages import (
    AskSnapshots,
    AskStatus,
    Confirm,
    Confirmed,
    Decided,
    DeleteSnapshot,
    Framed,
    State,
    Status,
    Submit,
    decode_from_node,
    decode_from_reader,
)
from registry.node.startup.progress import StartProgress
from registry.node.startup_endpoint import HELD_MAX, StartupEndpoint
from tests.running import until_async


class Line(Framed):
    """One end of a line."""

    gone = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True


class Reader(Line):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[msgspec.Struct] = []

    def heard(self, message: bytes) -> None:
        self.told.append(decode_from_node(message))


class NodesEnd(Line):
    """The end of the line that the node has, once there is one; itself the endpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[msgspec.Struct] = []

    def take(self, call: Framed) -> NodesEnd:
        return self.take_over(call)

    def heard(self, message: bytes) -> None:
        self.asked.append(decode_from_reader(message))


def with_early(path: Path, try_it: Callable[[StartupEndpoint, Reader, NodesEnd], Any]) -> None:
    async def run() -> None:
        starting = StartProgress()
        starting.waiting = "waiting for the log"
        early = StartupEndpoint(Settings(readers=1), starting)
        await early.start(path)
        _, reader = await asyncio.get_running_loop().create_unix_connection(Reader, str(path))
        node = NodesEnd()
        try:
            await try_it(early, reader, node)
        finally:
            early.stop()
            reader.transport.close()
            taken = hasattr(node, "transport")
            await until_async(lambda: reader.gone and (node.gone if taken else not early.calls), "the end")

    asyncio.run(asyncio.wait_for(run(), 30))


def test_readers_are_told_that_there_is_no_node_yet(tmp_path: Path) -> None:
    async def try_it(early: StartupEndpoint, reader: Reader, node: NodesEnd) -> None:
        reader.tell(AskStatus(1), Confirm(2), AskSnapshots(4), DeleteSnapshot(5, "one"))
        reader.tell(Submit(3, CommandRequest(DeleteSubject("s"), 0.01)))
        await until_async(lambda: len(reader.told) == 6, "all answers")
        state, status, confirmed, *others, decided = reader.told
        assert state == State(started=False, opening=True)
        assert isinstance(status, Status)
        assert (status.status.started, status.status.reasons) == (False, ["waiting for the log"])
        assert confirmed == Confirmed(2, False)
        assert all("503" in str(other) for other in others)
        assert isinstance(decided, Decided)
        assert decided.number == 3
        assert "503" in str(decided.outcome), decided.outcome

    with_early(tmp_path / "node", try_it)


def test_what_waits_goes_on_to_the_node_on_the_same_line(tmp_path: Path) -> None:
    async def try_it(early: StartupEndpoint, reader: Reader, node: NodesEnd) -> None:
        reader.tell(Submit(1, CommandRequest(DeleteSubject("s"), 20.0)), AskStatus(2))
        await until_async(lambda: len(reader.told) == 2, "the status")
        early.hand_over(cast("Any", node))
        (submit,) = node.asked
        assert isinstance(submit, Submit)
        assert (submit.number, submit.request.command) == (1, DeleteSubject("s"))
        assert 0 < submit.request.remaining_s <= 20
        reader.tell(AskSnapshots(4))
        await until_async(lambda: node.asked[1:] == [AskSnapshots(4)], "what is asked of the node")
        node.tell(State(started=True))
        await until_async(lambda: reader.told[-1] == State(started=True), "what the node tells")

    with_early(tmp_path / "node", try_it)


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    async def try_it(early: StartupEndpoint, reader: Reader, node: NodesEnd) -> None:
        writes = [Submit(number, CommandRequest(DeleteSubject("s"), 20.0)) for number in range(HELD_MAX + 10)]
        reader.tell(*writes)
        await until_async(lambda: len(reader.told) == 11, "what is refused")
        assert [told.number for told in reader.told if isinstance(told, Decided)] == [
            *range(HELD_MAX, HELD_MAX + 10)
        ]
        early.hand_over(cast("Any", node))
        assert len(node.asked) == HELD_MAX

    with_early(tmp_path / "node", try_it)
