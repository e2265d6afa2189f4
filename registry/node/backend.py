"""The API's backend inside the node's own process, for hosts without readers."""

from __future__ import annotations

import asyncio

from registry.api.status import NodeStatus
from registry.domain.commands import Command, Outcome
from registry.domain.errors import NOT_STARTED
from registry.peers.host import Asked, Offer, decided
from registry.store.view import StoreView

from .node import Node


class NodeBackend:
    """See :class:`registry.api.backend.Backend`."""

    def __init__(self, node: Node, offer: Offer, *, timeout_s: float, confirm_timeout_s: float) -> None:
        """``timeout_s``: for a write."""
        self._node = node
        self._offer = offer
        self._timeout_s = timeout_s
        self._confirm_timeout_s = confirm_timeout_s
        self._loop = asyncio.get_running_loop()
        self.log = node.log.identity
        """The identity of the log whose rows are served."""

    def view(self) -> StoreView:
        """The committed rows; refused until they may be read."""
        if not (self._node.started or self._node.readable):
            raise NOT_STARTED()
        return self._node.store.view()

    async def submit(self, command: Command, *, request_id: str = "", forwarded: bool = False) -> Outcome:
        """Decided by the own writer, or by the primary's."""
        deadline = self._loop.time() + self._timeout_s
        return await decided(self._offer, Asked(command, deadline, request_id, forwarded))

    async def confirm(self) -> bool:
        """Ask the log; in time or not."""
        return await self._node.confirm(self._confirm_timeout_s)

    def applied(self) -> int:
        """The applied offset."""
        return self._node.store.applied

    async def status(self) -> NodeStatus:
        """The node's state."""
        return self._node.status()
