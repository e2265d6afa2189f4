"""TCP connections between simulated nodes, over a network that cuts, delays and breaks them.

Bytes arrive in order, or the connection breaks; some that were written before may have arrived then.
The code above them is that of production: the loops of the nodes open these connections (:mod:`.event_loop`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .event_loop import SimulatedLoop, let_pass
from .world import Process, World

_HOP_S = 0.001
_LATE_S_MAX = 4.0
# While a link is cut, what was sent is sent again.
_RETRANSMITS_S = 0.3
_SERVER_PORT = 1

Factory = Callable[[], asyncio.BaseProtocol]


@dataclass
class Link:
    """The network between one node and the others."""

    cut: bool = False
    # The share of what is written that goes wrong.
    bad: float = 0.0


class PeerNetwork:
    """All nodes by their addresses. Killed processes refuse connections; a cut link answers nothing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.loop = SimulatedLoop(world, Process("peer network"))
        self.links: dict[str, Link] = {}
        self.listening: dict[str, Listener] = {}

    def hop_s(self) -> float:
        return _HOP_S * self.world.chance.random()

    def fate(self, links: tuple[Link, Link]) -> str:
        """Draw what happens to one write."""
        bad = max(link.bad for link in links)
        if not bad or not self.world.likely(bad):
            return "heard"
        return self.world.chance.choice(("late", "lost", "unheard"))


class Listener:
    """A port on which one process accepts connections."""

    def __init__(self, endpoint: Endpoint, address: str, factory: Factory) -> None:
        self.endpoint = endpoint
        self.factory = factory
        self._address = address
        endpoint.network.listening[address] = self
        endpoint.process.when_killed.append(self.close)

    def close(self) -> None:
        """Close the port: connections are refused."""
        if self.endpoint.network.listening.get(self._address) is self:
            del self.endpoint.network.listening[self._address]


class Endpoint:
    """The network as one life of a node has it; the ``sockets`` of its event loop."""

    def __init__(self, network: PeerNetwork, process: Process, link: Link, loop: SimulatedLoop) -> None:
        self.network = network
        self.process = process
        self.link = link
        self.loop = loop

    async def create_server(self, factory: Factory, address: str) -> Listener:
        """Accept connections at an address."""
        return Listener(self, address, factory)

    async def create_connection(
        self, factory: Factory, address: str
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to an address. Raises ``ConnectionRefusedError`` if nobody listens there."""
        network, other = self.network, self.network.links[address]
        await let_pass(network.hop_s())
        while self.link.cut or other.cut:
            await let_pass(_RETRANSMITS_S)
        listener = network.listening.get(address)
        if listener is None:
            raise ConnectionRefusedError(f"nobody listens at {address}")
        client, server = Socket(self, other), Socket(listener.endpoint, self.link)
        client.other, server.other = server, client
        listener.endpoint.loop.call_soon(server.begin, listener.factory)
        await let_pass(network.hop_s())
        return client, client.begin(factory)


class Socket(asyncio.Transport):
    """One end of a connection."""

    other: Socket

    def __init__(self, endpoint: Endpoint, other_link: Link) -> None:
        super().__init__({"socket": _Addresses(), "peername": ("10.0.0.1", _SERVER_PORT)})
        self._network = endpoint.network
        self._process = endpoint.process
        self._loop = endpoint.loop
        self._links = (endpoint.link, other_link)
        self._protocol: Any = None
        # What is on its way to the other end, with the moments of arrival; ``None`` ends it.
        self._under_way: deque[tuple[float, bytes | None]] = deque()
        self._arrives_at = 0.0
        self._closing = self._ended = self._paused = False
        self._unread: list[bytes | None] = []
        self._process.when_killed.append(self._vanish)

    def begin(self, factory: Factory) -> asyncio.BaseProtocol:
        """Connect this end with a protocol."""
        protocol = self._protocol = factory()
        protocol.connection_made(self)
        self.resume_reading()
        return protocol

    # What protocols and streams call.

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if self._closing or self._process.dead:
            return
        fate = self._network.fate(self._links)
        if fate in ("heard", "unheard", "late"):
            late_s = self._network.world.chance.random() * _LATE_S_MAX if fate == "late" else 0.0
            self._send(bytes(data), late_s)
        if fate in ("lost", "unheard"):
            self._break()

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        unread, self._unread = self._unread, []
        for data in unread:
            self._take(data)

    def close(self) -> None:
        """End the connection once the other end has all that was written."""
        if not self._closing and not self._process.dead:
            self._closing = True
            self._send(None)
            self._loop.call_soon(self._end)

    def abort(self) -> None:
        self.close()

    # In the network.

    def _send(self, data: bytes | None, late_s: float = 0.0) -> None:
        network = self._network
        self._arrives_at = max(self._arrives_at, network.world.now + network.hop_s() + late_s)
        self._under_way.append((self._arrives_at, data))
        network.loop.call_at(self._arrives_at, self._arrive)

    def _arrive(self) -> None:
        if self._under_way and any(link.cut for link in self._links):
            self._network.loop.call_later(_RETRANSMITS_S, self._arrive)
            return
        while self._under_way and self._under_way[0][0] <= self._network.world.now:
            _, data = self._under_way.popleft()
            self.other._loop.call_soon(self.other._take, data)

    def _break(self) -> None:
        """Break the connection: both ends see it, each after what is on its way to it."""
        self._send(None)
        self.other._send(None)
        self._closing = True

    def _vanish(self) -> None:
        """The process was killed: its kernel ends the connection."""
        if not self._closing:
            self._closing = True
            self._send(None)

    # At this end.

    def _take(self, data: bytes | None) -> None:
        if self._paused or self._protocol is None:
            self._unread.append(data)
        elif data is None:
            self._closing = True
            self._end()
        elif not self._ended:
            self._protocol.data_received(data)

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._process.when_killed.remove(self._vanish)
            self._protocol.connection_lost(None)


class _Addresses:
    """Stands for the socket, which servers ask for its addresses."""

    family = socket.AF_INET

    def getpeername(self) -> tuple[str, int]:
        return ("10.0.0.1", _SERVER_PORT)

    getsockname = getpeername
