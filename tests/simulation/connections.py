"""Connections to the simulated brokers over a bad network.

What is sent may be lost, arrive late, after the sender has given it up or was killed, or be answered without
the answer arriving. A connection keeps its order: nothing overtakes what was sent on it before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokafka.errors import KafkaConnectionError, RequestTimedOutError

from .brokers import Broker, Brokers, wait_ms
from .event_loop import let_pass
from .world import Process, World

LATE_S_MAX = 4.0
_RETRANSMITS_S = 0.3
# The time-out of the fetch loop's polls; other fetches do not wait as long.
_LONG_POLL_MS = 500


@dataclass
class Line:
    """The network between one node and the brokers."""

    cut: bool = False
    # The share of requests that go wrong.
    bad: float = 0.0
    hops_s: float = 0.001
    # True if nothing new is fetched, though requests are answered.
    lagging: bool = False
    # True if the election is out of reach, but the brokers are not.
    deaf: bool = False
    # True while an append is in progress.
    appending: bool = False

    @property
    def fetches(self) -> bool:
        return not self.cut and not self.lagging


@dataclass
class _Sent:
    request: Any
    answer: asyncio.Future[Any]
    fate: str


class SimulatedConnection:
    """A connection of one process to one broker; see ``BrokerConnection`` in the product."""

    # Nothing is left to abort when it is closed.
    _protocol = None
    # No login is renewed.
    is_ready = True

    def __init__(
        self, network: Network, broker: Broker | None, loop: asyncio.AbstractEventLoop, timeout_s: float
    ) -> None:
        self._network = network
        self._world = network.world
        self._broker = broker
        self._loop = loop
        self._timeout_s = timeout_s
        self._open = self._dead = False
        self._used_at = 0.0
        self._losses = 0
        self._arrives_at = self._returns_at = 0.0
        self._inbox: deque[_Sent] = deque()
        self._busy = False
        self._waiting: dict[asyncio.Future[Any], None] = {}

    @property
    def api_versions(self) -> Any:
        return self._network.brokers.versions

    async def connect(self) -> None:
        await let_pass(self._network.hop_s())
        if self._network.line.cut:
            await let_pass(self._timeout_s)
            raise KafkaConnectionError("no answer")
        if self._broker is None or not self._broker.up:
            raise ConnectionRefusedError("the broker is down")
        self._open, self._used_at, self._losses = True, self._world.now, self._broker.losses
        self._broker.connections[self._reset] = None

    def connected(self) -> bool:
        return self._open

    async def ready(self) -> None:
        """Do nothing: it is ready."""

    def send(self, request: Any) -> Awaitable[Any]:
        answer: asyncio.Future[Any] = self._loop.create_future()
        world, network = self._world, self._network
        if not self._open or world.now - self._used_at > network.brokers.idle_s:
            self._open = False
            answer.set_exception(KafkaConnectionError("the connection is closed"))
            return answer
        self._used_at = world.now
        self._waiting[answer] = None
        timer = self._loop.call_later(self._timeout_s, self._time_out, answer)
        answer.add_done_callback(lambda _: timer.cancel())
        fate = network.fate()
        delay_s = network.hop_s() + (world.chance.random() * LATE_S_MAX if fate == "late" else 0.0)
        self._arrives_at = max(self._arrives_at, world.now + delay_s)
        sent = _Sent(request.prepare(self.api_versions), answer, fate)
        network.brokers.loop.call_at(self._arrives_at, self._arrive, sent, LATE_S_MAX)
        return answer

    def _time_out(self, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            answer.set_exception(RequestTimedOutError())

    def close(self, exc: Exception | None = None) -> asyncio.Future[None]:
        """Close the client's end: what was sent still arrives."""
        self._reset()
        if self._broker is not None:
            self._broker.connections.pop(self._reset, None)
        closed: asyncio.Future[None] = self._loop.create_future()
        closed.set_result(None)
        return closed

    def _reset(self) -> None:
        self._open = False
        waiting, self._waiting = self._waiting, {}
        for answer in waiting:
            self._loop.call_soon(_fail, answer)

    # In the network.

    def _arrive(self, sent: _Sent, left_s: float) -> None:
        line, loop = self._network.line, self._network.brokers.loop
        if self._dead or sent.fate == "lost" or left_s < 0 or not self._reaches():
            self._dead = True
            return
        if line.cut:
            loop.call_later(_RETRANSMITS_S, self._arrive, sent, left_s - _RETRANSMITS_S)
            return
        self._inbox.append(sent)
        self._next()

    def _reaches(self) -> bool:
        broker = self._broker
        return broker is not None and broker.up and broker.losses == self._losses

    def _next(self) -> None:
        if self._inbox and not self._busy:
            self._busy = True
            sent = self._inbox.popleft()
            assert self._broker is not None
            self._network.brokers.handle(
                self._broker, sent.request, self._network.process.name, partial(self._answered, sent)
            )

    def _answered(self, sent: _Sent, response: Any) -> None:
        self._busy = False
        if sent.fate == "unheard":
            self._dead = True
        if not self._dead:
            self._returns_at = max(self._returns_at, self._world.now + self._network.hop_s())
            self._network.brokers.loop.call_at(self._returns_at, self._return, sent, response)
        self._next()

    def _return(self, sent: _Sent, response: Any) -> None:
        line = self._network.line
        stalled = line.lagging and wait_ms(sent.request) >= _LONG_POLL_MS
        if line.cut or stalled:
            self._network.brokers.loop.call_later(_RETRANSMITS_S, self._return, sent, response)
            return
        self._loop.call_soon(self._deliver, sent.answer, response)

    def _deliver(self, answer: asyncio.Future[Any], response: Any) -> None:
        self._waiting.pop(answer, None)
        if not answer.done():
            answer.set_result(response)


def _fail(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(KafkaConnectionError("the connection was lost"))


class Network:
    """The brokers as one process reaches them; the ``login`` of its connections."""

    def __init__(self, world: World, brokers: Brokers, line: Line, process: Process) -> None:
        self.world = world
        self.brokers = brokers
        self.line = line
        self.process = process
        self.loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.get_running_loop

    def connection(self, host: str, port: int, *, timeout_s: float) -> SimulatedConnection:
        """Return a connection that is not open yet."""
        found = next((each for each in self.brokers.brokers.values() if each.host == host), None)
        return SimulatedConnection(self, found, asyncio.get_running_loop(), timeout_s)

    def hop_s(self) -> float:
        return self.line.hops_s * self.world.chance.random()

    def fate(self) -> str:
        """Draw what happens to one request."""
        if not self.line.bad or not self.world.likely(self.line.bad):
            return "heard"
        return self.world.chance.choice(("lost", "late", "unheard"))
