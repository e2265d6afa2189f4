"""Metrics of each process, summed up on demand, and pauses of event loops and heartbeats.

Counting is the increment of a dictionary's value, because it happens in every request; Prometheus' library
only prints (:mod:`.prometheus`). The counts of a process that has ended stay in the sums, so that counters
never fall while the node runs.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple, Protocol

import msgspec

from .logs import log_request

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_RESULTS = ("get_success", "get_failure", "mutate_success", "mutate_failure")
_OTHER = "other"
_SERIES_MAX = 2000
# Routes whose queries are not logged: issuers send codes for tokens back to the console.
_WITHOUT_QUERY = frozenset({"/ui"})
# Routes that probes and Prometheus ask: they fail on purpose, and come all the time.
PROBED = frozenset({"/health/live", "/health/started", "/health/ready", "/_health", "/metrics"})
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")}


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
    # Audit entries that could not be written.
    audit_lost: int = 0
    # Listeners of the change feed, and those that were dropped because they read too slowly.
    listeners: int = 0
    dropped: int = 0
    # Results within batches of associations, by the names of :class:`BatchResults`.
    results: dict[str, int] = msgspec.field(default_factory=dict)


class BatchResults:
    """Counts one process's results within batches, by what the batch does and whether they succeeded."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(BATCH_RESULTS, 0)

    def add(self, batch: str, succeeded: int, failed: int) -> None:
        """Count the results of one batch, which is ``get`` or ``mutate``."""
        self.counts[f"{batch}_success"] += succeeded
        self.counts[f"{batch}_failure"] += failed


class Answered(NamedTuple):
    """Sums over all requests."""

    requests: int
    failed: int  # with a status of 500 or above, except for probes
    seconds: float


class Processes:
    """Sums of the tallies of a host's processes."""

    def __init__(self) -> None:
        self._living: dict[int, Tally] = {}
        self._ended: dict[tuple[str, str, int], Series] = {}
        self._ended_audit_lost = self._ended_dropped = 0
        self._ended_results = Counter[str]()

    def report(self, process: int, tally: Tally) -> None:
        """Store the newest tally of a process, under a number of its own."""
        self._living[process] = tally

    def note_end(self, process: int) -> None:
        """Note that a process has ended; its counts stay."""
        tally = self._living.pop(process, None)
        if tally is not None:
            add_up(self._ended, tally.requests)
            self._ended_audit_lost += tally.audit_lost
            self._ended_dropped += tally.dropped
            self._ended_results.update(tally.results)

    def sum_answered(self) -> Answered:
        """Return the sums over all requests of all processes."""
        count, failed, seconds = 0, 0, 0.0
        for each in chain(self._ended.values(), *(tally.requests for tally in self._living.values())):
            count += each.count
            failed += each.count if each.status >= 500 and each.route not in PROBED else 0
            seconds += each.seconds
        return Answered(count, failed, seconds)

    def total(self) -> Tally:
        """Return the sums over all processes, and the longest lag."""
        sums: dict[tuple[str, str, int], Series] = {}
        add_up(sums, self._ended.values())
        for tally in self._living.values():
            add_up(sums, tally.requests)
        living = self._living.values()
        results = sum((Counter(tally.results) for tally in living), self._ended_results)
        lag_s = max((tally.lag_s for tally in living), default=0.0)
        return Tally(
            list(sums.values()),
            sum(tally.connections for tally in living),
            lag_s,
            self._ended_audit_lost + sum(tally.audit_lost for tally in living),
            sum(tally.listeners for tally in living),
            self._ended_dropped + sum(tally.dropped for tally in living),
            {name: results[name] for name in BATCH_RESULTS},
        )


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


class Sample(NamedTuple):
    """A value of a metric of :mod:`.metric_table`."""

    name: str
    value: float
    labels: tuple[str, ...] = ()  # values, in the order of the table


class Headers(list[tuple[bytes, bytes]]):
    """Headers in order, names in lower case; requests of a connection that have the same ones share them.

    So what is found out about them is found out once. Each attribute is missing until it is set.
    """

    __slots__ = ("preferences", "targets")
    # Where targets of requests with these headers are put, set by a :class:`TargetCounts`.
    targets: list[bytes]
    # What the fast path has read in them.
    preferences: Any


class RequestHead(Protocol):
    """The part of a request that is counted and logged."""

    @property
    def method(self) -> bytes:
        """Method, as it was sent."""
        ...

    @property
    def target(self) -> bytes:
        """Path and query, as they were sent."""
        ...

    @property
    def headers(self) -> Headers:
        """Names in lower case, and values."""
        ...


class Served(NamedTuple):
    """A request that was answered."""

    request: RequestHead | None  # ``None`` if it could not be parsed
    client: str  # the address at the other end of the connection; empty if it has none
    status: int
    seconds: float
    size: int  # bytes of the answer's body
    route: str = ""  # the template of the path; empty if there is none
    request_id: bytes = b""
    principal: str = ""
    kind: str = ""  # of the principal: how it authenticated


# Maps a connection's address and a request's headers to the client's address behind trusted proxies.
AddressOf = Callable[[str, Iterable[tuple[bytes, bytes]]], str]


class TargetCounts(Protocol):
    """Counts of requests by their targets."""

    # Targets that may wait in a list to be counted.
    room: int

    def add(self, served: Served, request: RequestHead) -> None:
        """Count a request whose headers have no list, and set the list of later ones with these headers."""
        ...

    def count(self, targets: list[bytes]) -> None:
        """Count what waits in a list of headers, and empty it."""
        ...


# Returns where requests of a method, route and status are counted by their targets, if they are.
CountsFor = Callable[[str, str, int], TargetCounts | None]


class Observed:
    """Called with every answer: counts it, and writes the access log if enabled."""

    def __init__(
        self,
        *,
        access_log: bool,
        address_of: AddressOf = lambda address, _: address,
        counts_for: CountsFor = lambda *_: None,
    ) -> None:
        """``address_of`` is for the access log."""
        self._series: dict[tuple[str, str, int], tuple[Series, TargetCounts | None]] = {}
        self._counts_for = counts_for
        self._access_log = access_log
        self._address_of = address_of

    def __call__(self, served: Served) -> None:
        """Count one answer."""
        request, _, status, seconds, _, route, _, _, _ = served
        method = "none" if request is None else _METHODS.get(request.method, "other")
        try:
            series, counts = self._series[method, route, status]
        except KeyError:
            series, counts = self._add_series(method, route, status)
        series.count += 1
        series.seconds += seconds
        series.buckets[bisect_left(BOUNDS_S, seconds)] += 1
        if counts is not None and request is not None:
            # Most requests come here. Counts of thousands of targets are in no cache of the processor by the
            # time of the next request, so many targets at once are counted in less time than each by itself.
            try:
                targets = request.headers.targets
            except AttributeError:
                counts.add(served, request)
            else:
                targets.append(request.target)
                if len(targets) >= counts.room:
                    counts.count(targets)
        if self._access_log:
            target = "-" if request is None else request.target.decode("latin-1")
            if served.route in _WITHOUT_QUERY:
                target = target.partition("?")[0]
            address = self._address_of(served.client, () if request is None else request.headers)
            log_request(
                method, target, served.status, served.seconds, served.size,
                address=address, principal=served.principal, request_id=served.request_id.decode("latin-1"),
            )  # fmt: skip

    def _add_series(self, method: str, route: str, status: int) -> tuple[Series, TargetCounts | None]:
        # Clients choose methods, and thereby statuses, so the number of series must be bounded.
        full = len(self._series) >= _SERIES_MAX
        key = (_OTHER, _OTHER, 0) if full else (method, route, status)
        found = self._series.get(key)
        if found is None:
            named = (key[0], key[1] or "none", key[2])
            found = Series(*named, 0, 0.0, [0] * (len(BOUNDS_S) + 1)), self._counts_for(*named)
            self._series[key] = found
        return found

    def tally(
        self,
        connections: int,
        lag_s: float = 0.0,
        audit_lost: int = 0,
        *,
        listeners: int = 0,
        dropped: int = 0,
        results: dict[str, int] | None = None,
    ) -> Tally:
        """Return the counts so far."""
        counts = [series for series, _ in self._series.values()]
        return Tally(counts, connections, lag_s, audit_lost, listeners, dropped, results or {})


# Seconds for which a pause is reported, at least; twice as long at most.
REMEMBERED_S = 60.0
# Interval between two beats of an event loop.
BEAT_S = 0.1


class Pauses:
    """The longest recent time between two beats. One thread beats, any thread may read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._last: float | None = None
        self._since = clock()
        self._now = self._before = 0.0

    def beat(self) -> None:
        """Note a beat."""
        now = self._clock()
        if self._last is not None:
            self._now = max(self._now, now - self._last)
        self._last = now
        if now - self._since >= REMEMBERED_S:
            self._before, self._now, self._since = self._now, 0.0, now

    def age_s(self) -> float:
        """Return the time since the last beat; 0 before the first."""
        return 0.0 if self._last is None else self._clock() - self._last

    def longest_s(self) -> float:
        """Return the longest pause, including the present one."""
        return max(self._now, self._before, self.age_s())


class Pulse:
    """Beats on an event loop, to measure how late the loop runs its callbacks."""

    def __init__(self) -> None:
        self._pauses = Pauses()
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat on the running loop."""
        self._beat(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop beating."""
        if self._next is not None:
            self._next.cancel()

    def lag_s(self) -> float:
        """Return the longest recent delay of a callback that was due."""
        return max(0.0, self._pauses.longest_s() - BEAT_S)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pauses.beat()
        self._next = loop.call_later(BEAT_S, self._beat, loop)
