"""Life cycle of the node's process: opening, serving and stopping."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.audit.log import FileChanges, open_audit_log
from registry.base.config.settings import Settings
from registry.base.processes.child_process import REFUSED, Parent
from registry.base.processes.sockets import ListenError
from registry.host import stop_budget
from registry.host.tracing.contract import Tracing
from registry.host.wiring import hand_over, tracing
from registry.log.contract import LogError
from registry.security.watched_file import FileError, PoliciesFile
from registry.store.layout import StoreError

from .command_router import CommandRouter
from .ipc_server import QUICK_S, IpcServer, starting_server, unless_ended
from .metrics import metrics
from .node import Node
from .node_service import NodeService
from .startup.open import Opened, Opening
from .startup.progress import Stopped
from .status import ClusterView, status

if TYPE_CHECKING:
    from registry.forwarding.peers import Peers

_log = logging.getLogger(__name__)


async def run(parent: Parent, opening: Opening) -> int:
    """Run the node until the parent requests a stop or ends; return the exit code."""
    try:
        governance = Governance(parent.settings)
    except FileError as error:
        # Not a refusal, which would end the whole registry: the parent has checked the files at its start.
        _log.error("%s", error)
        await _abandon(opening, asyncio.wrap_future(opening.opened))
        return 1
    traced = tracing(parent.settings, "node")
    try:
        return await NodeProcess(parent, opening, governance, traced).run()
    finally:
        await governance.close()
        await hand_over(governance.audit, traced, stop_budget.NODE_SINKS_S)


class Governance:
    """The policies in force and the audit log, from when the process starts until it ends."""

    def __init__(self, settings: Settings) -> None:
        """Read and open the files, and watch them; must be called on the event loop.

        Raises :class:`FileError`.
        """
        self.policies = PoliciesFile(settings.policies)
        self.audit = open_audit_log(settings)
        watched = [self.policies.watch()]
        if self.audit is not None:
            watched.append(FileChanges(settings, self.audit).watch())
        self._watching = [asyncio.create_task(each) for each in watched]

    @property
    def audit_lost(self) -> int:
        """Number of audit entries of this process that could not be written."""
        return 0 if self.audit is None else self.audit.lost_count

    async def close(self) -> None:
        """Stop watching; the audit log is left to the caller."""
        for each in self._watching:
            each.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)


class NodeProcess:
    """Opens log and store, serves the node that has them, and ends when the parent wants it or it fails."""

    def __init__(self, parent: Parent, opening: Opening, governance: Governance, traced: Tracing) -> None:
        self._parent = parent
        self._settings = parent.settings
        self._opening = opening
        self._governance = governance
        self._traced = traced
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._failed = self._resigning = False
        self._restarts: dict[str, int] = {}
        self._server: NodeServer | None = None

    async def run(self) -> int:
        """Return the exit code."""
        self._parent.listen(self._stopping.set, self._on_message)
        try:
            self._server = server = await self._node_server(await self._until_open())
        except Stopped:
            await self._stopping.wait()
            return 0
        except (LogError, StoreError, ListenError) as error:
            return self._refuse(str(error))
        except FileError as error:
            # Not a refusal, which would end the whole registry: the files may be about to be replaced.
            _log.error("%s", error)
            return 1
        except OSError as error:
            place = error.filename or self._settings.data
            return self._refuse(f"{place} cannot be used: {error.strerror or error}")
        if self._resigning:
            server.resign()
        try:
            await server.start(self._parent.endpoint, lambda: self._parent.report(ready=True))
            self._parent.report(listening=True)
            await self._stopping.wait()
        finally:
            await server.stop()
        return 1 if self._failed else 0

    def _refuse(self, reason: str) -> int:
        self._parent.report(refused=reason)
        return REFUSED

    def _on_message(self, message: dict[str, Any]) -> None:
        self._restarts.update(message.get("restarts", {}))
        if message.get("resign"):
            self._resigning = True
            if self._server is None:
                self._opening.starting.stop()
            else:
                self._server.resign()

    def _fail(self, reason: str) -> None:
        """End the process, because a thread of the node has logged ``reason`` and ended."""
        self._failed = True
        self._loop.call_soon_threadsafe(self._stopping.set)

    async def _until_open(self) -> IpcServer:
        """Wait until log and store are open; return the server for readers.

        The server listens already if that has taken long. Raises the errors of opening them, and
        :class:`.progress.Stopped` if the process is stopped first.
        """
        starting = self._opening.starting
        ipc = starting_server(starting, self._settings.queue_bytes_max)
        opened = asyncio.wrap_future(self._opening.opened)
        stopped = self._loop.create_task(self._stopping.wait())
        long = asyncio.Event()
        starting.when_long = lambda: unless_ended(self._loop, long.set)
        if starting.long.is_set():
            long.set()
        waited = self._loop.create_task(long.wait())
        await asyncio.wait((opened, stopped, waited), timeout=QUICK_S, return_when=asyncio.FIRST_COMPLETED)
        waited.cancel()
        if not (opened.done() or stopped.done()):
            with suppress(OSError):  # What is wrong is reported when the node itself serves.
                await ipc.start(self._parent.endpoint)
            await asyncio.wait((opened, stopped), return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            await _abandon(self._opening, opened)
            raise Stopped
        stopped.cancel()
        await opened
        return ipc

    async def _node_server(self, ipc: IpcServer) -> NodeServer:
        """Return the node with its endpoints. Raises :class:`ListenError`, :class:`FileError`."""
        node = Node(
            self._settings,
            self._opening.opened.result(),
            failed=self._fail,
            cipher=self._opening.starting.cipher,
            policies=self._governance.policies.current,
            tracing=self._traced,
        )
        node.starting, node.restarts = self._opening.starting, self._restarts
        cluster = ClusterView(node)
        try:
            peers, peer = await self._serve_peers(node, cluster)
        except BaseException:
            await asyncio.to_thread(node.stop)
            raise
        router = CommandRouter(node, None if peers is None else peers.forwarding)
        service = NodeService(
            node, self._traced.trace_commands(router.submit),
            status=partial(status, node), cluster=cluster.status,
            metrics=lambda of_processes: metrics(node, self._governance.audit_lost, of_processes),
            confirm_timeout_s=self._settings.confirm_timeout_s,
        )  # fmt: skip
        return NodeServer(node, router, service, ipc, peers, peer)

    async def _serve_peers(self, node: Node, cluster: ClusterView) -> tuple[Peers | None, str]:
        """Serve the peer endpoint of a cluster's node; return its peers and its address."""
        if node.standalone:
            return None, ""
        from .peering import start_peer_endpoint  # noqa: PLC0415 (for clusters only)

        return await start_peer_endpoint(node, cluster, self._settings, self._traced)


class NodeServer:
    """A node and what serves it: the router of commands, the server for readers, and its peers."""

    def __init__(
        self,
        node: Node,
        router: CommandRouter,
        service: NodeService,
        ipc: IpcServer,
        peers: Peers | None,
        peer: str,
    ) -> None:
        """``peer`` is the ``HOST:PORT`` of the peer endpoint."""
        self._node = node
        self._router = router
        self._service = service
        self._ipc = ipc
        self._peers = peers
        self._peer = peer
        self._giving_up: asyncio.Task[None] | None = None

    async def start(self, endpoint: Path, started: Callable[[], None]) -> None:
        """Serve readers at ``endpoint``, and start the node; ``started`` is called when it has started."""
        self._service.start()
        self._ipc.swap(self._service)
        await self._ipc.start(endpoint)
        self._node.when_started(started)
        self._node.start(self._peer)

    def resign(self) -> None:
        """Give up the primary role, because the process will stop once the readers have."""
        asyncio.get_running_loop().run_in_executor(None, self._node.resign)
        self._give_up_soon()

    async def stop(self) -> None:
        """Answer what was asked, then stop the node."""
        self._give_up_soon()
        await asyncio.to_thread(self._node.resign)
        # There are readers only if the node has failed, or has lost its parent.
        await self._ipc.drain(stop_budget.REQUESTS_S)
        self._service.stop()
        self._ipc.stop()
        if self._peers is not None:
            await self._peers.stop(stop_budget.PEERS_S)
        await asyncio.to_thread(self._node.stop)

    def _give_up_soon(self) -> None:
        if self._giving_up is None:
            self._giving_up = asyncio.create_task(self._give_up())

    async def _give_up(self) -> None:
        """Answer the commands that the log has not answered in time."""
        await asyncio.sleep(stop_budget.GIVE_UP_S)
        await self._router.give_up()


async def _abandon(opening: Opening, opened: asyncio.Future[Opened]) -> None:
    """Stop the opening of log and store as far as possible, and close them if they are open."""
    opening.starting.stop()
    await asyncio.wait((opened,), timeout=stop_budget.OPENING_S)
    if opened.done() and opened.exception() is None:
        for each in reversed(opened.result()):
            each.close()
