"""What one process counts, for itself, on the path of every request: a dictionary's increment."""

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
    buckets: list[int]
    """How many took at most each of :data:`BOUNDS_S`, not cumulative; the last: longer."""


class Tally(msgspec.Struct, array_like=True):
    """What one process has counted since it started."""

    requests: list[Series]
    connections: int = 0
    """Open now."""
    lag_s: float = 0.0
    """How late its event loop was of late; see :class:`.pulse.Pulse`."""


class Requests:
    """Counts one process's requests."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, int], Series] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request."""
        key = (method, route, status)
        series = self._series.get(key)
        if series is None:
            series = self._new(key)
        series.count += 1
        series.seconds += seconds
        series.buckets[bisect_left(BOUNDS_S, seconds)] += 1

    def _new(self, key: tuple[str, str, int]) -> Series:
        # Clients choose methods and statuses follow them; what they can make us remember is bounded.
        if len(self._series) >= _SERIES_MAX:
            key = (_OTHER, _OTHER, 0)
        return self._series.setdefault(key, Series(*key, 0, 0.0, [0] * (len(BOUNDS_S) + 1)))

    def tally(self, connections: int = 0, lag_s: float = 0.0) -> Tally:
        """All counts so far."""
        return Tally(list(self._series.values()), connections, lag_s)
