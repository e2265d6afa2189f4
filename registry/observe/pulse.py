"""How long what should go on all the time has stood still: event loops, heartbeats."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

REMEMBERED_S = 60.0
"""For how long a pause is told, at least; twice as long at most."""
BEAT_S = 0.1
"""Between two beats of an event loop."""


class Pauses:
    """The longest time between two beats of late. One thread beats, any may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` runs evenly, in seconds."""
        self._clock = clock
        self._last: float | None = None
        self._since = clock()
        self._now = self._before = 0.0

    def beat(self) -> None:
        """It goes on."""
        now = self._clock()
        if self._last is not None:
            self._now = max(self._now, now - self._last)
        self._last = now
        if now - self._since >= REMEMBERED_S:
            self._before, self._now, self._since = self._now, 0.0, now

    def age_s(self) -> float:
        """How long ago the last beat was; 0 before the first."""
        return 0.0 if self._last is None else self._clock() - self._last

    def longest_s(self) -> float:
        """The longest pause, be it the one under way."""
        return max(self._now, self._before, self.age_s())


class Pulse:
    """Beats on an event loop from :meth:`start` on, by which it is seen how late the loop is."""

    def __init__(self) -> None:
        self._pauses = Pauses()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        self._beat(asyncio.get_running_loop())

    def stop(self) -> None:
        """Beat no more."""
        if self._next is not None:
            self._next.cancel()

    def lag_s(self) -> float:
        """How long something that was due has waited of late at most, while other things were done."""
        return max(0.0, self._pauses.longest_s() - BEAT_S)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pauses.beat()
        self._next = loop.call_later(BEAT_S, self._beat, loop)
