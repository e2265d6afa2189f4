"""The API's backend inside the node's own process, for hosts without readers."""

from __future__ import annotations

import asyncio

from registry.api.status import NodeStatus
from registry.domain.commands import Command, Outcome
from registry.store.view import StoreView

from .messages import FULL, NOT_STARTED
from .node import Node


class NodeBackend:
    """See :class:`registry.api.backend.Backend`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.log = node.log.identity
        """The identity of the log whose rows are served."""

    def view(self) -> StoreView:
        """The committed rows; refused until the log was read once."""
        if not self._node.started:
            raise NOT_STARTED()
        return self._node.store.view()

    async def submit(self, command: Command) -> Outcome:
        """Decided by the node's writer."""
        if not self._node.started:
            raise NOT_STARTED()
        loop = asyncio.get_running_loop()
        decided: asyncio.Future[Outcome] = loop.create_future()

        def answer(outcome: Outcome) -> None:
            if not decided.done():
                decided.set_result(outcome)

        if not self._node.submit(command, answer):
            raise FULL()
        return await decided

    async def confirm(self) -> None:
        """Nothing to wait for: the node answers a write only after the rows hold it."""

    def applied(self) -> int:
        """The applied offset."""
        return self._node.store.applied

    async def status(self) -> NodeStatus:
        """The node's state."""
        return self._node.status()
