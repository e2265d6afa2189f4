"""Lists answered in slices: no list keeps the event loop, a view or memory for longer than a slice takes.

Each slice opens a view of its own and goes on behind the last row it saw. What is there from the first slice
to the last is listed exactly once; what comes or goes meanwhile may be in the list or not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

from registry.domain.queries.sorting import Search
from registry.domain.rows.blocks import Skip
from registry.domain.rows.memory_views import MovingView
from registry.domain.rows.view import View

from .answers import Answer, Header
from .backend import Backend, Slicing
from .list_positions import STEP, Places
from .listing import Cursor, Listing, Mark
from .parameters import CURSOR, OFFSET
from .request_target import decoded

_T = TypeVar("_T")
_SAFE = "!#$%&'()*+,/:;=?@[]^`{|}~-._\\"  # all that a request line may hold but what ends the target


class Lists:
    """Answers the lists of one event loop, one slice at a time."""

    def __init__(self, backend: Backend, slicing: Slicing) -> None:
        self._backend = backend
        self._slicing = slicing
        self._turn = asyncio.Lock()
        self._places = Places()

    async def answer(self, listing: Listing[Any], path: bytes, query: bytes) -> Answer:
        """Return an answer that begins within some milliseconds.

        ``path`` and ``query`` are those of the request, as the client sent them.
        """
        slicing = self._slicing
        walk = _Walk(listing, self._backend, self._places, slicing)
        until = time.perf_counter() + slicing.first_s
        bytes_max = slicing.first_bytes if listing.limited else slicing.slice_bytes
        parts: list[bytes] = []
        size = 0
        # A cursor that was given before its page's end was known may lead beyond the list's end. No other one
        # is given then, so this is found out first: each page that it leads to holds an item, or is the last.
        while not walk.done and (not walk.settled or (size < bytes_max and time.perf_counter() < until)):
            found = await self._slice(walk, look_ahead=listing.limited)
            parts += found
            size += sum(map(len, found))
        following = await self._following(walk, until) if listing.limited else None
        headers = (*listing.headers, *_link(following, path, query))
        body = listing.head + b",".join(parts)
        if walk.complete:
            return Answer(body + listing.tail, headers=headers, media_type=listing.media_type)
        rest = self._rest(walk, listing.tail, begun=bool(parts))
        return Answer(body, headers=headers, media_type=listing.media_type, rest=rest)

    async def found(self, search: Callable[[View], Search[_T]]) -> _T:
        """Return what a search finds; others come between its slices."""
        rows = MovingView()
        steps = search(rows)
        found = self._advance(rows, steps)
        while found is None:
            async with self._turn:
                await asyncio.sleep(0)
                found = self._advance(rows, steps)
        return found[0]

    def _advance(self, rows: MovingView, steps: Search[_T]) -> tuple[_T] | None:
        """Search for as long as a slice lasts; return what was found, if the search is over."""
        until = time.perf_counter() + self._slicing.slice_s
        with self._backend.view() as view:
            rows.show(view)
            try:
                next(steps)
                while time.perf_counter() < until:
                    next(steps)
            except StopIteration as stop:
                return (stop.value,)
            finally:
                rows.hide()
        return None

    async def _following(self, walk: _Walk, until: float) -> Cursor | None:
        """Return where the page behind this one begins; None if there is none.

        For what was not printed yet somebody walks ahead. Where that takes too long, the cursor counts.
        """
        if not walk.complete:
            ahead = walk.ahead()
            while not ahead.done and time.perf_counter() < until:
                await self._slice(ahead, look_ahead=True)
            if ahead.complete:
                return ahead.successor()
        return walk.successor()

    async def _rest(self, walk: _Walk, tail: bytes, *, begun: bool) -> AsyncGenerator[bytes]:
        while not walk.complete:
            parts = await self._slice(walk)
            # An empty piece lets the one who sends see whether anybody still reads.
            yield (b"," if begun and parts else b"") + b",".join(parts)
            begun = begun or bool(parts)
        yield tail

    async def _slice(self, walk: _Walk, *, look_ahead: bool = False) -> list[bytes]:
        async with self._turn:
            parts = walk.slice(look_ahead=look_ahead)
            if not walk.done:
                await asyncio.sleep(0)  # what others wait for comes between two slices
        return parts


class _Walk:
    """A page of a list under way."""

    def __init__(self, listing: Listing[Any], backend: Backend, places: Places, slicing: Slicing) -> None:
        self.complete = False  # every item of the page was printed
        self.done = False  # and it is known whether any follows
        self._listing = listing
        self._backend = backend
        self._places = places
        self._slicing = slicing
        self._rows = MovingView()
        self._moment = backend.applied()
        self._begin, unsettled = listing.begin, listing.unsettled
        end = places.end_of(self._begin._replace(skip=unsettled)) if unsettled else None
        if end is not None:
            self._begin, unsettled = Cursor(self._begin.list, self._begin.skip - unsettled, end), 0
        # At least one item, or that there is none, is found before the answer to such a cursor begins.
        wanted = unsettled + 1 if listing.unsettled else 0
        passed, self._mark = places.nearest(self._begin, self._moment)
        self._skip = Skip(self._begin.skip - passed)
        self._left = listing.limit
        self._last: Any = None
        self._ended = False
        self._behind = self._skip.left  # to be left out behind the last item seen, or the mark
        self._wanted = wanted
        self._counted: Cursor | None = None  # a cursor that was given before the page's end was known
        self._learned: list[tuple[int, Mark]] = []
        self._items = (
            listing.walk(self._rows, self._mark)
            if listing.leaping is None
            else listing.leaping(self._rows, self._mark, self._skip)
        )

    def slice(self, *, look_ahead: bool) -> list[bytes]:
        """Return the next items, printed; with ``look_ahead`` go on to the first one behind the page."""
        parts: list[bytes] = []
        until, size = time.perf_counter() + self._slicing.slice_s, 0
        with self._backend.view() as view:
            self._rows.show(view)
            for item in self._items:
                if item is not None and self.complete:
                    self.done = True
                elif item is not None:
                    if not self._skip.left:
                        parts.append(self._listing.printed(item))
                        size += len(parts[-1])
                    self._pass(item)
                    self.done = self.complete and not look_ahead
                if self.done or size >= self._slicing.slice_bytes or time.perf_counter() >= until:
                    break
            else:
                self._ended = self.complete = self.done = True
        self._rows.hide()
        self._learn()
        end = self._reached() if self.complete and self._counted else None
        if self._counted is not None and end is not None:
            self._places.learn_end(self._counted, end)
        return parts

    def successor(self) -> Cursor | None:
        """Return where the next page begins; None if there is none.

        If this page is not complete yet, the cursor says how many items are left of it.
        """
        if self._ended:
            return None
        cursor = Cursor(self._begin.list, self._behind + self._left, self._reached())
        if not self.complete:
            self._counted = cursor
        return cursor

    def ahead(self) -> _Walk:
        """Return a walk over the rest of the page, for its end alone."""
        begin = Cursor(self._begin.list, self._behind, self._reached())
        rest = replace(self._listing, printed=_unprinted, begin=begin, limit=self._left, unsettled=0)
        return _Walk(rest, self._backend, self._places, self._slicing)

    def _reached(self) -> Mark | None:
        return self._mark if self._last is None else self._listing.mark(self._last)

    @property
    def settled(self) -> bool:
        """True if the cursor's own place was reached."""
        return self._passed >= self._wanted

    @property
    def _passed(self) -> int:
        """Number of items seen or leapt over, counted from where the page's cursor begins."""
        return self._begin.skip - self._skip.left + self._listing.limit - self._left

    def _pass(self, item: Any) -> None:
        self._last = item
        if self._skip.left:
            self._skip.left -= 1
        else:
            self._left -= 1
            self.complete = not self._left
        self._behind = self._skip.left
        passed = self._passed
        if self.complete or not passed % STEP:
            self._learned.append((passed, self._listing.mark(item)))

    def _learn(self) -> None:
        """Remember the places seen, unless the rows have changed since they were counted from the start."""
        if self._moment == self._backend.applied():
            for count, mark in self._learned:
                self._places.learn(self._begin, count, mark, self._moment)
        else:
            self._moment = -1
        self._learned.clear()


def _unprinted(_: Any) -> bytes:
    return b""


def _link(successor: Cursor | None, path: bytes, query: bytes) -> tuple[Header, ...]:
    """Return the header that leads to the next page, by the same path and filters (RFC 8288)."""
    if successor is None:
        return ()
    pairs = [pair for pair in query.split(b"&") if pair and not _begins(pair)]
    pairs.append(b"%b=%b" % (CURSOR.name.encode(), successor.text().encode()))
    target = quote(b"%b?%b" % (path, b"&".join(pairs)), safe=_SAFE)
    return ((b"link", b'<%b>; rel="next"' % target.encode()),)


def _begins(pair: bytes) -> bool:
    """Return true for a parameter that says where a page begins."""
    return decoded(pair.partition(b"=")[0].replace(b"+", b" ")) in (OFFSET.name, CURSOR.name)
