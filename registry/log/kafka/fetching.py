"""Reading ahead: a task fetches by long polls into a bounded buffer, from which a follower's thread reads."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from registry.domain.records import Record
from registry.log.contract import Fetched, LogError

from . import batches, wire
from .connection import NoAnswer, Purpose
from .partition import TRY_S, Partition, Pause, code_name
from .wire import Code

AHEAD_BYTES = 16 << 20
"""Fetching stops when so much lies in the buffer."""
FETCH_BYTES = 4 << 20
LONG_POLL_S = 0.5
_LOOK_EVERY_S = 5.0
"""The topic's id is looked at as often: brokers that fetch by name would not notice another topic."""

_log = logging.getLogger(__name__)


class _Chunk(NamedTuple):
    """The answer to one fetch."""

    offset: int
    next: int
    data: bytes


class Prefetch:
    """What one follower reads from ``partition``. :meth:`run` is a task of ``loop``; the rest is for threads.

    There is one position. Another offset than the one reached drops the buffer and begins there.
    """

    def __init__(self, partition: Partition, loop: asyncio.AbstractEventLoop) -> None:
        self._partition = partition
        self._loop = loop
        self._wanted = asyncio.Event()
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
        self._records: Iterator[Record] | None = None
        self._held: Record | None = None

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
            return Fetched(found, self._next)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """See :meth:`.contract.Log.wait`."""
        with self._taking:
            self._begin_at(offset)
            if self._records is not None:
                return True
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
            self._next, self._records, self._held = offset, None, None
            self._position, self._turn = offset, self._turn + 1
            self._chunks.clear()
            self._bytes = 0
        self._want()

    def _want(self) -> None:
        self._loop.call_soon_threadsafe(self._wanted.set)

    def _take(self, records_max: int, bytes_max: int) -> list[Record]:
        found: list[Record] = []
        size = 0
        while len(found) < records_max:
            if self._records is None and not self._next_chunk():
                break
            assert self._records is not None
            record = self._held or next(self._records, None)
            self._held = None
            if record is None:
                self._records, self._next = None, self._chunk_next
                continue
            size += len(record.key or b"") + len(record.value or b"")
            if found and size > bytes_max:
                self._held = record
                break
            found.append(record)
            self._next = record.offset + 1
        else:
            self._finish_chunk()
        return found

    def _finish_chunk(self) -> None:
        """Go over what no record follows, so that the position is the log's end when all was read."""
        if self._records is not None and self._held is None:
            self._held = next(self._records, None)
            if self._held is None:
                self._records, self._next = None, self._chunk_next

    def _next_chunk(self) -> bool:
        with self._changed:
            if not self._chunks:
                return False
            chunk = self._chunks.popleft()
            self._bytes -= len(chunk.data)
        self._want()
        assert self._next is not None
        self._records = batches.records(chunk.data, self._next)
        self._chunk_next = chunk.next
        return True

    # On the loop.

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
            try:
                await self._step(position, turn)
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
                partition.clear("end")
            partition.note_end(answer.end)
            partition.clear("head")
            self._add(position, turn, answer.data)

    def _add(self, position: int, turn: int, data: bytes) -> None:
        after = batches.next_offset(data, position)
        with self._changed:
            if turn != self._turn or after <= position:
                return
            self._position = after
            self._chunks.append(_Chunk(position, after, data))
            self._bytes += len(data)
            self._changed.notify_all()

    async def _out_of_range(self, position: int, turn: int) -> None:
        """Tell a head that is gone from a tail that is gone; from 0 on, begin with what is left."""
        partition = self._partition
        start = await partition.offset_at(wire.EARLIEST, TRY_S)
        if position == 0 < start:
            with self._changed:
                if turn == self._turn:
                    self._position = start
            return
        if position < start:
            partition.suspect(
                "head",
                f"the head of topic {partition.topic} is gone: the records from {position} to {start - 1} "
                "were not read yet",
            )
        end = await partition.offset_at(wire.LATEST, TRY_S)
        if position > end:
            partition.suspect(
                "end",
                f"the topic {partition.topic} was cut: it ended at {position} or later and now ends at {end}",
            )


async def fetch(partition: Partition, offset: int, wait_s: float, purpose: Purpose) -> wire.FetchAnswer:
    """One fetch from ``offset`` on, which waits as long for a first record."""
    request = wire.Fetch(
        partition.topic, partition.topic_id, offset, wait_ms=round(wait_s * 1000), bytes_max=FETCH_BYTES
    )
    return wire.fetched(await partition.ask(request, purpose, wait_s + TRY_S, but="end"))
