"""The messages that a node sends to its readers, and their order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from registry.api.backend import NodeStatus
from registry.api.node_queries import CLUSTER, STATUS
from registry.domain.commands import Refused
from registry.ipc.messages import (
    NO_ANSWER,
    Confirm,
    Confirmed,
    Framed,
    Query,
    Reply,
    State,
    decode_from_node,
    encode,
)
from registry.node.ipc_server import IpcServer
from registry.node.node_service import NodeService

READY = NodeStatus(
    role="primary", epoch=0, applied=1, end=1, digest="", started=True, ready=True, reasons=[]
)  # fmt: skip


class Starting:
    """A node whose rows become readable while a request is answered, before it has reported that."""

    standalone, readable, is_started, repeats = False, False, False, False
    following = SimpleNamespace(last_error="")
    store = SimpleNamespace(former_served=False, mismatch=None)
    log = SimpleNamespace(identity="the log")

    def when_started(self, call: object) -> None:
        pass

    def reader_ended(self, number: int) -> None:
        pass

    async def confirm(self, timeout_s: float) -> bool:
        self.is_started = True
        return True

    def status(self) -> NodeStatus:
        self.is_started = True
        return READY


class Reader(Framed):
    """Collects the node's messages."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[msgspec.Struct] = []
        self.answered = asyncio.Event()

    def on_message(self, message: bytes) -> None:
        received = decode_from_node(message)
        self.received.append(received)
        if not isinstance(received, State):
            self.answered.set()


async def _replies(path: Path, question: msgspec.Struct) -> list[msgspec.Struct]:
    submit = cast("Any", lambda *_: None)
    node = Starting()
    service = NodeService(
        cast("Any", node),
        submit,
        status=node.status,
        cluster=cast("Any", None),
        metrics=lambda _: b"",
        confirm_timeout_s=1,
    )
    server = IpcServer(service)
    await server.start(path)
    _, reader = await asyncio.get_running_loop().create_unix_connection(Reader, str(path))
    reader.send(question)
    await reader.answered.wait()
    reader.transport.close()
    await server.drain(10)
    server.stop()
    return reader.received


ASKED = Query(1, STATUS.number, msgspec.Raw(encode(None)))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param(Confirm(1), Confirmed(1, True), id="takes rows for new"),
        pytest.param(ASKED, Reply(1, msgspec.Raw(encode(READY))), id="says that it is ready"),
    ],
)
def test_a_reader_knows_that_the_node_has_started_before_it(
    question: msgspec.Struct, answer: msgspec.Struct, tmp_path: Path
) -> None:
    # Until then it may have the rows of a former store, or none.
    replies = asyncio.run(asyncio.wait_for(_replies(tmp_path / "node", question), 30))
    assert replies == [State(started=False), State(started=True, log="the log"), answer]


def test_a_query_that_fails_is_answered_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failing = Query(1, CLUSTER.number, msgspec.Raw(encode(None)))
    replies = asyncio.run(asyncio.wait_for(_replies(tmp_path / "node", failing), 30))
    assert replies == [State(started=False), Reply(1, NO_ANSWER, Refused(500, "Internal Server Error"))]
    assert [each.exc_info is not None for each in caplog.records] == [True]
