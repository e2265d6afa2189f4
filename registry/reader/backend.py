"""The API's backend in a reader: rows from the shared store, confirmed and written through the node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn

from registry.api.backend import A, NodeQuery, NodeStatus, R
from registry.api.node_queries import EVENTS, PAST, STATUS, EventsFrom, OwnersAt
from registry.domain.commands import Outcome, Submitted
from registry.domain.errors import NOT_OF_THE_LOG, NOT_STARTED, UNAVAILABLE, RegistryError
from registry.domain.history.moment import Moment, OwnerRows, plain_owners
from registry.domain.log_format.lineage import Mismatch
from registry.domain.pending_command import NO_ORIGIN, Origin
from registry.domain.queries.sensitive_metadata import Cipher
from registry.feed.contract import Page
from registry.ipc.messages import State
from registry.store.layout import StoreError, StoreMissing
from registry.store.reader import StoreReader
from registry.store.views import AppliedView, StoreView, client_view

from .node_client import NodeClient

if TYPE_CHECKING:
    from .log_end_client import LogEndClient


# How long a query may be in flight before another one is started in parallel. A request that arrives while a
# query is in flight needs the answer to a later one; but if answers are slow, because the log cannot be
# reached, no request should have to wait for two.
JOIN_S = 0.02

OnReply = Callable[[bool], None]


class ReadBarrier:
    """Groups requests that need up-to-date rows; ``ask`` queries the node and does not raise.

    Used on one event loop.
    """

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._waiting: list[OnReply] = []
        self._in_flight = 0
        self._queries: set[asyncio.Task[None]] = set()

    def then(self, on_reply: OnReply) -> None:
        """Call ``on_reply`` later: with true if the store holds all that the log held at this call."""
        self._waiting.append(on_reply)
        if len(self._waiting) > 1:
            return
        if self._in_flight:
            self._loop.call_later(JOIN_S, self._begin)
        else:
            # Not at once, so that requests that have arrived at the same time share the query.
            self._loop.call_soon(self._begin)

    async def wait_confirmed(self) -> bool:
        """Wait for the same reply."""
        answer: asyncio.Future[bool] = self._loop.create_future()

        def on_reply(fresh: bool) -> None:
            if not answer.done():
                answer.set_result(fresh)

        self.then(on_reply)
        return await answer

    def _begin(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._in_flight += 1
            query = self._loop.create_task(self._query(waiting))
            self._queries.add(query)
            query.add_done_callback(self._queries.discard)

    async def _query(self, waiting: list[OnReply]) -> None:
        fresh = False
        try:
            fresh = await self._ask()
        finally:
            self._in_flight -= 1
            self._begin()
            for on_reply in waiting:
                on_reply(fresh)


def _reopening() -> RegistryError:
    return UNAVAILABLE("The store is being reopened; try again soon")


_NO_NODE = "the node does not answer; if it has just started, its log lines say what it is waiting for"


class ReaderBackend:
    """The reader's :class:`registry.api.backend.Backend`.

    The store is opened, or replaced by a new one, only when the node reports that it may be read: before it
    is not known whose rows they are. From then on reads continue while a node is down or builds a new store.
    """

    def __init__(self, store: StoreReader, *, cluster: bool, cipher: Cipher | None = None) -> None:
        """``cluster``: other nodes write to the log too, so that the store may be behind it.

        ``cipher``: decrypts sensitive metadata.
        """
        self._store = store
        self._cipher = cipher
        self._cluster = cluster
        self._serving = False
        self._applied = 0
        # As the node has reported it: it may be unable to write it into the store.
        self._reported: Mismatch | None = None
        # Of the newest view, see Backend.mismatch.
        self.mismatch: Mismatch | None = None
        # Set once the node has reported that its rows may be read, or that this will take a while.
        self.node_known = asyncio.Event()
        self.node: NodeClient
        # In a cluster, asked before the node.
        self.log_end: LogEndClient | None = None
        self.barrier = ReadBarrier(self._is_fresh)

    def on_state(self, state: State) -> None:
        """Handle a state that the node has reported."""
        if state.started or state.readable:
            self._serving = self._store.refresh()
            self._reported = state.mismatch
            self.applied()  # seen() is then no older than the node's memory of commands
        elif state.opening and state.examined:
            self._without_node()
        if self.log_end is not None:
            self.log_end.set_identity(state.log)
        if state.started or state.readable or state.opening:
            self.node_known.set()

    def _without_node(self) -> None:
        """Serve the rows as they are until there is a node: in a cluster it may load a snapshot for long."""
        if self._cluster and not self._serving:
            self._serving = self._store.refresh() and self._store.is_complete()

    def view(self) -> AppliedView:
        """Return the committed rows; raise 503 until there are any that may be served."""
        if not self._serving:
            raise NOT_STARTED()
        try:
            view = self._store.view()
        except StoreMissing as error:
            raise _reopening() from error
        return self._view_for_clients(view)

    def undoubted_view(self) -> AppliedView:
        """Return the committed rows; raise 503 also if the log has turned out to be another one."""
        view = self.view()
        if self.mismatch is not None:
            self._refuse_doubt(view, self.mismatch)
        return view

    def newer_view(self, moment: int | None) -> AppliedView | None:
        """Return an undoubted view, or ``None`` if the rows are still those of ``moment``.

        That is the moment of such a view before, whose rows clients may see as they are.
        """
        if not self._serving:
            raise NOT_STARTED()
        if self._reported is not None or self.mismatch is not None:
            moment = None
        try:
            view = self._store.view_unless(moment)
        except StoreMissing as error:
            raise _reopening() from error
        if view is None:
            return None
        shown = self._view_for_clients(view)
        if self.mismatch is not None:
            self._refuse_doubt(shown, self.mismatch)
        return shown

    def _view_for_clients(self, view: StoreView) -> AppliedView:
        """Return a view as clients may see it; raise 503, and end it, if nothing of it may be served."""
        self._applied, mismatch = view.standing()
        self.mismatch = mismatch = mismatch or self._reported
        if mismatch is None and self._cipher is None:
            return view
        return client_view(view, mismatch, self._cipher)

    def _refuse_doubt(self, view: AppliedView, mismatch: Mismatch) -> NoReturn:
        view.__exit__(None, None, None)
        raise NOT_OF_THE_LOG(mismatch.reason)

    async def submit(self, command: Submitted, origin: Origin = NO_ORIGIN) -> Outcome:
        """Have the primary decide; the rows show the effect afterwards, because the node shares its store."""
        return await self.node.submit(command, origin)

    async def confirm(self) -> bool:
        """Return true if the rows are as new as the log.

        Without a cluster they always are: a write is answered after it is in the store, which all processes
        share.
        """
        return await self.barrier.wait_confirmed() if self._cluster else True

    async def _is_fresh(self) -> bool:
        end = None if self.log_end is None else await self.log_end.ask()
        if end is None:
            return await self.node.confirm()
        applied = self.applied()
        if applied == end:
            return True
        # A log that ends before the rows do is not the store's log; the node has to handle that.
        return await self.node.confirm(end) if applied < end else await self.node.confirm()

    async def ask(self, query: NodeQuery[R, A], request: R) -> A:
        """Return the node's answer to a query."""
        return await self.node.ask(query, request)

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        """Return the answer of the node, with sensitive metadata decrypted."""
        return plain_owners(await self.ask(PAST, OwnersAt(moment, owners, asker)), self._cipher)

    async def events(self, position: int, wait_s: float) -> Page:
        """Return a page of the change feed from the node."""
        return await self.node.ask(EVENTS, EventsFrom(position, wait_s), wait_s)

    def applied(self) -> int:
        """Return the applied offset."""
        if self._serving:
            try:
                with self._store.view() as view:
                    self._applied = view.applied()
            except StoreError:
                pass
        return self._applied

    def newest_offset(self) -> int:
        """Return the applied offset of the newest view: what the log has reached at least."""
        return self._applied

    async def status(self) -> NodeStatus:
        """Return the node's state; if it does not answer, not ready, with the reason."""
        try:
            return await self.node.ask(STATUS, None)
        except RegistryError:
            return NodeStatus(
                role="following", epoch=-1, applied=self.applied(), end=self.applied(), digest="",
                started=self._serving, ready=False, reasons=[_NO_NODE], reasons_for_writes=[_NO_NODE],
            )  # fmt: skip
