"""Measurement of pauses in event loops and heartbeats, which should run all the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# Seconds for which a pause is reported, at least; twice as long at most.
REMEMBERED_S = 60.0
# Interval between two beats of an event loop.
BEAT_S = 0.1


class Pauses:
    """The longest recent time between two beats. One thread beats, any thread may read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._last: float | None = None
        self._since = clock()
        self._now = self._before = 0.0

    def beat(self) -> None:
        """Note a beat."""
        now = self._clock()
        if self._last is not None:
            self._now = max(self._now, now - self._last)
        self._last = now
        if now - self._since >= REMEMBERED_S:
            self._before, self._now, self._since = self._now, 0.0, now

    def age_s(self) -> float:
        """Return the time since the last beat; 0 before the first."""
        return 0.0 if self._last is None else self._clock() - self._last

    def longest_s(self) -> float:
        """Return the longest pause, including the present one."""
        return max(self._now, self._before, self.age_s())


class Pulse:
    """Beats on an event loop, to measure how late the loop runs its callbacks."""

    def __init__(self) -> None:
        self._pauses = Pauses()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat on the running loop."""
        self._beat(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop beating."""
        if self._next is not None:
            self._next.cancel()

    def lag_s(self) -> float:
        """Return the longest recent delay of a callback that was due."""
        return max(0.0, self._pauses.longest_s() - BEAT_S)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pauses.beat()
        self._next = loop.call_later(BEAT_S, self._beat, loop)
