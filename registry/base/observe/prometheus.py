"""Metrics in Prometheus' text format, and those of processes from ``/proc``, both by its library.

It is imported when metrics are first requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
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


_PROC = Path("/proc")
# The beginnings of the modules that processes run, and the kinds of process that they are.
_KINDS = (
    ("registry.node.", "node"),
    ("registry.reader.", "reader"),
    ("registry.workers.", "worker"),
    ("snapshots.", "builder"),
)
_TOP, _OTHER = "supervisor", "other"
# How the values of the processes of one kind become one.
_MERGED: dict[str, Callable[[float, float], float]] = {
    "process_cpu_seconds": float.__add__,
    "process_resident_memory_bytes": float.__add__,
    "process_open_fds": max,
    "process_max_fds": min,
    "process_start_time_seconds": max,
}


def samples(top: int) -> Iterator[Sample]:
    """Yield the measurements of the process ``top`` and all below it, by kind of process."""
    counts: dict[str, int] = {}
    found: dict[tuple[str, str], float] = {}
    for process, kind in _tree(top):
        counts[kind] = counts.get(kind, 0) + 1
        for family in ProcessCollector(pid=lambda process=process: process, registry=None).collect():  # type: ignore[misc]
            merged = _MERGED.get(family.name)
            if merged is None:
                continue
            for sample in family.samples:
                key, value = (family.name, kind), float(sample.value)
                found[key] = merged(found[key], value) if key in found else value
    for kind, count in counts.items():
        yield Sample("registrar_processes", count, (kind,))
    for (name, kind), value in found.items():
        yield Sample(name, value, (kind,))


def _tree(top: int) -> Iterator[tuple[int, str]]:
    """Yield each process with its kind."""
    if not (_PROC / str(top)).exists():
        return
    yield top, _TOP
    waiting = [*_children(top)]
    while waiting:
        process = waiting.pop()
        yield process, _kind(process)
        waiting += _children(process)


def _children(process: int) -> Iterator[int]:
    try:
        threads = [*(_PROC / str(process) / "task").iterdir()]
    except OSError:
        return  # It has ended. A glob raises that too, depending on the moment.
    for thread in threads:
        try:
            yield from map(int, (thread / "children").read_text().split())
        except OSError:
            continue  # That thread has ended.


def _kind(process: int) -> str:
    try:
        # The command line of a forked process is its parent's.
        name = (_PROC / str(process) / "comm").read_text().strip().replace("-", ".") + "."
        words = [name, *(_PROC / str(process) / "cmdline").read_text(errors="replace").split("\0")]
    except OSError:
        return _OTHER
    named = (kind for word in words for start, kind in _KINDS if word.startswith(start))
    return next(named, _OTHER)
