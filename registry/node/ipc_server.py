"""Server for the readers of a node, on a unix socket."""

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
    """Accepts connections of readers and answers their requests."""

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
        """Listen on the unix socket ``path``; its directory must be accessible to this user only."""
        loop = asyncio.get_running_loop()
        path.unlink(missing_ok=True)  # noqa: ASYNC240 (once, before anything is served)
        self._server = await loop.create_unix_server(lambda: ReaderConnection(self), str(path))
        self.node.when_started(self._tell_state)
        self._watching = self.loop.create_task(self._watch())

    def take(self, call: Framed) -> ReaderConnection:
        """Take over the connection of a reader that is already connected."""
        return ReaderConnection(self).take_over(call)

    def state(self) -> State:
        """Return the state that readers need to serve requests."""
        node = self.node
        asked = node.started and not node.alone and not node.following.trouble
        return State(node.started, node.readable, node.log.identity if asked else "", node.repeats)

    async def _watch(self) -> None:
        """Send the state to all readers when it changes, for instance because the log is unavailable."""
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
        """Register a reader that has connected."""
        self.readers.add(reader)
        self._alone.clear()

    def left(self, reader: ReaderConnection) -> None:
        """Remove a reader that has disconnected, and release its resources."""
        self.readers.discard(reader)
        self.node.reader_ended(reader.number)
        if not self.readers:
            self._alone.set()

    async def drained(self, timeout_s: float) -> None:
        """Wait until all readers have disconnected, which they do when they have finished."""
        try:
            await asyncio.wait_for(self._alone.wait(), timeout_s)
        except TimeoutError:
            _log.warning("%d readers did not finish in time", len(self.readers))

    def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._watching is not None:
            self._watching.cancel()
        if self._server is not None:
            self._server.close()
        for reader in list(self.readers):
            reader.transport.close()


class ReaderConnection(Framed):
    """Connection of one reader."""

    def __init__(self, endpoint: IpcServer) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._node = endpoint.node
        self._replies: list[Decided] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = State(started=False)
        self.number = next(endpoint.numbers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the reader and send it the current state."""
        super().connection_made(transport)
        self._endpoint.joined(self)
        self.tell_state()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the reader; commands that it submitted are still decided."""
        self._endpoint.left(self)

    def tell_state(self) -> None:
        """Send the state that the reader needs to serve requests."""
        self._told = self._endpoint.state()
        self.tell(self._told)

    def heard(self, message: bytes) -> None:
        """Handle a message from the reader."""
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
        """Send the reader the state if the node has started and the reader does not know it yet.

        The rows may be in a new store by now; a reader opens it when it receives the state, so the state must
        arrive before any answer that depends on those rows.
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
        # The replies of a batch arrive one after another; send them together.
        self._replies.append(Decided(number, outcome))
        if len(self._replies) == 1:
            self._endpoint.loop.call_soon(self._send_replies)

    def _send_replies(self) -> None:
        replies, self._replies = self._replies, []
        self.tell(*replies)
