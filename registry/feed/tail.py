"""The end of the feed in one process, and pages of older events for listeners that catch up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

from registry.domain.errors import EVENTS_DELETED, UNAVAILABLE, RegistryError
from registry.domain.lru import Lru

from .contract import FeedSource, Page
from .ring import Ring, RingEntry, entries_of

_PAGES_MAX = 32
_AT_ONCE_MAX = 4

Entries = tuple[list[RingEntry], int]


class Pages:
    """Asks for pages, a few at a time, and remembers the last ones."""

    def __init__(self, ask: Callable[[int], Coroutine[Any, Any, Page]]) -> None:
        self._ask = ask
        self._pages = Lru[int, Entries](_PAGES_MAX)
        self._asking: dict[int, asyncio.Task[Page]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE_MAX)

    async def get(self, position: int) -> Entries:
        """Return the events of a page and the position after them. Raises as :meth:`FeedSource.events`."""
        found = self._pages.get(position)
        if found is not None:
            return found
        asking = self._asking.get(position)
        if asking is None:
            asking = self._asking[position] = asyncio.create_task(self._in_turn(position))
            asking.add_done_callback(partial(self._answer, position))
        # Others wait for the same answer: one that is cancelled must not end it.
        page = await asyncio.shield(asking)
        entries = entries_of(page), page.next
        if page.next > position:
            self._pages.put(position, entries)
        return entries

    def _answer(self, position: int, asking: asyncio.Task[Page]) -> None:
        del self._asking[position]
        if not asking.cancelled():
            asking.exception()  # marks it as retrieved, even if nobody waits any more

    def clear(self) -> None:
        """Forget all pages: the log may have changed."""
        self._pages.clear()

    async def _in_turn(self, position: int) -> Page:
        async with self._room:
            return await self._ask(position)


# A pull ends at least this often, so that listeners' credentials are looked up again.
_PULL_S = 2.0
# The events of so many offsets before the present are fetched first, because most clients that connect
# resume: all of them after a restart.
_LOOK_BACK = 2_000
_RETRY_S = 0.2
_FAILED_S = 1.0
# Events are pulled for so long after the last listener has gone.
_IDLE_S = 10.0
_log = logging.getLogger(__name__)


class Audience(Protocol):
    """Those for whom events are pulled."""

    def is_present(self) -> bool:
        """Return true if somebody waits for events."""
        ...

    def before_events(self) -> None:
        """Prepare for the next events, if any; called after every pull."""
        ...

    async def on_events(self, found: Sequence[RingEntry], begin: int, end: int) -> None:
        """Take the events from ``begin`` to ``end``, which follow those before."""
        ...

    def on_break(self) -> None:
        """Let everyone begin again: the log is another one, or something unexpected happened."""
        ...

    def on_gap(self) -> None:
        """Find out what everyone lacks: events may have been left out."""
        ...


class Tail:
    """The newest events, and access to older ones."""

    def __init__(self, source: FeedSource, audience: Audience) -> None:
        self._source = source
        self._audience = audience
        self._ring = Ring(0)
        self._pages = Pages(self._ask)
        self._log = ""  # its identity, once it is known
        self._used_at = 0.0
        self.pulling = False
        # Set with the next events, and then replaced.
        self.news = asyncio.Event()

    @property
    def end(self) -> int:
        """The position up to which events have been pulled; nothing while :attr:`pulling` is false."""
        return self._ring.end

    def begin(self) -> None:
        """Note that :meth:`run` will pull events from now on."""
        self.pulling = True
        self._ring.reset(max(0, self._source.applied() - _LOOK_BACK))

    async def after(self, position: int) -> tuple[Sequence[RingEntry], int]:
        """Return the events of a page from ``position`` on, and the position after them.

        Raises as :meth:`FeedSource.events`.
        """
        # What was applied just now has not been pulled yet, and nothing has when pulling has just begun.
        if self.pulling and self._ring.begin <= position < self._ring.end:
            return self._ring.since(position)
        if position >= self._source.applied():
            return [], position
        return await self._pages.get(position)

    async def check(self, position: int) -> None:
        """Raise 410 or 503 if the events from ``position`` on cannot be read."""
        if not self.pulling or position < self._ring.begin:
            await self._pages.get(position)

    async def run(self) -> None:
        """Pull events until nobody wants them any more."""
        try:
            while self._is_used():
                try:
                    await self._pull()
                except Exception:
                    _log.exception("unexpected error in the feed; ending its streams, whose clients resume")
                    self._audience.on_break()
                    await asyncio.sleep(_FAILED_S)
        finally:
            self.pulling = False
            self._pages.clear()
            self.wake()

    def wake(self) -> None:
        """Wake those who wait for :attr:`news`."""
        news, self.news = self.news, asyncio.Event()
        news.set()

    def _is_used(self) -> bool:
        if self._audience.is_present():
            self._used_at = time.monotonic()
        return time.monotonic() < self._used_at + _IDLE_S

    async def _pull(self) -> None:
        found, end = await self._next()
        self._audience.before_events()
        if end > self._ring.end:
            begin = self._ring.end
            self._ring.add(found, end)
            await self._audience.on_events(found, begin, end)
            self.wake()

    async def _next(self) -> Entries:
        """Wait for the next events; return none if there are none yet, or they cannot be read now."""
        end, began = self._ring.end, time.monotonic()
        try:
            page = await self._ask(end, _PULL_S)
        except RegistryError as error:
            self._pages.clear()
            if error.code == EVENTS_DELETED.code:
                self._ring.reset(self._source.applied())
                self._audience.on_gap()
            else:
                await asyncio.sleep(_RETRY_S)
            return [], self._ring.end
        if page.next == end and time.monotonic() - began < _PULL_S / 2:
            await asyncio.sleep(_RETRY_S)  # it is too busy to wait
        return entries_of(page), page.next

    async def _ask(self, position: int, wait_s: float = 0.0) -> Page:
        """Ask the source. If its log has been replaced, all begin again."""
        page = await self._source.events(position, wait_s)
        known, self._log = self._log, page.log
        if known not in ("", page.log):
            self._pages.clear()
            self._ring.reset(max(0, self._source.applied() - _LOOK_BACK))
            self._audience.on_break()
            raise UNAVAILABLE("The log has been replaced; try again")
        return page
