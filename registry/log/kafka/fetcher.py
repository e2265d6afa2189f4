"""The fetch loop, which reads ahead of one follower by long polls, and reads of what it has read before."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from registry.domain.log_format.lineage import NOTHING, EpochEnd, Lineage
from registry.domain.log_format.records import AppendedBatch
from registry.log.contract import Fetched, LogError, RecordHeaders, Unreachable

from . import record_batches, requests
from .connection import TRY_S, Backoff, NoAnswer, Purpose
from .log_end import query_offset
from .log_identity import END, HEAD
from .partition import Partition
from .read_buffer import Chunk, ReadBuffer, Target
from .requests import Code, code_name

FETCH_BYTES = 2 << 20
LONG_POLL_S = 0.5
# For this long nothing is fetched unless a reader waits: after this node's own append, because the next
# record is most likely another one, and at the log's end, so that one fetch returns several records.
_REST_S = 0.5
# This node's own appends are fetched this often, because only fetched batches show their leader epoch.
_LEARN_EPOCH_EVERY_S = 60.0
# The topic's id is checked this often: brokers that fetch by name would not notice another topic.
_REFRESH_EVERY_S = 5.0

_log = logging.getLogger(__name__)


async def fetch(
    partition: Partition, offset: int, wait_s: float, purpose: Purpose, bytes_max: int = FETCH_BYTES
) -> requests.FetchAnswer:
    """Fetch once from ``offset`` on; the broker waits up to ``wait_s`` for a first record."""
    request = requests.Fetch(
        partition.topic,
        partition.topic_id,
        offset,
        epoch=partition.epoch,
        wait_ms=round(wait_s * 1000),
        bytes_max=min(bytes_max, FETCH_BYTES),
    )
    return requests.read_fetch(await partition.send(request, purpose, wait_s + TRY_S, reading_bounds=True))


async def headers_before(
    partition: Partition, offset: int, records_max: int, timeout_s: float
) -> RecordHeaders:
    """Return the headers of records before ``offset``, see :meth:`.contract.Log.headers_before`.

    Compaction removes headers together with their records.
    """
    deadline = partition.clock() + timeout_s
    since = position = max(0, offset - records_max)
    headers: list[tuple[int, bytes]] = []
    while position < offset:
        try:
            answer = await fetch(partition, position, 0.0, Purpose.QUERY)
        except NoAnswer as error:
            raise Unreachable(str(error)) from error
        if answer.code != Code.NONE or partition.clock() > deadline:
            raise Unreachable(f"cannot read the records from {position} on again: {code_name(answer.code)}")
        expected = position
        for run in record_batches.runs(answer.data, position, headers):
            for record in run:
                if record.offset != expected:
                    since = record.offset
                expected = record.offset + 1
        after = record_batches.next_offset(answer.data, position)
        if after == position:
            raise Unreachable(f"cannot read the records from {position} on again")
        if expected != after:
            since = after
        position = after
    return RecordHeaders(min(since, offset), [each for each in headers if since <= each[0] < offset])


class Fetcher:
    """The reads of one follower. :attr:`buffer` is for its thread; the rest runs on ``loop``."""

    def __init__(
        self,
        partition: Partition,
        loop: asyncio.AbstractEventLoop,
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._partition = partition
        self._loop = loop
        self._has_work = asyncio.Event()
        self._woken = asyncio.Event()
        self._rests_until = 0.0
        self._stepping: asyncio.Task[None] | None = None
        # Held so that the last batch is the last of the buffer, whichever thread adds it.
        self._adding = threading.Lock()
        # What others have read before, and the last batch that was read here.
        self._before = NOTHING
        self._last = b""
        self._last_epoch = EpochEnd(-1, 0)
        self._fetched_at = partition.clock()
        self.buffer = ReadBuffer(
            partition.mismatches,
            on_room=lambda: self._call(self._has_work.set),
            on_wait=lambda: self._call(self._wake) if self._rests_until else None,
            on_seek=lambda: self._call(self._restart),
            condition=condition,
        )
        partition.lineage = self.lineage

    def _call(self, callback: object) -> None:
        self._loop.call_soon_threadsafe(callback)  # type: ignore[arg-type]

    def begins_after(self, lineage: Lineage) -> None:
        """Remember what others have read before."""
        self._before = lineage

    def lineage(self) -> Lineage:
        """Return the lineage of everything that was read, here and before."""
        if not self._last:
            return self._before
        first = next(record_batches.batch_headers(self._last)).offset
        records = [record for run in record_batches.runs(self._last, first) for record in run]
        return self._before.with_records(records, *self._last_epoch)

    def put(self, offset: int, data: bytes) -> None:
        """Take this node's append at ``offset``; if it comes next it need not be fetched."""
        if self._is_next(offset):
            # Set first: a reader that wakes up may wait again at once, and must then rouse the loop.
            self._rests_until = self._partition.clock() + _REST_S
            self._add(self.buffer.target(), data)

    def _is_next(self, offset: int) -> bool:
        """Return true if a batch at ``offset`` comes next, and need not be fetched to learn its epoch."""
        knows_epoch = self._partition.clock() - self._fetched_at <= _LEARN_EPOCH_EVERY_S
        return knows_epoch and self.buffer.follows(offset)

    def offer(self, batch: AppendedBatch) -> bool:
        """Take a batch that another process has appended, see :meth:`.contract.AsyncLog.offer`.

        May be called from any thread: of two that add what comes next, the buffer takes one.
        """
        # A fetch would compare the log first. Once newer records are read, lost ones are no longer missed.
        if batch.epoch < 0 or batch.epoch != self._partition.compared_epoch(Purpose.FETCH):
            return False
        header = next(record_batches.batch_headers(batch.packed), None)
        if header is None or not self._is_next(header.offset):
            return False
        self._partition.advance_end(header.next)
        self.put(header.offset, batch.packed)
        return True

    def _wake(self) -> None:
        self._rests_until = 0.0
        self._woken.set()

    def _restart(self) -> None:
        """Cancel the long poll at the former position."""
        self._wake()
        if self._stepping is not None:
            self._stepping.cancel()
            self._partition.give_up_fetches()
        self._has_work.set()

    async def _rest(self) -> bool:
        """Wait until a fetch is due or a reader waits; return False if it was due already."""
        now = self._partition.clock()
        rest_end = min(self._rests_until, self._partition.refreshed_at + _REFRESH_EVERY_S)
        if now >= rest_end:
            self._rests_until = 0.0
            return False
        self._woken.clear()
        with suppress(TimeoutError):
            # Not wait_for, which until Python 3.12 loses a cancellation that coincides with the event.
            async with asyncio.timeout(rest_end - now):
                await self._woken.wait()
        return True

    async def run(self) -> None:
        """Fetch until cancelled."""
        backoff = Backoff()
        unreachable = False
        while True:
            await self._has_work.wait()
            target = self.buffer.target()
            if target is None:
                # The buffer's callbacks set the event on this loop, so later than this.
                self._has_work.clear()
                continue
            if self._rests_until and await self._rest():
                continue
            self._stepping = asyncio.create_task(self._step(target))
            try:
                await asyncio.wait([self._stepping])
                if self._stepping.cancelled():
                    continue
                self._stepping.result()
            except NoAnswer as error:
                if not unreachable:
                    _log.warning("cannot read the log, retrying: %s", error)
                unreachable = True
                await backoff()
                await self._recover()
            except LogError as error:
                self.buffer.fail(str(error))
                await backoff()
                await self._recover()
            except Exception as error:
                # If this task ended, nothing would be read any more, and no reader would notice.
                _log.exception("unexpected error in the fetch loop; retrying")
                self.buffer.fail(f"the log cannot be read: {error!r}")
                await backoff()
            else:
                if unreachable:
                    _log.info("the log can be read again")
                unreachable = False
                self.buffer.fail("")
                backoff.reset()

    async def _recover(self) -> None:
        try:
            await self._partition.recover()
        except LogError as error:
            self.buffer.fail(str(error))
        self.buffer.wake()

    async def _step(self, target: Target) -> None:
        partition = self._partition
        if partition.clock() - partition.refreshed_at > _REFRESH_EVERY_S:
            await partition.refresh()
        answer = await fetch(partition, target.offset, LONG_POLL_S, Purpose.FETCH)
        if answer.code == Code.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(target)
        elif answer.code == Code.TOPIC_AUTHORIZATION_FAILED:
            partition.raise_denied(answer.code, "Read")
        elif answer.code != Code.NONE:
            raise NoAnswer(f"fetching from offset {target.offset}: {code_name(answer.code)}", sent=False)
        else:
            if answer.end >= partition.end:
                partition.mismatches.clear(END)
            partition.advance_end(answer.end)
            partition.mismatches.clear(HEAD)
            after = record_batches.next_offset(answer.data, target.offset)
            if after >= max(answer.end, target.offset + 1):
                # At the log's end, rest until the reader has applied these records and waits for more: the
                # next fetch returns everything appended since, instead of competing with the applying.
                self._rests_until = partition.clock() + _REST_S
            self._add(target, answer.data)

    def _add(self, target: Target | None, data: bytes) -> None:
        last = record_batches.last_batch(data)
        if not last or target is None:
            return
        header = next(record_batches.batch_headers(last))
        after = max(target.offset, header.next)
        with self._adding:
            if self.buffer.add(target, Chunk(after, data, header.leader_epoch)):
                self._last = last
                if header.leader_epoch >= 0:
                    self._fetched_at = self._partition.clock()
                    self._last_epoch = EpochEnd(header.leader_epoch, after)

    async def _out_of_range(self, target: Target) -> None:
        """Find out if the head or the tail is gone. A reader at offset 0 continues with what is left."""
        partition, offset = self._partition, target.offset
        start = await query_offset(partition, requests.EARLIEST, TRY_S)
        if offset == 0 < start:
            self.buffer.skip(target, start)
            return
        if offset < start:
            partition.suspect(
                HEAD,
                f"the head of topic {partition.topic} is gone: the records from {offset} to {start - 1} "
                "were not read yet",
            )
        end = await query_offset(partition, requests.LATEST, TRY_S)
        if offset > end:
            partition.suspect(
                END,
                f"the topic {partition.topic} was truncated: it ended at {offset} or later "
                f"and now ends at {end}",
            )


_DEADLINE_S = 2 * TRY_S
_TIME_MAX = (1 << 63) - 1


async def read_again(partition: Partition, offset: int, records_max: int, bytes_max: int) -> Fetched:
    """Return records from ``offset`` on, see :meth:`.contract.Log.read_again`."""

    async def attempt() -> Fetched:
        return await _read_once(partition, offset, records_max, bytes_max)

    return await partition.retry_until(partition.clock() + _DEADLINE_S, attempt)


async def _read_once(partition: Partition, offset: int, records_max: int, bytes_max: int) -> Fetched:
    answer = await fetch(partition, offset, 0.0, Purpose.READ_AGAIN, bytes_max)
    if answer.code == Code.OFFSET_OUT_OF_RANGE:
        start = await query_offset(partition, requests.EARLIEST, TRY_S)
        return Fetched([], max(offset, start))
    if answer.code == Code.TOPIC_AUTHORIZATION_FAILED:
        partition.raise_denied(answer.code, "Read")
    if answer.code != Code.NONE:
        await partition.recover()
        raise NoAnswer(f"reading from offset {offset}: {code_name(answer.code)}", sent=False)
    found = []
    for run in record_batches.runs(answer.data, offset):
        found += run
        if len(found) >= records_max:
            del found[records_max:]
            return Fetched(found, found[-1].offset + 1)
    return Fetched(found, record_batches.next_offset(answer.data, offset))


async def first_after(partition: Partition, time_ms: int) -> int | None:
    """Return the offset of the first newer record, see :meth:`.contract.Log.first_after`."""
    # A negative time would ask for the log's end or start.
    found = await query_offset(partition, min(max(0, time_ms + 1), _TIME_MAX), _DEADLINE_S)
    return None if found < 0 else found
