"""The API's backend in a reader: rows from the shared store, writes to the node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from registry.api.status import NodeStatus
from registry.domain.commands import Command, Outcome
from registry.domain.errors import NOT_STARTED, UNAVAILABLE, RegistryError
from registry.domain.queries.sensitive_metadata import Cipher
from registry.ipc.messages import State
from registry.store.layout import StoreError, StoreMissing
from registry.store.reader import StoreReader
from registry.store.views import AppliedView, decrypted
from snapshots.catalogue.catalogue import Entry

from .node_client import Link
from .read_barrier import Confirming

if TYPE_CHECKING:
    from .log_end_client import LogEnd

_NO_NODE = "the node does not answer; if it has started just now, its log lines say what it waits for"


class ReaderBackend:
    """See :class:`registry.api.backend.Backend`.

    The store is opened, and another one than before is taken up, only when the node says that it may be read:
    until then the rows of before are served, or none. So a node that is away or builds a new store costs no
    reads.
    """

    def __init__(self, store: StoreReader, *, cluster: bool, cipher: Cipher | None = None) -> None:
        """``cluster``: others write to the log too, so that the store is behind it at times.

        ``cipher``: decrypts sensitive metadata.
        """
        self._store = store
        self._cipher = cipher
        self._cluster = cluster
        self._serving = False
        self._applied = 0
        self.told = asyncio.Event()
        """Set once the node has told that its rows may be read, or that this will take a while."""
        self.link: Link
        self.log_end: LogEnd | None = None
        """Asked before the node, in a cluster."""
        self.confirming = Confirming(self._ask)

    def changed(self, state: State) -> None:
        """The node has told its state."""
        if state.started or state.readable:
            self._serving = self._store.refresh()
        elif state.opening:
            self.without_node()
        if self.log_end is not None:
            self.log_end.belongs(state.log)
        if state.started or state.readable or state.opening:
            self.told.set()

    def without_node(self) -> None:
        """There is no node: what is there is served, as it is, where a node may wait for its log for long."""
        if self._cluster and not self._serving:
            self._serving = self._store.refresh()

    def view(self) -> AppliedView:
        """The committed rows; 503 until there are any."""
        if not self._serving:
            raise NOT_STARTED()
        try:
            return decrypted(self._store.view(), self._cipher)
        except StoreMissing as error:
            raise UNAVAILABLE("The store is being opened again; try again soon") from error

    async def submit(self, command: Command, *, request_id: str = "", forwarded: bool = False) -> Outcome:
        """Decided by the primary; the rows then hold the effect, because they are the node's own."""
        return await self.link.submit(command, request_id=request_id, forwarded=forwarded)

    async def confirm(self) -> bool:
        """Ask the node, with all that wait, whether the rows are as new as the log.

        Alone, they always are: a write is answered after the rows, which all processes share, hold it.
        """
        return await self.confirming.confirmed() if self._cluster else True

    async def _ask(self) -> bool:
        end = None if self.log_end is None else await self.log_end.ask()
        if end is None:
            return await self.link.confirm()
        applied = self.applied()
        if applied == end:
            return True
        # A log that ends before the rows do is not theirs: that is for the node to find out.
        return await self.link.confirm(end) if applied < end else await self.link.confirm()

    async def snapshots(self) -> list[Entry]:
        """What the node's catalogue holds."""
        return await self.link.snapshots()

    async def delete_snapshot(self, id: str) -> Entry | None:
        """The node does it."""
        return await self.link.delete_snapshot(id)

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
                started=self._serving, ready=False, reasons=[_NO_NODE],
            )  # fmt: skip
