"""Reports of all nodes of a cluster, gathered by the primary and given to everyone who sends one.

Each node sends its report to the primary every few seconds; the answer holds what the primary knows of the
others. So every node can describe the cluster without asking anyone, also when the primary has just died.
A node that is connected to no primary exchanges reports with the other nodes that it knows, a few at a time:
a node that is cut off from the log alone then learns that the others are not.
A report is opaque here: bytes of a node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import msgspec

from election.contract import Identity

from .node_port import REPORTS
from .peer_client import Peer

EVERY_S: Final = 2.0
_NEXT_S: Final = 0.25  # without a connection to a primary
_TIMEOUT_S: Final = 2.0
# Nodes that one without a primary asks at the same time.
_ASKED_MAX: Final = 3
ADDRESS_MAX: Final = 300
# A node that has not reported for so long is no longer listed.
FORGOTTEN_S: Final = 600.0
NODES_MAX: Final = 100
REPORT_BYTES_MAX: Final = 16 * 1024
REPORTED_BYTES_MAX: Final = 2 * NODES_MAX * REPORT_BYTES_MAX  # of one message

_log = logging.getLogger(__name__)


class Report(msgspec.Struct, frozen=True):
    """State of one node, and the time since it said so."""

    node: str
    body: bytes
    age_s: float = 0.0
    # ``HOST:PORT`` of its peer endpoint; empty if unknown.
    peer: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Report]).decode


class _Heard(NamedTuple):
    body: bytes
    at: float
    peer: str


class Reports:
    """The newest report of each node but this one; used on the node's event loop."""

    def __init__(
        self,
        node: str,
        own: Callable[[], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
        address: Callable[[], str] = str,
    ) -> None:
        """``node``: this node's id; ``own`` makes its report; ``clock`` is monotonic, in seconds.

        ``address`` returns the ``HOST:PORT`` of this node's peer endpoint.
        """
        self._node = node
        self._own = own
        self._clock = clock
        self._address = address
        # Node ids, the one that was asked least recently first.
        self._turns: list[str] = []
        self._heard: dict[str, _Heard] = {}
        self._taken = asyncio.Event()

    def others(self) -> list[Report]:
        """Return the newest report of each other node that was heard of lately."""
        now = self._clock()
        self._heard = {node: each for node, each in self._heard.items() if now - each.at < FORGOTTEN_S}
        return [
            Report(node, each.body, max(0.0, now - each.at), each.peer) for node, each in self._heard.items()
        ]

    def own(self) -> list[Report]:
        """Return this node's report, if it makes any."""
        return [] if self._own is None else [Report(self._node, self._own(), peer=self._address())]

    def next_peers(self) -> list[Identity]:
        """Return a few other nodes with a known address; further calls return the others in turn."""
        known = {each.node: each.peer for each in self.others() if each.peer}
        waiting = [node for node in self._turns if node in known]
        waiting += [node for node in known if node not in waiting]
        asked = waiting[:_ASKED_MAX]
        self._turns = [*waiting[_ASKED_MAX:], *asked]
        return [Identity("", "", 0, eligible=False, peer=known[node], node=node) for node in asked]

    def pack(self) -> bytes:
        """Return all reports, this node's first, as another node gets them."""
        return _encode([*self.own(), *self.others()])

    def take(self, packed: bytes) -> None:
        """Take the reports of another node. Raises ``msgspec.DecodeError``."""
        now = self._clock()
        for report in _decode(packed):
            too_large = len(report.body) > REPORT_BYTES_MAX or len(report.peer) > ADDRESS_MAX
            if report.node == self._node or too_large:
                continue
            heard, at = self._heard.get(report.node), now - max(0.0, report.age_s)
            if heard is None or at > heard.at:
                self._heard[report.node] = _Heard(report.body, at, report.peer)
        while len(self._heard) > NODES_MAX:
            del self._heard[min(self._heard, key=lambda node: self._heard[node].at)]
        self._taken.set()

    async def news(self) -> None:
        """Return when reports were taken since the last call; for one caller."""
        await self._taken.wait()
        self._taken.clear()


class Reporting:
    """Keeps the reports of a node recent, see :meth:`run`.

    ``primary`` returns the primary while this node is connected to it; ``is_primary`` whether this node is
    the primary, to whom all others report. ``connect`` connects to another node and raises :class:`OSError`.
    """

    def __init__(
        self,
        reports: Reports,
        primary: Callable[[], Peer | None],
        *,
        is_primary: Callable[[], bool],
        connect: Callable[[Identity], Awaitable[Peer]],
    ) -> None:
        self._reports = reports
        self._primary = primary
        self._is_primary = is_primary
        self._connect = connect

    async def run(self) -> None:
        """Send this node's report whenever it is due, and take the answer, until cancelled."""
        alone_s = 0.0
        while True:
            peer = self._primary()
            if peer is not None:
                alone_s = 0.0
                await self._exchange(peer)
            elif alone_s >= EVERY_S:
                alone_s = 0.0
                if not self._is_primary():
                    await asyncio.gather(*map(self._exchange_once, self._reports.next_peers()))
            due_s = _NEXT_S if peer is None else EVERY_S
            await asyncio.sleep(due_s)
            alone_s += due_s

    async def _exchange(self, peer: Peer) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._reports.take(await peer.ask(REPORTS, _encode(self._reports.own())))
        except (OSError, msgspec.DecodeError) as error:
            # The connection's keeper handles what is wrong with it.
            _log.debug("cannot exchange reports: %r", error)

    async def _exchange_once(self, identity: Identity) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                peer = await self._connect(identity)
        except OSError as error:
            _log.debug("cannot ask %s for reports: %r", identity.peer, error)
            return
        try:
            await self._exchange(peer)
        finally:
            peer.abort()
