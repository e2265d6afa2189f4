"""Counts of one process' requests."""

from __future__ import annotations

from bisect import bisect_left

import msgspec

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_OTHER = "other"
_SERIES_MAX = 2000


class Series(msgspec.Struct, array_like=True):
    """Requests of one method, route and status."""

    method: str
    route: str
    status: int
    count: int
    seconds: float
    # Number of requests by duration, not cumulative: up to each of BOUNDS_S, and longer.
    buckets: list[int]


class Tally(msgspec.Struct, array_like=True):
    """The counts of one process since its start."""

    requests: list[Series]
    # Open connections.
    connections: int = 0
    # Recent lag of its event loop; see .pulse.Pulse.
    lag_s: float = 0.0


class Requests:
    """Counts one process's requests."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, int], Series] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        key = (method, route, status)
        series = self._series.get(key)
        if series is None:
            series = self._new(key)
        series.count += 1
        series.seconds += seconds
        series.buckets[bisect_left(BOUNDS_S, seconds)] += 1

    def _new(self, key: tuple[str, str, int]) -> Series:
        # Clients choose methods, and thereby statuses, so the number of series must be bounded.
        if len(self._series) >= _SERIES_MAX:
            key = (_OTHER, _OTHER, 0)
        return self._series.setdefault(key, Series(*key, 0, 0.0, [0] * (len(BOUNDS_S) + 1)))

    def tally(self, connections: int = 0, lag_s: float = 0.0) -> Tally:
        """Return all counts so far."""
        return Tally(list(self._series.values()), connections, lag_s)
