"""Connections to the peer endpoint that are not authenticated yet: few at a time, and each for a short time.

Any host that can reach the peer port may connect, and must prove soon that it is a peer: by a signed request
with a time, or the greeting of a stream. A request for the identity is no proof, because it has no time and
may be a replay. Until the proof, a connection holds one of few slots. A new connection takes the oldest
one's slot, so attackers cannot keep peers out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

UNAUTHENTICATED_MAX = 100
# More than a peer needs: two time-outs (CONNECT_S) lie between connecting and the proof.
AUTHENTICATE_WITHIN_S = 5.0


class UnauthenticatedConnection:
    """A connection that :meth:`UnauthenticatedConnections.opened` has registered."""

    def __init__(self, unauthenticated: UnauthenticatedConnections, end: Callable[[], None]) -> None:
        self._unauthenticated = unauthenticated
        # Closes the connection.
        self.end = end

    def authenticated(self) -> None:
        """Release the slot: the connection has proved that it is a peer's, or was closed."""
        self._unauthenticated.remove(self)


class UnauthenticatedConnections:
    """The slots; used on one event loop."""

    def __init__(self, count_max: int = UNAUTHENTICATED_MAX, within_s: float = AUTHENTICATE_WITHIN_S) -> None:
        self._count_max = count_max
        self._within_s = within_s
        self._timers: dict[UnauthenticatedConnection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Return how many slots are taken."""
        return len(self._timers)

    def opened(self, end: Callable[[], None]) -> UnauthenticatedConnection:
        """Register a new connection; ``end`` is called when its time or its slot is up."""
        if len(self._timers) >= self._count_max:
            self._close(next(iter(self._timers)))
        connection = UnauthenticatedConnection(self, end)
        timer = asyncio.get_running_loop().call_later(self._within_s, self._close, connection)
        self._timers[connection] = timer
        return connection

    def remove(self, connection: UnauthenticatedConnection) -> None:
        """Release the connection's slot, if it still has one."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _close(self, connection: UnauthenticatedConnection) -> None:
        self.remove(connection)
        connection.end()
