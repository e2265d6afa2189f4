"""Detect stores that were offline longer than the log retains tombstones.

The log may have dropped a tombstone that the store has not applied, and the store would keep the deleted row
forever. A store that was behind the log's end for nearly the retention time is therefore rebuilt.

Across a restart only the wall clock measures that time; the margin covers the difference between this host's
clock and the brokers'. A mark in the future means that the clock was set back: the time is then unknown,
which counts as too long. Within a process a monotonic clock measures the time, so that jumps of the wall
clock do not affect a node that follows the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.log_format.lineage import too_long
from registry.store.layout import StoreError
from registry.store.lmdb import Store

_LOOK_EVERY_S = 5.0
_LOOK_EVERY_MIN_S = 0.2


class StaleStore(StoreError):
    """The store was behind the log's end longer than the log retains tombstones; it must be rebuilt."""


class Moment(NamedTuple):
    """A point in time on both clocks."""

    # Milliseconds since the epoch.
    wall_ms: int
    # Milliseconds on a monotonic clock that also runs while the process is stopped or the machine
    # sleeps.
    running_ms: int


def running_ms() -> int:
    """Return the milliseconds on the monotonic clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class Staleness:
    """Keeps the mark of one store. ``retention_ms`` is called each time, because topics are reconfigured."""

    def __init__(
        self,
        store: Store,
        *,
        retention_ms: Callable[[], int | None],
        margin_ms: int,
        now: Callable[[], int],
        running: Callable[[], int] = running_ms,
    ) -> None:
        self._store = store
        self._retention_ms = retention_ms
        self._margin_ms = margin_ms
        self._now = now
        self._running = running
        # The time at which the store was last at the log's end, on the running clock.
        self._at_end_ms = running() - (now() - store.at_end_ms())

    def moment(self) -> Moment:
        """Return the current time."""
        return Moment(self._now(), self._running())

    @property
    def look_every_s(self) -> float:
        """Seconds between checks that the store is at the log's end, short enough for the retention time."""
        retention_ms = self._retention_ms()
        if retention_ms is None:
            return _LOOK_EVERY_S
        return min(_LOOK_EVERY_S, max(_LOOK_EVERY_MIN_S, (retention_ms - self._margin_ms) / 4000))

    def at_end(self, asked: Moment) -> None:
        """Record that the store holds all that the log held at the moment ``asked``."""
        self._at_end_ms = asked.running_ms
        self._store.mark_at_end(asked.wall_ms)

    def too_long(self) -> str:
        """Return the reason why the store cannot resume; empty if it can."""
        why = too_long(self._at_end_ms, self._running(), self._retention_ms(), self._margin_ms)
        return f"the store must be rebuilt: {why}" if why else ""
