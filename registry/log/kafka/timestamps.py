"""The time that records carry: the wall clock's, unless the broker holds it to be from the future.

Brokers refuse records from the future (``message.timestamp.after.max.ms``, 1 hour). A primary whose clock has
jumped ahead goes on from the last time that the log took, by a clock that nobody sets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_AHEAD_MAX_MS = 30 * 60 * 1000
"""A clock that was refused is believed again when it is no further ahead than this."""
_log = logging.getLogger(__name__)


def boot_s() -> float:
    """A clock that goes on while the process is stopped or the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def wall_ms() -> int:
    """The wall clock, ms since the epoch."""
    return time.time_ns() // 1_000_000


class Stamps:
    """``wall_ms``: ms since the epoch; ``clock``: seconds, nobody sets it."""

    def __init__(self, wall_ms: Callable[[], int], clock: Callable[[], float]) -> None:
        self._wall_ms = wall_ms
        self._clock = clock
        self._taken: tuple[int, float] | None = None
        self._refused = False

    def now(self) -> int:
        """The time for the next records."""
        wall_ms, counted_ms = self._wall_ms(), self._counted()
        if self._refused and counted_ms is not None and wall_ms - counted_ms > _AHEAD_MAX_MS:
            return counted_ms
        self._refused = False
        return wall_ms

    def taken(self, stamp_ms: int) -> None:
        """The log has taken records of this time."""
        self._taken = (stamp_ms, self._clock())

    def refused(self, stamp_ms: int) -> int | None:
        """Another time, after the broker has refused this one as of the future; ``None``: there is none."""
        counted_ms = self._counted()
        if counted_ms is None or counted_ms >= stamp_ms:
            return None
        if not self._refused:
            ahead_s = (stamp_ms - counted_ms) // 1000
            _log.warning("the clock of this host jumped %d s ahead; records keep the brokers' time", ahead_s)
        self._refused = True
        return counted_ms

    def _counted(self) -> int | None:
        if self._taken is None:
            return None
        stamp_ms, at = self._taken
        return stamp_ms + int((self._clock() - at) * 1000)
