"""The node's service for its readers: decides their commands and answers their queries."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from registry.api.asks import Askers, AskersOf, Asks
from registry.api.backend import ClusterStatus, NodeQuery, NodeStatus
from registry.api.node_queries import (
    ADD_ASKS,
    ASKERS,
    AUDIT,
    CLUSTER,
    DELETE_SNAPSHOT,
    EVENTS,
    METRICS,
    PAST,
    SNAPSHOTS,
    STATUS,
    EventsFrom,
    OwnersAt,
)
from registry.audit.tail import AuditEntries, AuditQuery
from registry.base.observe.metrics import Sample
from registry.domain.commands import Outcome, refusal
from registry.domain.errors import TOO_MANY_WRITES, UNEXPECTED, RegistryError
from registry.domain.history.moment import OwnerRows
from registry.domain.pending_command import PendingCommand
from registry.domain.pending_command import Submit as SubmitCommand
from registry.feed.contract import Page
from registry.ipc.messages import (
    NO_ANSWER,
    Confirm,
    Confirmed,
    Decided,
    FromReader,
    Hello,
    Query,
    Reply,
    Report,
    State,
    Submit,
    encode,
)
from snapshots.catalogue.catalogue import Entry

from .ipc_server import ReaderConnection
from .metrics import samples_of_processes
from .node import Node

T = TypeVar("T")


class Answering(NamedTuple):
    """The parts of the node's process that answer queries."""

    node: Node
    status: Callable[[], NodeStatus]
    cluster: Callable[[], ClusterStatus]
    metrics: Callable[[Iterable[Sample]], bytes]


# Returns the answer; raises :class:`RegistryError` for one that there is not.
Handler = Callable[[Answering, Any], Awaitable[Any]]


async def _status(parts: Answering, _: None) -> NodeStatus:
    return parts.status()


async def _cluster(parts: Answering, _: None) -> ClusterStatus:
    return parts.cluster()


async def _metrics(parts: Answering, _: None) -> bytes:
    await parts.node.maintenance.inventory.recount()
    # The library's files, and those of /proc, may keep a thread waiting for a slow disk or a busy process.
    return parts.metrics(await asyncio.to_thread(samples_of_processes))


async def _past(parts: Answering, request: OwnersAt) -> OwnerRows:
    def ask(answer: Callable[[OwnerRows | RegistryError], None]) -> bool:
        parts.node.past.ask(request.moment, request.owners, answer, request.asker)
        return True

    return await _reply_to(ask)


async def _snapshots(parts: Answering, _: None) -> list[Entry]:
    return await _reply_to(parts.node.snapshots.list_entries)


async def _delete_snapshot(parts: Answering, id: str) -> list[Entry]:
    left: Entry | None = await _reply_to(lambda answer: parts.node.snapshots.delete(id, answer))
    return [] if left is None else [left]


async def _events(parts: Answering, request: EventsFrom) -> Page:
    return await parts.node.feed.events(request.position, request.wait_s)


async def _add_asks(parts: Answering, asks: Asks) -> None:
    await parts.node.asks.add(asks)


async def _askers(parts: Answering, request: AskersOf) -> Askers:
    return await parts.node.asks.askers(request)


async def _audit(parts: Answering, query: AuditQuery) -> AuditEntries:
    return await parts.node.audit.entries(query)


async def _reply_to(ask: Callable[[Callable[[T | RegistryError], None]], bool]) -> T:
    """Return what a part answers on the event loop; ``ask`` returns false if it has too much to do."""
    reply: asyncio.Future[T | RegistryError] = asyncio.get_running_loop().create_future()
    if not ask(lambda answer: None if reply.done() else reply.set_result(answer)):
        raise TOO_MANY_WRITES()
    answer = await reply
    if isinstance(answer, RegistryError):
        raise answer
    return answer


_TABLE: tuple[tuple[NodeQuery[Any, Any], Handler], ...] = (
    (STATUS, _status), (CLUSTER, _cluster), (METRICS, _metrics), (PAST, _past), (SNAPSHOTS, _snapshots),
    (DELETE_SNAPSHOT, _delete_snapshot), (EVENTS, _events), (ADD_ASKS, _add_asks), (ASKERS, _askers),
    (AUDIT, _audit),
)  # fmt: skip
# By the numbers of the queries.
HANDLERS = {query.number: (query, handler) for query, handler in _TABLE}


WATCH_EVERY_S = 0.25
_log = logging.getLogger(__name__)


class NodeService:
    """Service for all readers of the node."""

    def __init__(
        self,
        node: Node,
        submit: SubmitCommand,
        *,
        status: Callable[[], NodeStatus],
        cluster: Callable[[], ClusterStatus],
        metrics: Callable[[Iterable[Sample]], bytes],
        confirm_timeout_s: float,
    ) -> None:
        self.node = node
        self.submit = submit
        self.answering = Answering(node, status, cluster, metrics)
        self.confirm_timeout_s = confirm_timeout_s
        self.loop = asyncio.get_running_loop()
        self.sessions: set[NodeSession] = set()
        self._numbers = itertools.count(1)
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to report changes of the state to readers."""
        self.node.when_started(self._send_state)
        self._watching = self.loop.create_task(self._watch())

    def stop(self) -> None:
        """Stop reporting changes of the state."""
        if self._watching is not None:
            self._watching.cancel()

    def open_session(self, connection: ReaderConnection) -> NodeSession:
        """Begin to serve a reader and send it the current state."""
        session = NodeSession(self, connection, next(self._numbers))
        self.sessions.add(session)
        session.send_state()
        return session

    def release(self, session: NodeSession) -> None:
        """Release the resources of a reader that has disconnected."""
        self.sessions.discard(session)
        self.node.reader_ended(session.number)

    def state(self) -> State:
        """Return the state that readers need to serve requests."""
        node = self.node
        asked = node.is_started and not node.standalone and not node.following.last_error
        # While another store is built, readers serve the former one; they cannot confirm anything then.
        readable = node.readable or (not node.standalone and node.store.former_served)
        return State(
            node.is_started, readable, node.log.identity if asked else "", node.repeats,
            mismatch=node.store.mismatch,
        )  # fmt: skip

    async def _watch(self) -> None:
        """Send each reader the state when it changes, for instance because the log is unavailable."""
        while not self.node.standalone:
            state = self.state()
            for session in self.sessions:
                if session.sent != state:
                    session.send_state()
            await asyncio.sleep(WATCH_EVERY_S)

    def _send_state(self) -> None:
        for session in self.sessions:
            session.send_state()


class NodeSession:
    """The node's side of the connection of one reader."""

    def __init__(self, service: NodeService, connection: ReaderConnection, number: int) -> None:
        self.number = number
        self._service = service
        self._connection = connection
        self._node = service.node
        self._replies: list[Decided] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # The state that the reader knows.
        self.sent = State(started=False)

    def close(self) -> tuple[Submit, ...]:
        """Remove the reader; commands that it submitted are still decided."""
        self._service.release(self)
        return ()

    def send_state(self) -> None:
        """Send the state that the reader needs to serve requests."""
        self.sent = self._service.state()
        self._connection.send(self.sent)

    def on_message(self, message: FromReader) -> None:
        """Handle a message from the reader."""
        match message:
            case Submit(number, request, forwarded, in_doubt):
                deadline = self._service.loop.time() + request.remaining_s
                reply = partial(self._send_outcome, number)
                self._service.submit(PendingCommand(request, deadline, reply, forwarded, in_doubt))
            case Confirm(number, offset):
                self._begin(self._confirm(number, offset))
            case Query(number, query, request):
                self._begin(self._answer(number, query, bytes(request)))
            case Report(tally):
                self._node.processes.report(self.number, tally)
            case Hello(pid):
                _log.debug("reader %d has connected", pid)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._service.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _confirm(self, number: int, offset: int) -> None:
        timeout_s = self._service.confirm_timeout_s
        if offset >= 0:
            fresh = await self._node.confirm_at(offset, timeout_s)
        else:
            fresh = await self._node.confirm(timeout_s)
        if fresh:
            self._send_started()
            fresh = self.sent.started
        self._connection.send(Confirmed(number, fresh))

    async def _answer(self, number: int, query: int, request: bytes) -> None:
        row, handler = HANDLERS[query]
        try:
            answer = msgspec.Raw(encode(await handler(self._service.answering, row.decode_request(request))))
            reply = Reply(number, answer)
        except RegistryError as error:
            reply = Reply(number, NO_ANSWER, refusal(error))
        except Exception:
            # Without an answer, the reader would wait until its time is over.
            _log.exception("the query %d of a reader failed", query)
            reply = Reply(number, NO_ANSWER, refusal(UNEXPECTED()))
        self._send_started()
        self._connection.send(reply)

    def _send_started(self) -> None:
        """Send the reader the state if the node has started and the reader does not know it yet.

        The rows may be in a new store by now; a reader opens it when it receives the state, so the state must
        arrive before any answer that depends on those rows.
        """
        if self._node.is_started and not self.sent.started:
            self.send_state()

    def _send_outcome(self, number: int, outcome: Outcome) -> None:
        # The replies of a batch arrive one after another; send them together.
        self._replies.append(Decided(number, outcome))
        if len(self._replies) == 1:
            self._service.loop.call_soon(self._send_replies)

    def _send_replies(self) -> None:
        replies, self._replies = self._replies, []
        self._connection.send(*replies)
