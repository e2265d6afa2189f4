"""Metrics: each process counts for itself, and the node adds all of its host's processes up when it is asked.

Counting is a dictionary's increment, because it happens on the path of every request; Prometheus' library
only prints (:mod:`.printing`). What a process that has ended counted stays in the sums, so that counters
never fall while the node lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from .requests import Series, Tally


class Processes:
    """The tallies of a host's processes, added up."""

    def __init__(self) -> None:
        self._living: dict[int, Tally] = {}
        self._ended: dict[tuple[str, str, int], Series] = {}

    def report(self, process: int, tally: Tally) -> None:
        """The newest tally of a process, under any number that is its own."""
        self._living[process] = tally

    def ended(self, process: int) -> None:
        """A process is gone; its counts stay."""
        tally = self._living.pop(process, None)
        if tally is not None:
            add_up(self._ended, tally.requests)

    def total(self) -> Tally:
        """The sum over all processes; of what they waited, the most."""
        sums: dict[tuple[str, str, int], Series] = {}
        add_up(sums, self._ended.values())
        for tally in self._living.values():
            add_up(sums, tally.requests)
        living = self._living.values()
        lag_s = max((tally.lag_s for tally in living), default=0.0)
        return Tally(list(sums.values()), sum(tally.connections for tally in living), lag_s)


def add_up(sums: dict[tuple[str, str, int], Series], series: Iterable[Series]) -> None:
    """Add further series to ``sums``, which are by method, route and status."""
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
    """A value of the node's that goes up and down, or, as a counter, only up."""

    name: str
    help: str
    value: float
    counter: bool = False
    labels: Mapping[str, str] = {}
