"""Filling of what the history lacks: what was loaded from a snapshot, or folded in a long backlog.

What is filled must not take the room that the next writes need: rows are more important than the history.
"""

from __future__ import annotations

import logging
import shutil
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
# The part of the map up to which the history is filled, and the free space on disk that it leaves.
_MAP_SHARE = 0.75
_DISK_BYTES_MIN = 64 << 20
_log = logging.getLogger(__name__)


class HistoryFiller:
    """Fills the history of ``store`` from ``log``, step by step, the newest ``window`` of offsets first."""

    def __init__(self, log: Log, store: Store, window: int = WINDOW) -> None:
        self._log, self._store, self._window = log, store, window
        self._next_at = 0.0
        self._lack = ""

    def step(self) -> bool:
        """Add some records; return true if there is nothing to do now."""
        if time.monotonic() < self._next_at:
            return True
        gap = self._store.history_gap()
        if gap is None:
            return True
        if not self._has_room(gap[1]):
            self._next_at = time.monotonic() + _RETRY_S
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

    def _has_room(self, end: int) -> bool:
        """Return true if there is room to fill the history below ``end``; log once if there is not."""
        before, self._lack = self._lack, self._lack_of_room()
        if self._lack and not before:
            _log.warning("the history before offset %d is not filled, because %s", end, self._lack)
        return not self._lack

    def _lack_of_room(self) -> str:
        stat = self._store.stat()
        if stat.bytes_used > stat.map_bytes * _MAP_SHARE:
            return f"the store has used {_MAP_SHARE:.0%} of store_map_bytes: raise it, or set history = false"
        try:
            free = shutil.disk_usage(self._store.path).free
        except OSError:
            return ""
        return "the disk is nearly full" if free < _DISK_BYTES_MIN else ""

    def _fill(self, begin: int, end: int) -> None:
        begin = max(begin, end - self._window)
        fetched = self._log.read_again(begin, RECORDS_MAX, BYTES_MAX)
        reached = min(fetched.next, end)
        if reached <= begin:
            raise LogError(f"the log does not return its records from {begin} on")
        records = [each for each in fetched.records if each.offset < reached]
        self._store.fill_history(slice_of(begin, records, reached))
