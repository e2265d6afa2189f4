"""Timestamps of records: the wall clock's time, unless the broker rejects it as from the future.

Brokers reject records from the future (``message.timestamp.after.max.ms``, 1 hour). When a primary's clock
has jumped ahead, its records continue from the last timestamp that the log accepted, by a monotonic clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

# A clock that was rejected is trusted again when it is at most this far ahead.
_AHEAD_MAX_MS = 30 * 60 * 1000
# A clock that was rejected counts as set right once it went back this far, which it does not do by running.
_SET_BACK_MS = 1000
# Seconds after which it is tried again all the same: the brokers' clocks may have been wrong.
_TRY_AGAIN_S = 600.0
_log = logging.getLogger(__name__)


def boot_s() -> float:
    """Return a clock that goes on while the process is stopped or the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def wall_ms() -> int:
    """Return the wall clock, in ms since the epoch."""
    return time.time_ns() // 1_000_000


class Timestamps:
    """``wall_ms``: ms since the epoch; ``clock``: monotonic, in seconds."""

    def __init__(self, wall_ms: Callable[[], int], clock: Callable[[], float]) -> None:
        self._wall_ms = wall_ms
        self._clock = clock
        self._accepted: tuple[int, float] | None = None
        self._rejected = False
        # The rejected time, and when, while nothing replaces it.
        self._ahead: tuple[int, float] | None = None

    @property
    def is_ahead(self) -> bool:
        """True while the wall clock stands where it was rejected, and no accepted time replaces it."""
        if self._ahead is None:
            return False
        rejected_ms, at = self._ahead
        passed_s = self._clock() - at
        return passed_s < _TRY_AGAIN_S and self._wall_ms() > rejected_ms + passed_s * 1000 - _SET_BACK_MS

    def now(self) -> int:
        """Return the timestamp for the next records."""
        wall_ms, counted_ms = self._wall_ms(), self._elapsed_ms()
        if self._rejected and counted_ms is not None and wall_ms - counted_ms > _AHEAD_MAX_MS:
            return counted_ms
        self._rejected = False
        return wall_ms

    def record_accepted(self, timestamp_ms: int) -> None:
        """Remember that the log accepted records with this timestamp."""
        self._accepted = (timestamp_ms, self._clock())
        self._ahead = None

    def next_after_rejection(self, timestamp_ms: int) -> int | None:
        """Return a timestamp to retry with after the broker rejected this one; ``None`` if there is none."""
        counted_ms = self._elapsed_ms()
        if counted_ms is None or counted_ms >= timestamp_ms:
            self._ahead = (timestamp_ms, self._clock())
            return None
        if not self._rejected:
            ahead_s = (timestamp_ms - counted_ms) // 1000
            _log.warning("the clock of this host jumped %d s ahead; records keep the brokers' time", ahead_s)
        self._rejected = True
        return counted_ms

    def _elapsed_ms(self) -> int | None:
        if self._accepted is None:
            return None
        timestamp_ms, at = self._accepted
        return timestamp_ms + int((self._clock() - at) * 1000)
