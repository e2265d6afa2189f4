"""Metrics: each process counts for itself, and the node sums up all processes of its host on demand.

Counting is the increment of a dictionary's value, because it happens in every request; Prometheus' library
only prints (:mod:`.printing`). The counts of a process that has ended stay in the sums, so that counters
never fall while the node runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from .requests import Series, Tally


class Processes:
    """Sums of the tallies of a host's processes."""

    def __init__(self) -> None:
        self._living: dict[int, Tally] = {}
        self._ended: dict[tuple[str, str, int], Series] = {}

    def report(self, process: int, tally: Tally) -> None:
        """Store the newest tally of a process, under a number of its own."""
        self._living[process] = tally

    def ended(self, process: int) -> None:
        """Note that a process has ended; its counts stay."""
        tally = self._living.pop(process, None)
        if tally is not None:
            add_up(self._ended, tally.requests)

    def total(self) -> Tally:
        """Return the sums over all processes, and the longest lag."""
        sums: dict[tuple[str, str, int], Series] = {}
        add_up(sums, self._ended.values())
        for tally in self._living.values():
            add_up(sums, tally.requests)
        living = self._living.values()
        lag_s = max((tally.lag_s for tally in living), default=0.0)
        return Tally(list(sums.values()), sum(tally.connections for tally in living), lag_s)


def add_up(sums: dict[tuple[str, str, int], Series], series: Iterable[Series]) -> None:
    """Add series to ``sums``, by method, route and status."""
    for each in series:
        key = (each.method, each.route, each.status)
        found = sums.get(key)
        if found is None:
            sums[key] = msgspec.structs.replace(each, buckets=list(each.buckets))
            continue
        found.count += each.count
        found.seconds += each.seconds
        found.buckets = [a + b for a, b in zip(found.buckets, each.buckets, strict=True)]


class Gauge(NamedTuple):
    """A gauge of the node; or, with ``counter``, a counter."""

    name: str
    help: str
    value: float
    counter: bool = False
    labels: Mapping[str, str] = {}
