"""Pages of older events, shared by the listeners that catch up at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from registry.domain.lru import Lru

from .contract import Page
from .ring import Entry, entries_of

_PAGES_MAX = 32
_AT_ONCE_MAX = 4

Entries = tuple[list[Entry], int]


class Pages:
    """Asks for pages, a few at a time, and remembers the last ones."""

    def __init__(self, ask: Callable[[int], Coroutine[Any, Any, Page]]) -> None:
        self._ask = ask
        self._pages = Lru[int, Entries](_PAGES_MAX)
        self._asking: dict[int, asyncio.Task[Page]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE_MAX)

    async def get(self, position: int) -> Entries:
        """Return the events of a page and the position after them. Raises as :meth:`Source.events`."""
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
