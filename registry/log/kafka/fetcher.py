"""Reading ahead: a task fetches by long polls into a bounded buffer, from which a follower's thread reads."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from registry.domain.log_format.lineage import NOTHING, EpochEnd, Lineage
from registry.domain.log_format.records import Record
from registry.log.contract import Fetched, LogError, RecordHeaders, Unreachable

from . import record_batches, requests
from .connection import NoAnswer, Purpose
from .partition import END, HEAD, TRY_S, Partition, Pause
from .requests import Code, code_name

AHEAD_BYTES = 4 << 20
"""Fetching stops when so much lies in the buffer: what a step of a follower far behind takes at once. More
only takes memory, as folding is slower than fetching."""
FETCH_BYTES = 2 << 20
LONG_POLL_S = 0.5
_REST_S = 0.5
"""So long after an own append nothing is fetched that nobody waits for: what comes next is most likely the
next own one."""
# An own append is fetched as often, because only what was fetched tells its leader epoch.
_LEARN_EVERY_S = 60.0
_LOOK_EVERY_S = 5.0
"""The topic's id is looked at as often: brokers that fetch by name would not notice another topic."""

_log = logging.getLogger(__name__)


class _Chunk(NamedTuple):
    """The answer to one fetch."""

    offset: int
    next: int
    data: bytes
    epoch: int
    """The leader epoch of its last batch; -1: not known."""


class Prefetch:
    """What one follower reads from ``partition``. :meth:`run` is a task of ``loop``; the rest is for threads.

    There is one position. Another offset than the one reached drops the buffer and begins there.
    """

    def __init__(self, partition: Partition, loop: asyncio.AbstractEventLoop) -> None:
        self._partition = partition
        self._loop = loop
        self._wanted = asyncio.Event()
        self._roused = asyncio.Event()
        self._rests_until = 0.0
        self._stepping: asyncio.Task[None] | None = None
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._position: int | None = None
        self._turn = 0
        self._chunks: deque[_Chunk] = deque()
        self._bytes = 0
        self._trouble: str = ""
        self._closed = False
        # Guarded by _taking, which is taken first:
        self._taking = threading.Lock()
        self._next: int | None = None
        self._chunk_next = 0
        self._runs: Iterator[list[Record]] = iter(())
        self._run: list[Record] = []
        self._at = 0
        self._headers: list[tuple[int, bytes]] = []
        self._chunk_epoch = -1
        self._epoch, self._epoch_end = -1, 0
        # On the loop:
        self._before = NOTHING
        self._last = b""
        self._last_epoch = EpochEnd(-1, 0)
        self._fetched_at = time.monotonic()
        partition.read = self.lineage

    # From threads.

    def read(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """See :meth:`.contract.Log.read`."""
        with self._taking:
            self._begin_at(offset)
            try:
                found = self._take(records_max, bytes_max)
            except LogError:
                self._next = None
                raise
            assert self._next is not None
            headers = self._notes_before(self._next)
            return Fetched(found, self._next, headers, self._epoch, self._epoch_end)

    def _notes_before(self, offset: int) -> tuple[tuple[int, bytes], ...]:
        """The record headers of what was read up to ``offset``; they are handed over once."""
        count = sum(at < offset for at, _ in self._headers)
        headers = tuple(self._headers[:count])
        del self._headers[:count]  # in place: what decodes the records goes on adding to it
        return headers

    def wait(self, offset: int, timeout_s: float) -> bool:
        """See :meth:`.contract.Log.wait`."""
        with self._taking:
            self._begin_at(offset)
            if self._at < len(self._run):
                return True
        if self._rests_until:
            self._loop.call_soon_threadsafe(self._rouse)
        with self._changed:
            self._changed.wait_for(lambda: self._chunks or self._over(), timeout_s)
            self._check()
            return bool(self._chunks)

    def close(self) -> None:
        """End all waiting."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Let those who wait look whether the log is still the one."""
        with self._changed:
            self._changed.notify_all()

    def _over(self) -> bool:
        return self._closed or bool(self._trouble) or self._partition.foreign

    def _check(self) -> None:
        if self._closed:
            raise LogError("the log is closed")
        self._partition.check_foreign()
        if self._trouble:
            raise LogError(self._trouble)

    def _begin_at(self, offset: int) -> None:
        with self._changed:
            self._check()
            if self._next == offset:
                return
            self._next, self._chunk_next = offset, offset
            self._runs, self._run, self._at, self._headers = iter(()), [], 0, []
            self._chunk_epoch = self._epoch = -1
            self._position, self._turn = offset, self._turn + 1
            self._chunks.clear()
            self._bytes = 0
        self._loop.call_soon_threadsafe(self._turn_round)

    def _take(self, records_max: int, bytes_max: int) -> list[Record]:
        found: list[Record] = []
        left = bytes_max
        while len(found) < records_max and self._more():
            first, last = self._at, min(len(self._run), self._at + records_max - len(found))
            for record in islice(self._run, first, last):
                left -= len(record.key or b"") + len(record.value or b"")
                if left < 0 and found:
                    return found
                found.append(record)
                self._at += 1
                self._next = record.offset + 1
        self._more()
        return found

    def _more(self) -> bool:
        """Whether another record is at hand. Goes over what no record follows, up to the log's end."""
        while self._at >= len(self._run):
            if (run := next(self._runs, None)) is not None:
                self._run, self._at = run, 0
                continue
            self._next = self._chunk_next
            if self._chunk_epoch >= 0:
                self._epoch, self._epoch_end = self._chunk_epoch, self._chunk_next
            with self._changed:
                if not self._chunks:
                    return False
                full = self._bytes >= AHEAD_BYTES
                chunk = self._chunks.popleft()
                self._bytes -= len(chunk.data)
            if full:  # else the loop does not wait for room, and to wake it would be for nothing
                self._loop.call_soon_threadsafe(self._wanted.set)
            self._runs, self._chunk_next = (
                record_batches.runs(chunk.data, self._next, self._headers),
                chunk.next,
            )
            self._chunk_epoch = chunk.epoch
        return True

    # On the loop.

    def begins_after(self, lineage: Lineage) -> None:
        """Remember what was read before, by others than this one."""
        self._before = lineage

    def lineage(self) -> Lineage:
        """What is remembered of the log: what was read before, and the last batch that was read here."""
        if not self._last:
            return self._before
        first = next(record_batches.batch_headers(self._last)).offset
        records = [record for run in record_batches.runs(self._last, first) for record in run]
        return self._before.extended(records, *self._last_epoch)

    def put(self, offset: int, data: bytes) -> None:
        """The log has taken ``data`` at ``offset``: if it comes next and has room, it need not be fetched."""
        learns = time.monotonic() - self._fetched_at > _LEARN_EVERY_S
        if offset == self._position and self._bytes < AHEAD_BYTES and not learns:
            # First, as whoever waits for it may wait for more at once.
            self._rests_until = time.monotonic() + _REST_S
            self._add(offset, self._turn, data)

    def _rouse(self) -> None:
        self._rests_until = 0.0
        self._roused.set()

    async def _rest(self) -> bool:
        """Wait until it is time to fetch again, or somebody waits. Returns whether it was not."""
        now = time.monotonic()
        until = min(self._rests_until, self._partition.heard + _LOOK_EVERY_S)
        if now >= until:
            self._rests_until = 0.0
            return False
        self._roused.clear()
        with suppress(TimeoutError):
            # Not wait_for, which until Python 3.12 loses a cancellation that comes together with the event.
            async with asyncio.timeout(until - now):
                await self._roused.wait()
        return True

    def _turn_round(self) -> None:
        """Give up the long poll at the former position."""
        self._rouse()
        if self._stepping is not None:
            self._stepping.cancel()
            self._partition.give_up_fetches()
        self._wanted.set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        pause = Pause()
        cut_off = ""
        while True:
            await self._wanted.wait()
            with self._changed:
                position, turn = self._position, self._turn
                if position is None or self._bytes >= AHEAD_BYTES:
                    self._wanted.clear()
                    continue
            if self._rests_until and await self._rest():
                continue
            self._stepping = asyncio.create_task(self._step(position, turn))
            try:
                await asyncio.wait([self._stepping])
                if self._stepping.cancelled():
                    continue
                self._stepping.result()
            except NoAnswer as error:
                if not cut_off:
                    _log.warning("the log cannot be read at present: %s", error)
                cut_off = str(error)
                await pause()
                await self._recover()
            except LogError as error:
                self._fail(str(error))
                await pause()
                await self._recover()
            except Exception as error:
                # Were this task to end, nothing would be read any more, and nobody told.
                _log.exception("reading ahead goes on after an error that should not be")
                self._fail(f"the log cannot be read: {error!r}")
                await pause()
            else:
                if cut_off:
                    _log.info("the log can be read again")
                cut_off = ""
                self._fail("")
                pause.reset()

    async def _recover(self) -> None:
        try:
            await self._partition.recover()
        except LogError as error:
            self._fail(str(error))
        self.wake()

    def _fail(self, trouble: str) -> None:
        if trouble != self._trouble:
            with self._changed:
                self._trouble = trouble
                self._changed.notify_all()

    async def _step(self, position: int, turn: int) -> None:
        partition = self._partition
        if time.monotonic() - partition.heard > _LOOK_EVERY_S:
            await partition.refresh()
        answer = await fetch(partition, position, LONG_POLL_S, Purpose.FETCH)
        if answer.code == Code.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(position, turn)
        elif answer.code == Code.TOPIC_AUTHORIZATION_FAILED:
            partition.denied(answer.code, "Read")
        elif answer.code != Code.NONE:
            raise NoAnswer(f"fetching from offset {position}: {code_name(answer.code)}", sent=False)
        else:
            if answer.end >= partition.end:
                partition.clear(END)
            partition.note_end(answer.end)
            partition.clear(HEAD)
            if record_batches.next_offset(answer.data, position) >= max(answer.end, position + 1):
                # At the log's end the next fetch waits until what came was applied: who asks for more only
                # then gets all that has come since, and to ask meanwhile would hold up the applying.
                self._rests_until = time.monotonic() + _REST_S
            self._add(position, turn, answer.data)

    def _add(self, position: int, turn: int, data: bytes) -> None:
        last = record_batches.last_batch(data)
        if not last:
            return
        header = next(record_batches.batch_headers(last))
        after = max(position, header.next)
        with self._changed:
            if turn != self._turn or position != self._position or after <= position:
                return
            self._position = after
            self._last = last
            if header.leader_epoch >= 0:
                self._fetched_at = time.monotonic()
                self._last_epoch = EpochEnd(header.leader_epoch, after)
            self._chunks.append(_Chunk(position, after, data, header.leader_epoch))
            self._bytes += len(data)
            self._changed.notify_all()

    async def _out_of_range(self, position: int, turn: int) -> None:
        """Tell a head that is gone from a tail that is gone; from 0 on, begin with what is left."""
        partition = self._partition
        start = await partition.offset_at(requests.EARLIEST, TRY_S)
        if position == 0 < start:
            with self._changed:
                if turn == self._turn:
                    self._position = start
            return
        if position < start:
            partition.suspect(
                HEAD,
                f"the head of topic {partition.topic} is gone: the records from {position} to {start - 1} "
                "were not read yet",
            )
        end = await partition.offset_at(requests.LATEST, TRY_S)
        if position > end:
            partition.suspect(
                END,
                f"the topic {partition.topic} was cut: it ended at {position} or later and now ends at {end}",
            )


async def fetch(partition: Partition, offset: int, wait_s: float, purpose: Purpose) -> requests.FetchAnswer:
    """One fetch from ``offset`` on, which waits as long for a first record."""
    request = requests.Fetch(
        partition.topic,
        partition.topic_id,
        offset,
        epoch=partition.epoch,
        wait_ms=round(wait_s * 1000),
        bytes_max=FETCH_BYTES,
    )
    return requests.fetched(await partition.ask(request, purpose, wait_s + TRY_S, looking=True))


async def headers_before(
    partition: Partition, offset: int, records_max: int, timeout_s: float
) -> RecordHeaders:
    """See :meth:`.contract.Log.headers_before`: with records, compaction takes their record headers."""
    deadline = time.monotonic() + timeout_s
    since = position = max(0, offset - records_max)
    headers: list[tuple[int, bytes]] = []
    while position < offset:
        try:
            answer = await fetch(partition, position, 0.0, Purpose.ASK)
        except NoAnswer as error:
            raise Unreachable(str(error)) from error
        if answer.code != Code.NONE or time.monotonic() > deadline:
            raise Unreachable(f"the records from {position} on were not read again: {code_name(answer.code)}")
        expected = position
        for run in record_batches.runs(answer.data, position, headers):
            for record in run:
                if record.offset != expected:
                    since = record.offset
                expected = record.offset + 1
        after = record_batches.next_offset(answer.data, position)
        if after == position:
            raise Unreachable(f"the records from {position} on were not read again")
        if expected != after:
            since = after
        position = after
    return RecordHeaders(min(since, offset), [each for each in headers if since <= each[0] < offset])
