"""A reader of a simulated host: the product's backend and its query for the log's end.

The store that it shares with its node, and the socket to the node, are modeled here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from registry.domain.log_format.lineage import Lineage, Mismatch
from registry.ipc.messages import State
from registry.log.kafka.connection import Connections
from registry.reader.backend import ReaderBackend
from registry.reader.log_end_client import LogEndClient

from .brokers import SERVERS, TOPIC, Brokers
from .connections import Network
from .event_loop import SimulatedLoopHost
from .memory_store import MemoryView
from .world import Process, World

if TYPE_CHECKING:
    from registry.log.kafka.broker_connection import Login
    from registry.reader.node_client import NodeClient
    from registry.store.reader import StoreReader

    from .cluster import Node

CONFIRM_S = 5.0


class _SharedView:
    """A view as readers open it."""

    def __init__(self, rows: MemoryView, mismatch: Mismatch | None) -> None:
        self._rows, self._mismatch = rows, mismatch

    def applied(self) -> int:
        return self._rows.applied()

    def standing(self) -> tuple[int, Mismatch | None]:
        return self._rows.applied(), self._mismatch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: no rows are held."""


class _SharedStore:
    """The node's store, as readers see it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def view(self) -> _SharedView:
        return _SharedView(self._node.store.view(), self._node.store.mismatch)

    def refresh(self) -> bool:
        return True

    def lineage(self) -> Lineage:
        return self._node.store.lineage


class _NodePort:
    """The socket to the node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def confirm(self, offset: int = -1) -> bool:
        """Return the answer of the node's barrier; false without one."""
        loop = asyncio.get_running_loop()
        life = self._node.running
        if life is None or not life.started:
            return False
        answered: asyncio.Future[bool] = loop.create_future()

        def reply(fresh: bool) -> None:
            loop.call_soon_threadsafe(lambda: answered.done() or answered.set_result(fresh))

        life.begin_confirm(offset, reply)
        try:
            async with asyncio.timeout(CONFIRM_S):
                return await answered
        except TimeoutError:
            return False


class Reader:
    """A reader process of one host. It outlives its node, but not the store."""

    def __init__(self, world: World, brokers: Brokers, node: Node) -> None:
        self._world = world
        self._brokers = brokers
        self._node = node
        self._process = Process(f"{node.name}-reader")
        self._host = SimulatedLoopHost(world, self._process)
        self._backend: ReaderBackend | None = None

    def on_state(self, identity: str, mismatch: Mismatch | None) -> None:
        """Take the state that a node reports: the identity of its log, "" if that is not its store's."""

        def open_backend() -> None:
            self._backend = self._backend or self._open()
            self._backend.on_state(State(started=True, log=identity, mismatch=mismatch))

        self._host.loop.call_soon_threadsafe(open_backend)

    def _open(self) -> ReaderBackend:
        network = Network(self._world, self._brokers, self._node.line, self._process)
        store = _SharedStore(self._node)
        backend = ReaderBackend(cast("StoreReader", store), cluster=True)
        backend.node = cast("NodeClient", _NodePort(self._node))
        backend.log_end = LogEndClient(
            Connections(cast("Login", network)),
            SERVERS,
            TOPIC,
            applied=store.lineage,
            clock=lambda: self._world.now,
        )
        return backend

    def confirm(self, reply: Callable[[bool], Any]) -> None:
        """Call ``reply`` with true once the rows are as new as the log was at this call."""

        async def confirm() -> None:
            reply(self._backend is not None and await self._backend.confirm())

        self._host.loop.call_soon_threadsafe(lambda: self._host.loop.create_task(confirm()))

    def end(self) -> None:
        """Kill the process."""
        self._world.kill(self._process)
