"""Connections of whom nothing is known yet: few at a time, and each for a short time.

Whoever can reach the peer port may connect, and must show with its first request that it is a peer. Until
then it holds one of few places, the oldest of which goes to the next who comes: so it keeps no peer out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STRANGERS_MAX = 100
KNOWN_WITHIN_S = 5.0
"""More than a peer takes from its connection to its first request, however busy both are."""


class Stranger:
    """A connection; made by :meth:`Strangers.came`."""

    def __init__(self, strangers: Strangers, end: Callable[[], None]) -> None:
        self._strangers = strangers
        self.end = end
        """Ends the connection."""

    def is_known(self) -> None:
        """It has shown that it is a peer, or it has gone."""
        self._strangers.known(self)


class Strangers:
    """Used on one event loop."""

    def __init__(self, count_max: int = STRANGERS_MAX, within_s: float = KNOWN_WITHIN_S) -> None:
        self._count_max = count_max
        self._within_s = within_s
        self._timers: dict[Stranger, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._timers)

    def came(self, end: Callable[[], None]) -> Stranger:
        """A connection came; ``end`` is called unless it becomes known in time, and before too many come."""
        if len(self._timers) >= self._count_max:
            self._give_up(next(iter(self._timers)))
        stranger = Stranger(self, end)
        timer = asyncio.get_running_loop().call_later(self._within_s, self._give_up, stranger)
        self._timers[stranger] = timer
        return stranger

    def known(self, stranger: Stranger) -> None:
        """It is none any more."""
        timer = self._timers.pop(stranger, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self, stranger: Stranger) -> None:
        self.known(stranger)
        stranger.end()
