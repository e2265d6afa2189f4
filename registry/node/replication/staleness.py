"""How long the store was away from the log's end, against how long the log keeps deletions.

A log that forgets deletions may have forgotten one that the store has not applied: what it deleted would
stay for ever. So a store that was away for nearly as long is built anew.

From one process to the next only the wall clock tells how long that was; the margin covers by how much this
host's and the brokers' differ. A mark from the future says that the clock was set back: how long the store
was away is then not known, which counts as too long. While a process runs, a clock counts that nobody sets:
a node that follows the log minds no jump of the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from registry.domain.log_format.retention import too_long
from registry.store.layout import StoreError
from registry.store.lmdb import Store

_LOOK_EVERY_S = 5.0
_LOOK_EVERY_MIN_S = 0.2


class StaleStore(StoreError):
    """The store was away from the log's end for longer than the log keeps deletions: build it anew."""


class Moment(NamedTuple):
    """One moment by both clocks."""

    wall_ms: int
    """Since the epoch."""
    running_ms: int
    """Of a clock that nobody sets, and that goes on while the process is stopped or the machine sleeps."""


def running_ms() -> int:
    """The clock that nobody sets."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class Staleness:
    """Keeps the mark of one store. ``retention_ms`` is asked each time, because topics are reconfigured."""

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
        # When the store was last at the end, as the running clock would have shown it.
        self._at_end_ms = running() - (now() - store.at_end_ms())

    def moment(self) -> Moment:
        """Now."""
        return Moment(self._now(), self._running())

    @property
    def look_every_s(self) -> float:
        """How often to see whether the store is at the log's end: often enough to go on, and no oftener."""
        retention_ms = self._retention_ms()
        if retention_ms is None:
            return _LOOK_EVERY_S
        return min(_LOOK_EVERY_S, max(_LOOK_EVERY_MIN_S, (retention_ms - self._margin_ms) / 4000))

    def at_end(self, asked: Moment) -> None:
        """The store holds all that the log held at that moment."""
        self._at_end_ms = asked.running_ms
        self._store.mark_at_end(asked.wall_ms)

    def too_long(self) -> str:
        """Why the store cannot go on; empty when it can."""
        why = too_long(self._at_end_ms, self._running(), self._retention_ms(), self._margin_ms)
        return f"the store must be built anew: {why}" if why else ""
