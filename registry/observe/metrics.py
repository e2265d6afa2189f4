"""Metrics: each process counts for itself, and the node adds all of its host's processes up when it is asked.

Counting is a dictionary's increment, because it happens on the path of every request; Prometheus' library
only prints. What a process that has ended counted stays in the sums, so that counters never fall while the
node lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .requests import BOUNDS_S, Series, Tally


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
            _add_up(self._ended, tally.requests)

    def total(self) -> Tally:
        """The sum over all processes."""
        sums: dict[tuple[str, str, int], Series] = {}
        _add_up(sums, self._ended.values())
        for tally in self._living.values():
            _add_up(sums, tally.requests)
        return Tally(list(sums.values()), sum(tally.connections for tally in self._living.values()))


def _add_up(sums: dict[tuple[str, str, int], Series], series: Iterable[Series]) -> None:
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


def text(total: Tally, gauges: Iterable[Gauge]) -> bytes:
    """Everything in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Printed([*_of_requests(total), *_of_gauges(gauges)]))
    return generate_latest(registry)


class _Printed(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """What was put together before."""
        yield from self._metrics


def _of_requests(total: Tally) -> Iterator[Metric]:
    counts = CounterMetricFamily(
        "registrar_http_requests", "Requests answered", labels=("method", "route", "status")
    )
    for each in total.requests:
        counts.add_metric((each.method, each.route, str(each.status)), each.count)
    yield counts
    merged: dict[tuple[str, str, int], Series] = {}
    _add_up(merged, (msgspec.structs.replace(each, status=0) for each in total.requests))
    times = HistogramMetricFamily(
        "registrar_http_request_seconds",
        "From a request's last byte to its answer",
        labels=("method", "route"),
    )
    for each in merged.values():
        times.add_metric((each.method, each.route), list(_cumulative(each.buckets)), each.seconds)
    yield times
    yield GaugeMetricFamily("registrar_http_connections", "Open connections", total.connections)


def _cumulative(buckets: list[int]) -> Iterator[tuple[str, float]]:
    below = 0
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), buckets, strict=True):
        below += count
        yield bound, below


def _of_gauges(gauges: Iterable[Gauge]) -> Iterator[Metric]:
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for gauge in gauges:
        family = families.get(gauge.name)
        if family is None:
            kind = CounterMetricFamily if gauge.counter else GaugeMetricFamily
            family = families[gauge.name] = kind(gauge.name, gauge.help, labels=tuple(gauge.labels))
        family.add_metric(tuple(gauge.labels.values()), gauge.value)
    yield from families.values()
