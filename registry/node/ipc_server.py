"""The node's end of the unix socket on which its readers call it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from registry.api.status import NodeStatus
from registry.domain.commands import Outcome, refused
from registry.domain.errors import TOO_MANY_WRITES, RegistryError
from registry.domain.pending_command import PendingCommand
from registry.domain.pending_command import Submit as SubmitCommand
from registry.ipc.messages import (
    AskSnapshots,
    AskStatus,
    Confirm,
    Confirmed,
    Decided,
    DeleteSnapshot,
    Framed,
    Hello,
    Metrics,
    Report,
    Snapshots,
    State,
    Status,
    Submit,
    decode_from_reader,
)

from .node import Node
from .snapshots.coordinator import Deleted, Listed

WATCH_EVERY_S = 0.25
_log = logging.getLogger(__name__)


class IpcServer:
    """Listens for readers and answers them."""

    def __init__(
        self,
        node: Node,
        submit: SubmitCommand,
        *,
        status: Callable[[], NodeStatus],
        metrics: Callable[[], bytes],
        confirm_timeout_s: float,
    ) -> None:
        self.node = node
        self.submit = submit
        self.status = status
        self.metrics = metrics
        self.confirm_timeout_s = confirm_timeout_s
        self.loop = asyncio.get_running_loop()
        self.readers: set[ReaderConnection] = set()
        self.numbers = itertools.count(1)
        self._server: asyncio.AbstractServer | None = None
        self._watching: asyncio.Task[None] | None = None
        self._alone = asyncio.Event()
        self._alone.set()

    async def start(self, path: Path) -> None:
        """Listen on the socket ``path``, whose folder only this user may enter."""
        loop = asyncio.get_running_loop()
        path.unlink(missing_ok=True)  # noqa: ASYNC240 (once, before anything is served)
        self._server = await loop.create_unix_server(lambda: ReaderConnection(self), str(path))
        self.node.when_started(self._tell_state)
        self._watching = self.loop.create_task(self._watch())

    def take(self, call: Framed) -> ReaderConnection:
        """Go on with a reader that is on the line."""
        return ReaderConnection(self).take_over(call)

    def state(self) -> State:
        """What readers must know to serve."""
        node = self.node
        asked = node.started and not node.alone and not node.following.trouble
        return State(node.started, node.readable, node.log.identity if asked else "", node.repeats)

    async def _watch(self) -> None:
        """Tell the readers what has become of the log."""
        told = self.state()
        while not self.node.alone:
            if self.state() != told:
                told = self.state()
                self._tell_state()
            await asyncio.sleep(WATCH_EVERY_S)

    def _tell_state(self) -> None:
        for reader in self.readers:
            reader.tell_state()

    def joined(self, reader: ReaderConnection) -> None:
        """A reader has connected."""
        self.readers.add(reader)
        self._alone.clear()

    def left(self, reader: ReaderConnection) -> None:
        """A reader has gone."""
        self.readers.discard(reader)
        self.node.reader_ended(reader.number)
        if not self.readers:
            self._alone.set()

    async def drained(self, timeout_s: float) -> None:
        """Wait until no reader is left, which is how they say that they have finished."""
        try:
            await asyncio.wait_for(self._alone.wait(), timeout_s)
        except TimeoutError:
            _log.warning("%d readers did not finish in time", len(self.readers))

    def stop(self) -> None:
        """Listen no more and hang up."""
        if self._watching is not None:
            self._watching.cancel()
        if self._server is not None:
            self._server.close()
        for reader in list(self.readers):
            reader.transport.close()


class ReaderConnection(Framed):
    """One reader on the line."""

    def __init__(self, endpoint: IpcServer) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._node = endpoint.node
        self._replies: list[Decided] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = State(started=False)
        self.number = next(endpoint.numbers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say at once how things stand."""
        super().connection_made(transport)
        self._endpoint.joined(self)
        self.tell_state()

    def connection_lost(self, exc: Exception | None) -> None:
        """The reader has ended; what it asked for is still decided."""
        self._endpoint.left(self)

    def tell_state(self) -> None:
        """Tell what a reader must know to serve."""
        self._told = self._endpoint.state()
        self.tell(self._told)

    def heard(self, message: bytes) -> None:
        """Do what the reader asks."""
        match decode_from_reader(message):
            case Submit(number, request, forwarded, in_doubt):
                endpoint = self._endpoint
                deadline, reply = endpoint.loop.time() + request.remaining_s, partial(self._decided, number)
                endpoint.submit(PendingCommand(request, deadline, reply, forwarded, in_doubt))
            case Confirm(number, offset):
                self._begin(self._confirm(number, offset))
            case AskStatus(number):
                status = self._endpoint.status()
                self._tell_started()
                self.tell(Status(number, status))
            case Report(tally, number):
                self._node.processes.report(self.number, tally)
                if number:
                    self.tell(Metrics(number, self._endpoint.metrics()))
            case AskSnapshots(number):
                if not self._node.snapshots.tell(lambda listed: self._listed(number, listed)):
                    self._listed(number, TOO_MANY_WRITES())
            case DeleteSnapshot(number, id):
                if not self._node.snapshots.delete(id, lambda left: self._deleted(number, left)):
                    self._deleted(number, TOO_MANY_WRITES())
            case Hello(pid):
                _log.debug("reader %d is on the line", pid)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._endpoint.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _confirm(self, number: int, offset: int) -> None:
        timeout_s = self._endpoint.confirm_timeout_s
        if offset >= 0:
            fresh = await self._node.reach_async(offset, timeout_s)
        else:
            fresh = await self._node.confirm(timeout_s)
        if fresh:
            self._tell_started()
            fresh = self._told.started
        self.tell(Confirmed(number, fresh))

    def _tell_started(self) -> None:
        """Tell that the node has started before anything that follows from it.

        The rows are another store's by now, perhaps, which readers take up when they are told.
        """
        if self._node.started and not self._told.started:
            self.tell_state()

    def _listed(self, number: int, listed: Listed) -> None:
        if isinstance(listed, RegistryError):
            self.tell(Snapshots(number, [], refused(listed)))
        else:
            self.tell(Snapshots(number, listed))

    def _deleted(self, number: int, left: Deleted) -> None:
        self._listed(number, left if isinstance(left, RegistryError) else [] if left is None else [left])

    def _decided(self, number: int, outcome: Outcome) -> None:
        # The answers of one batch come one after another: they go out together.
        self._replies.append(Decided(number, outcome))
        if len(self._replies) == 1:
            self._endpoint.loop.call_soon(self._send_replies)

    def _send_replies(self) -> None:
        replies, self._replies = self._replies, []
        self.tell(*replies)
