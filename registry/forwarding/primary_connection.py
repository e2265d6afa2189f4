"""The connection to the primary: made, made again when it breaks, and checked: pings, and its certificate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from election.contract import Identity
from registry.base.processes.tls_connections import ConnectionCertificate

from .authentication import Signings
from .peer_client import Peer

if TYPE_CHECKING:
    from registry.security.tls.contexts import PeerTls

# Between checks. A connection that has not answered a ping when the next is due is closed.
LIFE_EVERY_S = 3.0
_RETRY_S = (0.02, 0.05, 0.1, 0.25, 0.5)
_log = logging.getLogger(__name__)


class PrimaryConnection:
    """Connected to the primary ``identity`` from :meth:`start` to :meth:`close`.

    ``connected`` is called with each new connection. ``refused`` is called when the connection broke and a
    new one was refused, so the port is closed, and again until it returns True.
    """

    def __init__(
        self,
        identity: Identity,
        signings: Signings,
        tls: PeerTls | None,
        *,
        connected: Callable[[], None],
        refused: Callable[[Identity], Awaitable[bool]],
    ) -> None:
        self.identity = identity
        self._signings = signings
        self._tls = tls
        self._connected = connected
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._keeper: asyncio.Task[None] | None = None
        # The primary while it is connected.
        self.peer: Peer | None = None
        # Why there is no connection; empty while there is one.
        self.last_error = ""

    def start(self) -> None:
        """Connect, and reconnect until :meth:`close`."""
        self._keeper = self._loop.create_task(self._keep())

    def close(self) -> None:
        """Close the connection; no other one is made."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self.peer is not None:
            self.peer.abort()

    async def _keep(self) -> None:
        tries, lost = 0, False
        while True:
            try:
                peer = await self._meet()
            except ConnectionRefusedError as error:
                self._note_failure(str(error))
                lost = lost and not await self._is_replaced()
            except OSError as error:
                self._note_failure(str(error) or "it does not answer")
            else:
                tries, lost = 0, True
                await self._use(peer)
                continue
            await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            tries += 1

    async def _meet(self) -> Peer:
        tls = None if self._tls is None else self._tls.client
        peer = await Peer.meet(self.identity, self._signings, tls)
        try:
            await peer.open_stream(self.identity.peer, tls)
        except BaseException:
            peer.abort()
            raise
        return peer

    async def _is_replaced(self) -> bool:
        """Report that the primary's port is closed; return True if it was evicted."""
        try:
            return await self._refused(self.identity)
        except Exception as error:
            _log.warning("evicting the primary at %s: %r", self.identity.peer, error)
            return False

    def _note_failure(self, reason: str) -> None:
        error = f"cannot reach the primary at {self.identity.peer}: {reason}"
        if error != self.last_error:
            _log.warning("%s", error)
        self.last_error = error

    async def _use(self, peer: Peer) -> None:
        self.peer, self.last_error = peer, ""
        certificates = [] if self._tls is None else peer.certificates(self._tls)
        watch = self._loop.create_task(_watch(peer))
        try:
            self._connected()
            while not peer.closed.done() and not (fault := _fault(peer, certificates)):
                await asyncio.wait((peer.closed,), timeout=LIFE_EVERY_S)
            if not peer.closed.done():
                _log.warning("the primary at %s %s", self.identity.peer, fault)
        finally:
            self.peer = None
            peer.abort()
            watch.cancel()


def _fault(peer: Peer, certificates: list[ConnectionCertificate]) -> str:
    """Return why the connection has to be made again, after sending a ping."""
    if not all(each.counts() for each in certificates):
        return "has shown a certificate that has expired or whose CA was removed"
    return "" if peer.alive() else "does not answer pings"


async def _watch(peer: Peer) -> None:
    try:
        await peer.watch()
    except ConnectionError:
        return
