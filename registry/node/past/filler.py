"""Filling of what the history lacks: what was loaded from a snapshot, or folded in a long backlog."""

from __future__ import annotations

import time

from registry.domain.history.entries import slice_of
from registry.log.contract import Log, LogError
from registry.store.layout import DamagedStore, StoreError
from registry.store.lmdb import Store

# One step: few milliseconds of work, so that neither commits nor the event loop wait for long.
RECORDS_MAX = 300
BYTES_MAX = 256 << 10
# Filling goes from the newest window of offsets to the oldest, and upwards in each.
WINDOW = 8192
_RETRY_S = 5.0


class HistoryFiller:
    """Fills the history of ``store`` from ``log``, step by step, the newest ``window`` of offsets first."""

    def __init__(self, log: Log, store: Store, window: int = WINDOW) -> None:
        self._log, self._store, self._window = log, store, window
        self._next_at = 0.0

    def step(self) -> bool:
        """Add some records; return true if there is nothing to do now."""
        if time.monotonic() < self._next_at:
            return True
        gap = self._store.history_gap()
        if gap is None:
            return True
        try:
            self._fill(*gap)
        except DamagedStore:
            raise
        except (LogError, StoreError):
            # The follow thread reports logs that are unavailable and disks that are full.
            self._next_at = time.monotonic() + _RETRY_S
            return True
        return False

    def _fill(self, begin: int, end: int) -> None:
        begin = max(begin, end - self._window)
        fetched = self._log.read_again(begin, RECORDS_MAX, BYTES_MAX)
        reached = min(fetched.next, end)
        if reached <= begin:
            raise LogError(f"the log does not give its records from {begin} on")
        records = [each for each in fetched.records if each.offset < reached]
        self._store.fill_history(slice_of(begin, records, reached))
