"""The API's backend in a reader: rows from the shared store, writes to the node."""

from __future__ import annotations

import asyncio

from registry.api.status import NodeStatus
from registry.domain.commands import Command, Outcome
from registry.domain.errors import RegistryError
from registry.node.messages import NOT_STARTED, State
from registry.store.layout import StoreError
from registry.store.reader import StoreReader
from registry.store.view import StoreView

from .link import Link


class ReaderBackend:
    """See :class:`registry.api.backend.Backend`.

    The store is opened, and another one than before is taken up, only when the node says that it holds the
    log: until then the rows of before are served, or none. So a node that is away or builds a new store costs
    no reads.
    """

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._serving = False
        self._applied = 0
        self.told = asyncio.Event()
        """Set once the node has told its state for the first time."""
        self.link: Link

    def changed(self, state: State) -> None:
        """The node has told its state."""
        if state.started:
            self._serving = self._store.refresh()
        self.told.set()

    def view(self) -> StoreView:
        """The committed rows; 503 until there are any."""
        if not self._serving:
            raise NOT_STARTED()
        return self._store.view()

    async def submit(self, command: Command) -> Outcome:
        """Decided by the node; the rows then hold the effect, because they are the node's own."""
        return await self.link.submit(command)

    async def confirm(self) -> None:
        """Nothing to wait for: a write is answered after the rows, which all processes share, hold it."""

    def applied(self) -> int:
        """The applied offset."""
        if self._serving:
            try:
                with self._store.view() as view:
                    self._applied = view.applied()
            except StoreError:
                pass
        return self._applied

    async def status(self) -> NodeStatus:
        """The node's state; not ready, with the reason, when it does not answer."""
        try:
            return await self.link.status()
        except RegistryError:
            return NodeStatus(
                role="following", epoch=-1, applied=self.applied(), end=self.applied(), digest="",
                started=self._serving, ready=False, reasons=["the node does not answer"],
            )  # fmt: skip
