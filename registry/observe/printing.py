"""Metrics in Prometheus' text format, by its library; imported when metrics are first requested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .metrics import BOUNDS_S, Gauge, Series, Tally, add_up


def text(total: Tally, gauges: Iterable[Gauge]) -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Printed([*_of_requests(total), *_of_gauges(gauges)]))
    return generate_latest(registry)


class _Printed(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the given metrics."""
        yield from self._metrics


def _of_requests(total: Tally) -> Iterator[Metric]:
    counts = CounterMetricFamily(
        "registrar_http_requests", "Requests answered", labels=("method", "route", "status")
    )
    for each in total.requests:
        counts.add_metric((each.method, each.route, str(each.status)), each.count)
    yield counts
    merged: dict[tuple[str, str, int], Series] = {}
    add_up(merged, (msgspec.structs.replace(each, status=0) for each in total.requests))
    times = HistogramMetricFamily(
        "registrar_http_request_seconds",
        "Seconds from a request's last byte to its answer",
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
