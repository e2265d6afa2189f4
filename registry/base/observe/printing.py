"""Metrics in Prometheus' text format, by its library; imported when metrics are first requested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from .metric_table import COUNTER, METRICS, Metric
from .metrics import BOUNDS_S, Sample, Series, Tally, add_up

_BY_NAME = {metric.name: metric for metric in METRICS}
_REQUESTS, _SECONDS = "registrar_http_requests", "registrar_http_request_seconds"
_PATHS = "karapace_http_requests"


def text(total: Tally, samples: Iterable[Sample]) -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Printed([*_of_requests(total), *_of_samples(samples)]))
    return generate_latest(registry)


class _Printed(Collector):
    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        """Yield the given metrics."""
        yield from self._families


def _of_requests(total: Tally) -> Iterator[Family]:
    for name in (_REQUESTS, _PATHS):
        counts = _family(_BY_NAME[name])
        for each in total.requests:
            counts.add_metric((each.method, each.route, str(each.status)), each.count)
        yield counts
    merged: dict[tuple[str, str, int], Series] = {}
    add_up(merged, (msgspec.structs.replace(each, status=0) for each in total.requests))
    times = HistogramMetricFamily(_SECONDS, _BY_NAME[_SECONDS].help, labels=_BY_NAME[_SECONDS].labels)
    for each in merged.values():
        times.add_metric((each.method, each.route), list(_cumulative(each.buckets)), each.seconds)
    yield times


def _cumulative(buckets: list[int]) -> Iterator[tuple[str, float]]:
    below = 0
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), buckets, strict=True):
        below += count
        yield bound, below


def _of_samples(samples: Iterable[Sample]) -> Iterator[Family]:
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
    for each in samples:
        family = families.get(each.name)
        if family is None:
            family = families[each.name] = _family(_BY_NAME[each.name])
        family.add_metric(each.labels, each.value)
    yield from families.values()


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    return kind(metric.name, metric.help, labels=metric.labels)
