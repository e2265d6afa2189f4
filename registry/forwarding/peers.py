"""A node among its peers: its endpoint, its client to the primary, and probes of other nodes."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Container, Coroutine, Sequence
from typing import Final

from election.contract import Identity
from registry.domain.admission import Room
from registry.host.tracing.contract import NO_TRACING, Tracing

from .authentication import RefusedHosts, Security
from .command_forwarder import Forwarding
from .node_port import Answers, NodePort
from .peer_client import Peer, unreachable
from .reports import Report, Reporting, Reports
from .server import PeerServer

# The time for the answers of all other nodes, and how many are asked at once.
ASK_ALL_S: Final = 3.0
_ASKED_AT_ONCE = 10
# What a batch may hold beyond one command of the largest size.
_BATCH_MORE_BYTES = 16 << 20
_log = logging.getLogger(__name__)
_DIFFERENT = "its peer_secret differs, or it is not a node of this cluster"


class Peers:
    """A node's connections to its peers. Raises :class:`FileError` if certificates cannot be used."""

    def __init__(
        self,
        node_port: NodePort,
        security: Security,
        *,
        node: str,
        url: str,
        body_bytes_max: int,
        room: Room,
        report: Callable[[], bytes] | None = None,
        address: Callable[[], str] = str,
        access_log: bool = False,
        tracing: Tracing = NO_TRACING,
        answers: Answers | None = None,
    ) -> None:
        """``node``: this node's id; ``url``: its public URL; ``body_bytes_max``: of a client's request.

        ``room`` limits the commands that wait for another node or for a primary. ``report`` makes what this
        node reports to the others; ``address`` returns where they reach its peer endpoint. ``answers`` has
        what answers further questions of other nodes, by their paths.
        """
        self._node_port = node_port
        self._security = security
        self._signings = security.signings()
        self._refused = RefusedHosts()
        self._tls = security.tls()
        self._tasks: list[asyncio.Task[None]] = []
        self.reports = Reports(node, report, address=address)
        self._node = node
        self._url = url
        self._batch_bytes_max = 2 * body_bytes_max + _BATCH_MORE_BYTES
        self._access_log = access_log
        self._tracing = tracing
        self._answers = answers
        self._server: PeerServer | None = None
        self.forwarding = Forwarding(
            node_port, self._signings, self._tls, node=node, room=room, tracing=tracing
        )

    async def start(self, listener: socket.socket) -> None:
        """Serve the peer endpoint on ``listener``, a bound socket."""
        self._server = PeerServer(
            self._node_port,
            self._signings,
            self._tls,
            self.reports,
            self._refused,
            node=self._node,
            url=self._url,
            body_bytes_max=self._batch_bytes_max,
            access_log=self._access_log,
            tracing=self._tracing,
            answers=self._answers,
        )
        await self._server.start(listener)
        if self._tls is not None:
            self.keep(self._tls.watch())
        reporting = Reporting(
            self.reports,
            lambda: self.forwarding.primary,
            is_primary=lambda: self._node_port.role == "primary",
            connect=self._connect,
        )
        self.keep(reporting.run())

    def keep(self, work: Coroutine[None, None, None]) -> None:
        """Do work on the event loop until the peers are stopped."""
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def stop(self, grace_s: float) -> None:
        """Stop serving, give requests in flight ``grace_s`` to finish, and close connections."""
        for task in self._tasks:
            task.cancel()
        if self._server is not None:
            await self._server.stop(grace_s)
        await self.forwarding.stop()

    def use_secrets(self, secrets: Sequence[str]) -> None:
        """Sign with the first of these secrets from now on, and accept all of them but no others."""
        self._signings.replace(secrets)
        self.forwarding.reconnect()
        if self._server is not None:
            self._server.end_refused_streams()

    def problems(self) -> list[str]:
        """Return why other nodes are refused, and why the primary is not reached, a sentence each."""
        error = self.forwarding.last_error
        refused = [f"{host} was refused as a peer: {_DIFFERENT}" for host in self._refused.recent()]
        return [error, *refused] if error else refused

    async def ask_all(
        self, path: str, body: bytes, nodes: Container[str] | None = None
    ) -> dict[str, bytes | None]:
        """Return the answers of all other nodes that were heard of lately, by node; ``None``: it has none.

        Each is asked over a connection of its own, within :data:`ASK_ALL_S` in total; with ``nodes``, only
        those.
        """
        turns, until = asyncio.Semaphore(_ASKED_AT_ONCE), asyncio.get_running_loop().time() + ASK_ALL_S

        async def ask(report: Report) -> tuple[str, bytes | None]:
            identity = Identity("", "", 0, eligible=False, peer=report.peer, node=report.node)
            try:
                async with asyncio.timeout_at(until), turns:
                    peer = await self._connect(identity)
                    try:
                        return report.node, await peer.ask(path, body)
                    finally:
                        peer.abort()
            except OSError as error:
                _log.debug("cannot ask %s: %r", report.peer, error)
                return report.node, None

        asked = [each for each in self.reports.others() if nodes is None or each.node in nodes]
        return dict(await asyncio.gather(*map(ask, asked)))

    def watchers(self) -> int:
        """Return the number of nodes that watch the role of this one, as all others watch the primary's."""
        return 0 if self._server is None else self._server.watchers

    async def _connect(self, identity: Identity) -> Peer:
        return await Peer.open(identity, self._signings, None if self._tls is None else self._tls.client)

    async def reachable(self, identity: Identity) -> str:
        """Return why a node cannot be reached, or ""; runs on the caller's event loop."""
        return await unreachable(identity, self._signings, None if self._tls is None else self._tls.client)
