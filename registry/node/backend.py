"""Backend of the API in the node's own process, for hosts without readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from registry.api.backend import ClusterStatus, NodeStatus
from registry.domain.commands import Command, Outcome
from registry.domain.errors import NOT_STARTED, TOO_MANY_WRITES, UNAVAILABLE, RegistryError
from registry.domain.history.moment import Moment, OwnerRows, plain_owners
from registry.domain.log_format.lineage import Mismatch
from registry.domain.pending_command import NO_ORIGIN, CommandRequest, Origin, PendingCommand, Submit
from registry.feed.contract import Page
from registry.forwarding.node_port import outcome_of
from registry.store.views import AppliedView, served
from snapshots.catalogue.catalogue import Entry

from .cluster_status import ClusterView
from .node import Node
from .status import status

CATALOGUE_S = 15.0  # Seconds for operations on the snapshot catalogue.
_T = TypeVar("_T")


class NodeBackend:
    """Implementation of :class:`registry.api.backend.Backend` on top of the node."""

    def __init__(
        self,
        node: Node,
        submit: Submit,
        cluster: ClusterView,
        *,
        timeout_s: float,
        confirm_timeout_s: float,
    ) -> None:
        """Create the backend.

        ``timeout_s`` limits a write, ``confirm_timeout_s`` the confirmation of a read; both in seconds.
        """
        self._node = node
        self._submit = submit
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._confirm_timeout_s = confirm_timeout_s
        self._loop = asyncio.get_running_loop()
        # The identity of the log whose rows are served.
        self.log = node.log.identity

    def view(self) -> AppliedView:
        """Return a view of the committed rows. Raises ``NOT_STARTED`` until they may be read."""
        if not (self._node.started or self._node.readable):
            raise NOT_STARTED()
        return served(self._node.store.view(), self.mismatch, self._node.cipher)

    @property
    def mismatch(self) -> Mismatch | None:
        """The finding that the log is not the one of the rows; ``None``: it is."""
        return self._node.store.mismatch

    async def submit(self, command: Command, origin: Origin = NO_ORIGIN) -> Outcome:
        """Submit a command and return its outcome."""
        request = CommandRequest(
            command, self._timeout_s, origin.request_id, principal=origin.principal, trace=origin.trace,
            checked=origin.checked, kind=origin.kind,
        )  # fmt: skip
        deadline = self._loop.time() + self._timeout_s
        return await outcome_of(self._submit, PendingCommand(request, deadline, forwarded=origin.forwarded))

    async def confirm(self) -> bool:
        """Wait until the rows are as new as the log was at the call; return false on a timeout."""
        return await self._node.confirm(self._confirm_timeout_s)

    def applied(self) -> int:
        """Return the applied offset."""
        return self._node.store.applied

    async def status(self) -> NodeStatus:
        """Return the node's status."""
        return status(self._node)

    async def cluster(self) -> ClusterStatus:
        """Return the cluster as the node knows it."""
        return self._cluster.status()

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        """Return the rows of owners at a moment in the past, with sensitive metadata decrypted."""
        reply: asyncio.Future[OwnerRows | RegistryError] = self._loop.create_future()
        answer = lambda told: None if reply.done() else reply.set_result(told)  # noqa: E731
        self._node.past.ask(moment, owners, answer, asker)
        told = await reply
        if isinstance(told, RegistryError):
            raise told
        return plain_owners(told, self._node.cipher)

    async def snapshots(self) -> list[Entry]:
        """Return all entries of the snapshot catalogue, newest first."""
        return await self._reply_to(self._node.snapshots.list_entries)

    async def events(self, position: int, wait_s: float) -> Page:
        """Return a page of the change feed."""
        return await self._node.feed.events(position, wait_s)

    async def delete_snapshot(self, id: str) -> Entry | None:
        """Delete a snapshot; return its entry if its files cannot be deleted yet, otherwise ``None``."""
        return await self._reply_to(lambda answer: self._node.snapshots.delete(id, answer))

    async def _reply_to(self, ask: Callable[[Callable[[_T | RegistryError], None]], bool]) -> _T:
        reply: asyncio.Future[_T | RegistryError] = self._loop.create_future()
        if not ask(lambda answer: None if reply.done() else reply.set_result(answer)):
            raise TOO_MANY_WRITES()
        try:
            async with asyncio.timeout(CATALOGUE_S):
                answer = await reply
        except TimeoutError:
            raise UNAVAILABLE("The snapshot catalogue does not answer") from None
        if isinstance(answer, RegistryError):
            raise answer
        return answer
