"""The events of the log in pages, read again for webhooks wherever they are."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from registry.base.observe.logs import Throttled
from registry.domain.events import Event, event_of
from registry.log.contract import Fetched, LogError

RECORDS_MAX = 500
BYTES_MAX = 1 << 20
# Pages in memory: webhooks that have delivered everything read the same ones.
_PAGES_MAX = 8
AGAIN_S = 1.0
_log = logging.getLogger(__name__)
_failures = Throttled(_log)


class ReadableLog(Protocol):
    """The part of a log that the pages need."""

    def read_again(self, offset: int, records_max: int, bytes_max: int) -> Fetched:
        """Return records from ``offset`` on, apart from the follower."""
        ...

    def query_start(self) -> int:
        """Return the offset at which the log begins now."""
        ...


class Page(NamedTuple):
    """The events of the records from ``start`` up to ``next``."""

    start: int
    next: int
    events: list[Event]
    # All records before this offset were deleted, whatever their keys; 0 if none is known to be.
    oldest: int = 0


class EventPages:
    """Reads pages one at a time, in a thread of its own; used on one event loop.

    ``applied`` is the offset up to which this node has applied the log; events after it are not shown yet.
    """

    def __init__(self, log: ReadableLog, applied: Callable[[], int]) -> None:
        self._log = log
        self._applied = applied
        self._pages: deque[Page] = deque(maxlen=_PAGES_MAX)
        self._reading = asyncio.Lock()
        self._advanced = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "webhooks-log")

    def notify_advanced(self) -> None:
        """Let those continue that wait for new records."""
        self._advanced.set()
        self._advanced = asyncio.Event()

    async def news(self) -> None:
        """Wait for new records, or another look at the rows."""
        await self._advanced.wait()

    async def after(self, offset: int) -> Page:
        """Return a page that holds ``offset``; wait until there is one."""
        while True:
            advanced = self._advanced
            if offset < self._applied():
                async with self._reading:
                    page = self._cached_page(offset) or await self._read(offset)
                if page is not None:
                    return page
                await asyncio.sleep(AGAIN_S)
            else:
                await advanced.wait()

    def close(self) -> None:
        """Release the thread."""
        self._thread.shutdown(wait=False)

    def _cached_page(self, offset: int) -> Page | None:
        return next((page for page in self._pages if page.start <= offset < page.next), None)

    async def _read(self, offset: int) -> Page | None:
        """Return the page at ``offset``; ``None`` if it cannot be read now."""
        loop, end = asyncio.get_running_loop(), self._applied()
        try:
            page = await loop.run_in_executor(self._thread, self._page, offset, end)
        except LogError as error:
            _failures.error("webhooks cannot read the log from offset %d on, retrying: %s", offset, error)
            return None
        if page.next <= offset:
            return None
        self._pages.append(page)
        return page

    def _page(self, offset: int, end: int) -> Page:
        fetched = self._log.read_again(offset, RECORDS_MAX, BYTES_MAX)
        reached = min(fetched.next, end)
        jumped = reached > offset and not fetched.records
        oldest = min(self._log.query_start(), reached) if jumped else 0
        events = (event_of(record) for record in fetched.records if record.offset < end)
        return Page(offset, reached, [event for event in events if event is not None], oldest)
