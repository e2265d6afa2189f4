"""Reports of all nodes of a cluster, gathered by the primary and given to everyone who sends one.

Each node sends its report to the primary every few seconds; the answer holds what the primary knows of the
others. So every node can describe the cluster without asking anyone, also when the primary has just died.
A report is opaque here: bytes of a node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from .messages import REPORTS, REPORTS_FEATURE
from .peer_client import Peer

EVERY_S: Final = 2.0
_NEXT_S: Final = 0.25  # without a connection to a primary
_TIMEOUT_S: Final = 2.0
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


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Report]).decode


class _Heard(NamedTuple):
    body: bytes
    at: float


class Reports:
    """The newest report of each node but this one; used on the node's event loop."""

    def __init__(
        self,
        node: str,
        own: Callable[[], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``node``: this node's id; ``own`` makes its report; ``clock`` is monotonic, in seconds."""
        self._node = node
        self._own = own
        self._clock = clock
        self._heard: dict[str, _Heard] = {}

    def others(self) -> list[Report]:
        """Return the newest report of each other node that was heard of lately."""
        now = self._clock()
        self._heard = {node: each for node, each in self._heard.items() if now - each.at < FORGOTTEN_S}
        return [Report(node, each.body, max(0.0, now - each.at)) for node, each in self._heard.items()]

    def own(self) -> list[Report]:
        """Return this node's report, if it makes any."""
        return [] if self._own is None else [Report(self._node, self._own())]

    def packed(self) -> bytes:
        """Return all reports, this node's first, as another node gets them."""
        return _encode([*self.own(), *self.others()])

    def take(self, packed: bytes) -> None:
        """Take the reports of another node. Raises ``msgspec.DecodeError``."""
        now = self._clock()
        for report in _decode(packed):
            if report.node == self._node or len(report.body) > REPORT_BYTES_MAX:
                continue
            heard, at = self._heard.get(report.node), now - max(0.0, report.age_s)
            if heard is None or at > heard.at:
                self._heard[report.node] = _Heard(report.body, at)
        while len(self._heard) > NODES_MAX:
            del self._heard[min(self._heard, key=lambda node: self._heard[node].at)]


async def keep_reporting(reports: Reports, primary: Callable[[], Peer | None]) -> None:
    """Send this node's report to the primary whenever it is due, and take the answer."""
    while True:
        peer = primary()
        if peer is not None and REPORTS_FEATURE in peer.status.features:
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    reports.take(await peer.ask(REPORTS, _encode(reports.own())))
            except (OSError, msgspec.DecodeError) as error:
                # The connection's keeper handles what is wrong with it.
                _log.debug("cannot report to the primary: %r", error)
        await asyncio.sleep(_NEXT_S if peer is None else EVERY_S)
