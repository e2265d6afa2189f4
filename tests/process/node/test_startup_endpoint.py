"""Readers get answers before there is a node, and none of their requests is lost when it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from registry.api.backend import NodeQuery
from registry.api.node_queries import DELETE_SNAPSHOT, SNAPSHOTS, STATUS
from registry.domain.commands import DeleteSubject
from registry.domain.pending_command import CommandRequest
from registry.ipc.messages import (
    Confirm,
    Confirmed,
    Decided,
    Framed,
    FromReader,
    Query,
    Reply,
    State,
    Submit,
    decode_from_node,
    encode,
    frames,
)
from registry.node.ipc_server import HELD_MAX, IpcServer, ReaderConnection, starting_server
from registry.node.startup.progress import StartProgress
from tests.support.running import until_async


def asked(number: int, query: NodeQuery[Any, Any], request: Any = None) -> Query:
    return Query(number, query.number, msgspec.Raw(encode(request)))


class Reader(Framed):
    """Collects the node's messages."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[msgspec.Struct] = []

    def on_message(self, message: bytes) -> None:
        self.received.append(decode_from_node(message))


class Node:
    """The service of a node that has started; it collects the messages of its only reader."""

    def __init__(self) -> None:
        self.requests: list[msgspec.Struct] = []

    def open_session(self, connection: ReaderConnection) -> Node:
        connection.send(State(started=True))
        return self

    def on_message(self, message: FromReader) -> None:
        self.requests.append(message)

    def close(self) -> tuple[Submit, ...]:
        return ()


def while_starting(path: Path, try_it: Callable[[IpcServer, StartProgress, Reader], Any]) -> None:
    async def run() -> None:
        progress = StartProgress()
        progress.waiting = "waiting for the log"
        ipc = starting_server(progress, held_bytes_max=1 << 20)
        await ipc.start(path)
        _, reader = await asyncio.get_running_loop().create_unix_connection(Reader, str(path))
        try:
            await try_it(ipc, progress, reader)
        finally:
            reader.transport.close()
            await ipc.drain(30)
            ipc.stop()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_requests_are_answered_before_there_is_a_node(tmp_path: Path) -> None:
    async def try_it(ipc: IpcServer, progress: StartProgress, reader: Reader) -> None:
        reader.send(asked(1, STATUS), Confirm(2), asked(4, SNAPSHOTS), asked(5, DELETE_SNAPSHOT, "one"))
        reader.send(Submit(3, CommandRequest(DeleteSubject("s"), 0.01)))
        await until_async(lambda: len(reader.received) == 6, "all answers")
        state, status, confirmed, *others, decided = reader.received
        assert state == State(started=False, opening=True)
        assert isinstance(status, Reply)
        found = STATUS.decode_answer(bytes(status.answer))
        assert (found.started, found.reasons) == (False, ["waiting for the log"])
        assert confirmed == Confirmed(2, False)
        assert all("503" in str(other) for other in others)
        assert isinstance(decided, Decided)
        assert decided.number == 3
        assert "503" in str(decided.outcome), decided.outcome

    while_starting(tmp_path / "node", try_it)


def test_readers_may_serve_the_rows_once_the_log_is_known_to_be_theirs(tmp_path: Path) -> None:
    async def try_it(ipc: IpcServer, progress: StartProgress, reader: Reader) -> None:
        await until_async(lambda: reader.received, "the state")
        await asyncio.to_thread(progress.log_suits)
        await until_async(lambda: len(reader.received) == 2, "another state")
        assert reader.received == [State(False, opening=True), State(False, opening=True, examined=True)]

    while_starting(tmp_path / "node", try_it)


def test_held_writes_go_to_the_node_and_the_reader_stays_connected(tmp_path: Path) -> None:
    async def try_it(ipc: IpcServer, progress: StartProgress, reader: Reader) -> None:
        reader.send(Submit(1, CommandRequest(DeleteSubject("s"), 20.0)), asked(2, STATUS))
        await until_async(lambda: len(reader.received) == 2, "the status")
        node = Node()
        ipc.swap(node)
        (submit,) = node.requests
        assert isinstance(submit, Submit)
        assert (submit.number, submit.request.command) == (1, DeleteSubject("s"))
        assert 0 < submit.request.remaining_s <= 20
        reader.send(asked(4, SNAPSHOTS))
        await until_async(lambda: node.requests[1:] == [asked(4, SNAPSHOTS)], "what is asked of the node")
        await until_async(lambda: reader.received[-1] == State(started=True), "the state of the started node")

    while_starting(tmp_path / "node", try_it)


def test_a_write_that_is_half_received_when_the_node_starts_goes_to_the_node(tmp_path: Path) -> None:
    async def try_it(ipc: IpcServer, progress: StartProgress, reader: Reader) -> None:
        submit = Submit(1, CommandRequest(DeleteSubject("s"), 20.0))
        first, second = frames([encode(asked(2, STATUS))]), frames([encode(submit)])
        reader.transport.write(first + second[:-5])
        await until_async(lambda: len(reader.received) == 2, "the status")
        node = Node()
        ipc.swap(node)
        reader.transport.write(second[-5:])
        await until_async(lambda: node.requests == [submit], "the write")

    while_starting(tmp_path / "node", try_it)


def test_held_writes_are_bounded(tmp_path: Path) -> None:
    async def try_it(ipc: IpcServer, progress: StartProgress, reader: Reader) -> None:
        writes = [Submit(number, CommandRequest(DeleteSubject("s"), 20.0)) for number in range(HELD_MAX + 10)]
        reader.send(*writes)
        await until_async(lambda: len(reader.received) == 11, "what is refused")
        assert [reply.number for reply in reader.received if isinstance(reply, Decided)] == [
            *range(HELD_MAX, HELD_MAX + 10)
        ]
        node = Node()
        ipc.swap(node)
        assert len(node.requests) == HELD_MAX

    while_starting(tmp_path / "node", try_it)
