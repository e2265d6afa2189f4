"""A reader's connection to its node: numbered calls and their replies, in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from registry.domain.errors import OUTCOME_UNKNOWN, UNAVAILABLE, RegistryError, outcome_unknown
from registry.ipc.messages import Framed, Packed, State, decode_from_node, encode

_LOST = outcome_unknown("The node failed before it answered")
_NOT_SENT = "The node is overloaded; nothing was written"
_LATE = outcome_unknown("The node did not answer in time")


class NodeLost(RegistryError):
    """The connection broke before the reply."""


class NotSent(Exception):
    """The connection broke before the message was sent, so the node does not have it."""


class NodeConnection(Framed):
    """One connection to the node."""

    def __init__(self, changed: Callable[[State], None], lost: Callable[[], None]) -> None:
        super().__init__()
        self._changed = changed
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, tuple[asyncio.Future[Any], float]] = {}
        # Calls made while the connection was closing.
        self._unsent: set[int] = set()
        self._large_calls: dict[int, Packed] = {}
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def call(self, number: int, message: msgspec.Struct, deadline: float) -> asyncio.Future[Any]:
        """Send a message; the future gets the reply, or 50002 after the ``deadline`` (event-loop time).

        It gets :class:`NotSent` or :class:`NodeLost` if the connection breaks.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._calls[number] = (answer, deadline)
        if self.transport.is_closing():
            self._unsent.add(number)
        else:
            # The event loop sends at the end of an iteration what was written in it, together.
            self.send(message)
        return answer

    def call_large(
        self, number: int, message: Callable[[], msgspec.Struct], deadline: float
    ) -> asyncio.Future[Any]:
        """Do the same for a message that is built when its turn comes.

        If it is not sent whole before the deadline, the future gets 503, and the node never gets it.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._calls[number] = (answer, deadline)

        def pack() -> bytes | None:
            return None if answer.done() else encode(message())

        self._large_calls[number] = pack
        self.send_large(pack)
        return answer

    def end_late(self) -> None:
        """Fail the calls whose deadline has passed; late replies are ignored."""
        now = self._loop.time()
        for number in [number for number, (_, deadline) in self._calls.items() if deadline < now]:
            packed = self._large_calls.pop(number, None)
            unsent = packed is not None and self.is_unsent(packed)
            _fail(self._calls.pop(number)[0], UNAVAILABLE(_NOT_SENT) if unsent else OUTCOME_UNKNOWN(_LATE))
            if packed is not None and unsent:
                self.drop_large(packed)

    def on_message(self, message: bytes) -> None:
        """Handle a reply, or the node's state."""
        reply = decode_from_node(message)
        if isinstance(reply, State):
            self._changed(reply)
            return
        waiting, _ = self._calls.pop(reply.number, (None, 0))
        self._large_calls.pop(reply.number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all calls: those that were sent may or may not have been executed."""
        self._lost()
        calls, self._calls = self._calls, {}
        unsent = {number for number, packed in self._large_calls.items() if self.is_unsent(packed)}
        unsent |= self._unsent
        for number, (waiting, _) in calls.items():
            _fail(waiting, NotSent() if number in unsent else NodeLost(OUTCOME_UNKNOWN.code, _LOST))
        if not self.ended.done():
            self.ended.set_result(None)


def _fail(waiting: asyncio.Future[Any], error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # marks it as retrieved, even if the caller has gone
