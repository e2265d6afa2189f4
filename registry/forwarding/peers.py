"""A node's part among its peers: the endpoint it serves, the line to the primary, and looking for others."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from election.contract import Identity
from registry.domain.admission import Room

from .authentication import Security
from .command_forwarder import Forwarding
from .node_port import Host
from .peer_client import unreachable

if TYPE_CHECKING:
    from .server import PeerServer

_BATCH_MORE_BYTES = 16 << 20
"""What a batch of commands may have beyond one command of the largest size."""


class Peers:
    """Made on the node's event loop. Raises :class:`OSError` where certificates cannot be read."""

    def __init__(
        self,
        host: Host,
        security: Security,
        *,
        node: str,
        url: str,
        body_bytes_max: int,
        room: Room,
        access_log: bool = False,
    ) -> None:
        """``node``: the own id; ``url``: the own public URL; ``body_bytes_max``: of a client's request.

        ``room``: for commands that wait for another node, or for a primary.
        """
        self._host = host
        self._security = security
        self._signing = security.signing()
        self._asking = security.asking()
        self._serving = security.serving()
        self._node = node
        self._url = url
        self._batch_bytes_max = 2 * body_bytes_max + _BATCH_MORE_BYTES
        self._access_log = access_log
        self._server: PeerServer | None = None
        self.forwarding = Forwarding(host, self._signing, self._asking, node=node, room=room)

    async def start(self, listener: socket.socket) -> None:
        """Serve the peer endpoint on ``listener``, a bound socket."""
        from .server import PeerServer  # noqa: PLC0415 (hypercorn is not worth its time where no peers are)

        self._server = PeerServer(
            self._host,
            self._signing,
            self._serving,
            node=self._node,
            url=self._url,
            body_bytes_max=self._batch_bytes_max,
            access_log=self._access_log,
        )
        await self._server.start(listener)

    async def stop(self, grace_s: float) -> None:
        """Serve no more, what is under way excepted for at most ``grace_s``, and hang up."""
        if self._server is not None:
            await self._server.stop(grace_s)
        await self.forwarding.stop()

    async def reachable(self, identity: Identity) -> str:
        """Why a node cannot be reached, or nothing when it can; on whichever event loop it is awaited on."""
        return await unreachable(identity, self._signing, self._asking)
