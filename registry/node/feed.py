"""The node's side of the change feed: the newest events in memory, older ones from the log again.

Nothing is kept while nobody asks. Then the thread that follows the log derives the events of its records,
after their rows are visible, and the event loop answers those who wait for them. Reads of the log run in a
few threads of their own, so they hold up neither the follower nor the writer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from registry.domain.errors import EVENTS_DELETED, UNAVAILABLE
from registry.domain.events import event_of
from registry.domain.log_format.records import Record
from registry.feed.contract import PAGE_EVENTS, Page
from registry.feed.ring import COUNT_MAX, Ring, RingEntry, cut, entry_of
from registry.log.contract import Fetched, LogError

# Events are kept for so long after the last request for them.
_WANTED_S = 60.0
_READS_MAX = 2
_WAITING_MAX = 256
# Of the log, for one page.
_READ_RECORDS, _READ_BYTES = PAGE_EVENTS, 256 << 10


class Records(Protocol):
    """The part of :class:`registry.log.contract.Log` that the feed needs."""

    @property
    def identity(self) -> str:
        """The log's identity."""
        ...

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return records from ``offset`` on, in any thread."""
        ...

    def query_start(self) -> int:
        """Return the offset at which the log begins now."""
        ...


class NodeFeed:
    """The events up to the offset that the store has ``applied``."""

    def __init__(self, log: Records, applied: int, *, soon: Callable[[Callable[[], None]], None]) -> None:
        """``soon`` calls a function on the event loop, from any thread."""
        self._log = log
        self._soon = soon
        self._lock = threading.Lock()
        self._ring = Ring(applied)
        self._wanted_until = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._readers = ThreadPoolExecutor(_READS_MAX, thread_name_prefix="feed")
        self._reading = 0

    def is_read(self) -> bool:
        """Return true if events were requested lately."""
        return time.monotonic() <= self._wanted_until

    def add_records(self, records: Sequence[Record] | None, end: int) -> None:
        """Take the records of a step whose rows are visible; ``None``: they are not known here."""
        if records is None or not self.is_read():
            begin, entries = end, list[RingEntry]()
        else:
            begin = records[-COUNT_MAX].offset if len(records) > COUNT_MAX else self._ring.begin
            # Outside the lock, for which the event loop would wait as long as this takes.
            entries = list(_entries(records[-COUNT_MAX:]))
        with self._lock:
            if begin > self._ring.begin:
                self._ring.reset(begin)
            self._ring.add(entries, end)
            waiting = bool(self._waiting)
        if waiting:
            self._soon(self._wake)

    async def events(self, position: int, wait_s: float) -> Page:
        """Return a page, see :meth:`registry.feed.contract.Source.events`."""
        self._wanted_until = time.monotonic() + _WANTED_S
        page = self._recent(position)
        if page is None:
            return await self._older(position)
        if page.next > position or wait_s <= 0 or len(self._waiting) >= _WAITING_MAX:
            return page
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(news)
        try:
            # The follower may have advanced between the look and the promise.
            page = self._recent(position)
            if page is not None and page.next == position:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await news
                page = self._recent(position)
        finally:
            if news in self._waiting:
                self._waiting.remove(news)
        return await self._older(position) if page is None else page

    def close(self) -> None:
        """End the threads."""
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _recent(self, position: int) -> Page | None:
        """Return a page from memory; ``None`` if the events are older."""
        with self._lock:
            if position > self._ring.end:
                return self._page([], position)  # the store was built again and has not got there yet
            if not self._ring.covers(position):
                return None
            return self._page(*self._ring.since(position))

    async def _older(self, position: int) -> Page:
        if self._reading >= _WAITING_MAX:
            raise UNAVAILABLE("Too many requests for older changes")
        self._reading += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, position)
        except LogError as error:
            raise UNAVAILABLE(f"The log cannot be read: {error}") from error
        except RuntimeError as error:  # the threads have ended
            raise UNAVAILABLE("The node is stopping") from error
        finally:
            self._reading -= 1

    def _page(self, entries: Sequence[RingEntry], end: int) -> Page:
        return Page([each.data for each in entries], end, self._log.identity)

    def _read(self, position: int) -> Page:
        """Read a page from the log, no further than the rows that are visible."""
        fetched = self._log.read_again(position, _READ_RECORDS, _READ_BYTES)
        if position and not fetched.records and fetched.next > position:
            oldest = self._log.query_start()
            if position < oldest:
                raise EVENTS_DELETED(position - 1, oldest, oldest - 1)
        end = min(fetched.next, self._ring.end)
        found = _entries(each for each in fetched.records if each.offset < end)
        return self._page(*cut(list(found), max(end, position)))


def _entries(records: Iterable[Record]) -> Iterable[RingEntry]:
    return (entry_of(event) for event in map(event_of, records) if event is not None)
