"""The log on Kafka: one partition, read ahead and appended to by a dedicated event-loop thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.log_format.records import AppendedBatch, Entry
from registry.log.contract import (
    NO_HEADERS,
    Claim,
    Fencing,
    Fetched,
    LogError,
    OnAppended,
    OutcomeUnknown,
    RecordHeaders,
    Unreachable,
)

from . import producer_id, release
from .appender import Appender
from .connection import TRY_S
from .fetcher import Fetcher, first_after, headers_before, read_again
from .host import Host, this_host
from .log_end import query_end, query_offset
from .partition import Partition
from .requests import EARLIEST
from .security import Security
from .timestamps import wall_ms
from .topic import TopicOptions, TopicState, check, open_topic

_START_TIMEOUT_S = 30.0
# A larger one costs as much to pass on as to fetch.
SMALL_BATCH_BYTES = 64 << 10
# More than any call exceeds its timeout by.
_SLACK_S = 30.0

T = TypeVar("T")


class KafkaLog:
    """The log in ``topic`` of the brokers ``servers`` (``HOST:PORT,…``).

    ``transactional_id`` is the same for all nodes of a cluster, so that a claim of one fences the others.
    ``append_timeout_s`` limits one append, claim or fence. ``fencing=False`` is for brokers that deny
    ``InitProducerId``: nothing then keeps a former primary from writing, a claim is ``Claim(-1, -1)``, and an
    append without an answer is :class:`.contract.OutcomeUnknown` at once. Where brokers forget idle producers
    sooner than ``fence_least_s``, a claim raises :class:`.contract.UnsafeFence`. ``options`` say if and how a
    missing topic is created. ``now_ms`` gives records their timestamps, in ms since the epoch. ``host``
    replaces the connections, the event loop and the clocks.

    One thread at a time reads and waits; any thread may make all other calls. Raises
    :class:`.contract.Unreachable` and :class:`.contract.LogError` if the log cannot be opened.
    """

    def __init__(
        self,
        security: Security,
        servers: str,
        topic: str,
        *,
        transactional_id: str,
        append_timeout_s: float,
        fencing: bool = True,
        fence_least_s: float = producer_id.LEAST_S,
        options: TopicOptions = TopicOptions(),  # noqa: B008 (it is immutable)
        start_timeout_s: float = _START_TIMEOUT_S,
        now_ms: Callable[[], int] = wall_ms,
        host: Host | None = None,
    ) -> None:
        host = this_host(security) if host is None else host
        self._options = options
        self._closed = False
        self._closing = threading.Lock()
        # Held while an append is handed to the loop, which therefore has it before it is stopped.
        self._beginning = threading.Lock()
        # The event loop itself keeps only weak references.
        self._appending: set[asyncio.Task[None]] = set()
        self._connections = host.connections
        self._event_loop = host.event_loop
        self._loop = host.event_loop.loop
        self._partition = Partition(self._connections, servers, topic, clock=host.clock)
        self._fetcher = Fetcher(self._partition, self._loop, host.condition)
        try:
            self._topic: TopicState = self._do(
                open_topic(self._partition, options, start_timeout_s), start_timeout_s
            )
            self._appender = Appender(
                self._partition,
                transactional_id,
                timeout_s=append_timeout_s,
                batch_bytes_max=self._topic.batch_bytes_max,
                fencing=fencing,
                fence_least_s=fence_least_s,
                on_appended=self._fetcher.put,
                now_ms=now_ms,
                clock=host.boot_clock,
            )
            self._append_timeout_s = append_timeout_s
            self._appender.forbid(_no_primary(self._topic.unsafe))
            self._do(self._appender.check_expiration(start_timeout_s), start_timeout_s)
            self._do(query_end(self._partition, start_timeout_s), start_timeout_s)
            self._brokers = self._do(self._describe(), start_timeout_s)
            self._reading = self._do(self._start_reading(), start_timeout_s)
        except BaseException:
            self.close()
            raise

    async def _describe(self) -> str:
        return release.describe(self._partition.api_versions(), self._appender.assumption)

    async def _start_reading(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._fetcher.run())

    @property
    def brokers(self) -> str:
        """The brokers' release when the log was opened, and which features are missing there, as text."""
        return self._brokers

    @property
    def identity(self) -> str:
        """The cluster's id, the topic's name and its id, with slashes between."""
        return self._partition.identity

    @property
    def record_bytes_max(self) -> int:
        """Derived from the topic's ``max.message.bytes``, as of the last check of the topic."""
        return self._appender.record_bytes_max

    @property
    def tombstone_retention_ms(self) -> int:
        """The topic's ``delete.retention.ms``, as of the last check of the topic."""
        return self._topic.tombstones_ms

    @property
    def compaction_lag_ms(self) -> int:
        """The topic's ``min.compaction.lag.ms``, as of the last check of the topic."""
        return self._topic.lag_ms

    @property
    def fencing(self) -> Fencing:
        """The state of fencing at the last claim or check of the topic, see :meth:`.contract.Log.fencing`."""
        return self._appender.fencing

    def end(self) -> int:
        """Return the end last known from fetches, appends and queries, see :meth:`.contract.Log.end`."""
        self._alive()
        return self._partition.end

    def query_end(self, timeout_s: float) -> int:
        """Query the log's end, see :meth:`.contract.Log.query_end`.

        Sends ListOffsets to the partition leader; other replicas confirm it.
        """
        return self._do(query_end(self._partition, timeout_s), timeout_s)

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return fetched records, see :meth:`.contract.Log.read`.

        Any offset other than the last read's ``next`` discards what was fetched.
        """
        self._alive()
        return self._fetcher.buffer.read(offset, records_max, bytes_max)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Wait until a read from ``offset`` would advance, see :meth:`.contract.Log.wait`."""
        self._alive()
        return self._fetcher.buffer.wait(offset, timeout_s)

    def claim(self) -> Claim:
        """Claim the log with the next epoch of the transactional id, see :meth:`.contract.Log.claim`."""
        return self._do(self._appender.claim(), 2 * self._append_timeout_s)

    def fence(self, earlier: Claim) -> None:
        """Fence an earlier claim, see :meth:`.contract.Log.fence`."""
        self._do(self._appender.fence(earlier), 2 * self._append_timeout_s)

    def divergence(self, lineage: Lineage) -> int | None:
        """Return an offset where this log differs from ``lineage``, see :meth:`.contract.Log.divergence`."""
        return self._do(self._divergence(lineage), 4 * TRY_S)

    async def _divergence(self, lineage: Lineage) -> int | None:
        if lineage == NOTHING:
            return None
        deadline = self._partition.clock() + 2 * TRY_S
        divergence = await self._partition.retry_until(deadline, lambda: self._partition.divergence(lineage))
        if divergence is None:
            self._fetcher.begins_after(lineage)
            self._partition.compare_again()
        return divergence

    def headers_before(self, offset: int, records_max: int) -> RecordHeaders:
        """Return the headers of records before ``offset``, see :meth:`.contract.Log.headers_before`."""
        return self._do(headers_before(self._partition, offset, records_max, TRY_S), TRY_S)

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Fetch records apart from the follower, see :meth:`.contract.Log.read_again`."""
        return self._do(read_again(self._partition, offset, records_max, bytes_max), 2 * TRY_S)

    def query_start(self) -> int:
        """Ask the partition leader, see :meth:`.contract.Log.query_start`."""
        return self._do(query_offset(self._partition, EARLIEST, TRY_S), TRY_S)

    def first_after(self, time_ms: int) -> int | None:
        """Ask the partition leader, see :meth:`.contract.Log.first_after`."""
        return self._do(first_after(self._partition, time_ms), 2 * TRY_S)

    def append(
        self, entries: Sequence[Entry], cuts: Sequence[int] = (), headers: Mapping[int, bytes] = NO_HEADERS
    ) -> int:
        """Append entries, see :meth:`.contract.Log.append`.

        A piece is one record batch, which brokers store atomically.
        """
        return self._do(self._appender.append(entries, cuts, headers), None, ended=OutcomeUnknown)

    def begin_append(
        self, entries: Sequence[Entry], cuts: Sequence[int], headers: Mapping[int, bytes], done: OnAppended
    ) -> None:
        """Begin an append, see :meth:`.contract.AsyncLog.begin_append`."""
        append = partial(self._appender.append, entries, cuts, headers)
        with self._beginning:
            self._alive()
            self._loop.call_soon_threadsafe(self._begin, append, done)

    def _begin(self, append: Callable[[], Coroutine[Any, Any, int]], done: OnAppended) -> None:
        if self._closed:
            done(LogError("the log is closed"))
            return
        appending = self._loop.create_task(_report(append, done))
        self._appending.add(appending)
        appending.add_done_callback(partial(self._end, done))

    def _end(self, done: OnAppended, appending: asyncio.Task[None]) -> None:
        self._appending.discard(appending)
        if appending.cancelled():
            done(OutcomeUnknown("the log was closed meanwhile"))

    def is_at_hand(self, offset: int) -> bool:
        """Look into the buffer, see :meth:`.contract.AsyncLog.is_at_hand`."""
        return self._fetcher.buffer.is_at_hand(offset)

    def last_append(self, end: int) -> AppendedBatch | None:
        """Return the last batch, see :meth:`.contract.AsyncLog.last_append`."""
        batch = self._appender.last_batch(end)
        return None if batch is None or len(batch.packed) > SMALL_BATCH_BYTES else batch

    def offer(self, batch: AppendedBatch) -> bool:
        """Put a batch into the buffer, see :meth:`.contract.AsyncLog.offer`."""
        return not self._closed and self._fetcher.offer(batch)

    def check_topic(self) -> list[str]:
        """Check the topic's settings again; return warnings, each with the command that fixes it.

        Raises :class:`.contract.LogError` for settings that a log cannot use, :class:`.contract.Unreachable`.
        """
        self._topic = self._do(self._check_topic(), 4 * TRY_S)
        self._appender.forbid(_no_primary(self._topic.unsafe))
        self._appender.batch_bytes_max = self._topic.batch_bytes_max
        return [*self._topic.warnings, *self._do(self._appender.check_expiration(TRY_S), 4 * TRY_S)]

    async def _check_topic(self) -> TopicState:
        deadline = self._partition.clock() + TRY_S
        return await self._partition.retry_until(deadline, lambda: check(self._partition, self._options))

    def close(self) -> None:
        """Release the log, see :meth:`.contract.Log.close`."""
        with self._closing:
            if self._closed:
                return
            with self._beginning:
                self._closed = True
            self._fetcher.buffer.close()
            self._event_loop.stop(self._cancel_tasks(), _SLACK_S)

    async def _cancel_tasks(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._connections.close()

    def _do(
        self, call: Coroutine[Any, Any, T], timeout_s: float | None, *, ended: type[LogError] = LogError
    ) -> T:
        """Run ``call``, which has its own timeout, on the loop and return its result.

        Raises ``ended`` if the log is closed meanwhile.
        """
        try:
            self._alive()
        except BaseException:
            call.close()
            raise
        try:
            return self._event_loop.run(call, None if timeout_s is None else timeout_s + _SLACK_S)
        except concurrent.futures.CancelledError as error:
            raise ended("the log was closed meanwhile") from error
        except TimeoutError as error:
            raise Unreachable("the log's event loop is stuck") from error

    def _alive(self) -> None:
        if self._closed:
            raise LogError("the log is closed")


async def _report(append: Callable[[], Coroutine[Any, Any, int]], done: OnAppended) -> None:
    """Append, and call ``done`` with the result in the same iteration of the event loop."""
    try:
        result: int | Exception = await append()
    except Exception as error:
        result = error
    done(result)


def _no_primary(unsafe: str) -> str:
    return f"no node may become primary: {unsafe}" if unsafe else ""
