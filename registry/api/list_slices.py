"""Lists answered in slices: none occupies the event loop, a view or memory for longer than one slice takes.

Each slice opens its own view and continues after the last row of the one before. Items that exist from the
first slice to the last are listed exactly once; items created or deleted meanwhile may be listed or not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from registry.domain.queries.walks import Search
from registry.domain.rows.memory_views import MovingView
from registry.domain.rows.view import Skip, View

from .answers import Answer, Header
from .backend import Backend, Slicing
from .listing import STEP, Cursor, Listing, Mark, PositionCache
from .parameters import CURSOR, OFFSET
from .request_target import percent_decode

_T = TypeVar("_T")
_SAFE = "!#$%&'()*+,/:;=?@[]^`{|}~-._\\"  # everything that a request target may hold


class VisibleRows(NamedTuple):
    """The rows from which a request is answered."""

    view: Callable[[], AbstractContextManager[View]]
    key: str = ""  # differs where other rows are shown, so that positions in lists are not shared


class Lists:
    """Answers the lists of one event loop, one slice at a time."""

    def __init__(self, backend: Backend, slicing: Slicing) -> None:
        self._backend = backend
        self._slicing = slicing
        self._turn = asyncio.Lock()
        self._positions = PositionCache()
        self._all = VisibleRows(backend.view)

    async def answer(
        self, listing: Listing[Any], path: bytes, query: bytes, rows: VisibleRows | None = None
    ) -> Answer:
        """Return an answer that begins within milliseconds.

        ``path`` and ``query`` are those of the request, as the client sent them. ``rows``: by default all.
        """
        slicing = self._slicing
        walk = _Walk(listing, rows or self._all, self._backend, self._positions, slicing)
        until = time.perf_counter() + slicing.first_s
        bytes_max = slicing.first_bytes if listing.may_have_more else slicing.slice_bytes
        parts: list[bytes] = []
        size = 0
        # A cursor that was issued before its page's end was known may point beyond the list's end. Check this
        # before another such cursor is issued: each page has an item, or is the last one.
        while not walk.done and (not walk.is_at_cursor or (size < bytes_max and time.perf_counter() < until)):
            found = await self._slice(walk, look_ahead=listing.may_have_more)
            parts += found
            size += sum(map(len, found))
        following = await self._following(walk, until) if listing.may_have_more else None
        headers = (*listing.headers, *_link(following, path, query))
        body = listing.head + b",".join(parts)
        if walk.complete:
            return Answer(body + listing.tail, headers=headers)
        rest = self._rest(walk, listing.tail, begun=bool(parts))
        return Answer(body, headers=headers, rest=rest)

    async def run(self, search: Callable[[View], Search[_T]], source: VisibleRows | None = None) -> _T:
        """Return the result of a search; other requests are served between its slices.

        ``source``: the rows, by default all.
        """
        source, rows = source or self._all, MovingView()
        steps = search(rows)
        found = self._advance(source, rows, steps)
        while found is None:
            async with self._turn:
                await asyncio.sleep(0)
                found = self._advance(source, rows, steps)
        return found[0]

    def _advance(self, source: VisibleRows, rows: MovingView, steps: Search[_T]) -> tuple[_T] | None:
        """Search for the duration of one slice; return the result in a tuple if the search is complete."""
        until = time.perf_counter() + self._slicing.slice_s
        with source.view() as view:
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
        """Return the start of the next page; None if there is none.

        If the page is incomplete, walk ahead to its end. If that takes too long, the cursor has a count.
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
            # An empty piece lets the sender check that the client is still connected.
            yield (b"," if begun and parts else b"") + b",".join(parts)
            begun = begun or bool(parts)
        yield tail

    async def _slice(self, walk: _Walk, *, look_ahead: bool = False) -> list[bytes]:
        async with self._turn:
            parts = walk.slice(look_ahead=look_ahead)
            if not walk.done:
                await asyncio.sleep(0)  # other requests are served between two slices
        return parts


class _Walk:
    """A page of a list in progress."""

    def __init__(
        self,
        listing: Listing[Any],
        source: VisibleRows,
        backend: Backend,
        positions: PositionCache,
        slicing: Slicing,
    ) -> None:
        self.complete = False  # every item of the page has been encoded
        self.done = False  # and it is known if another item follows
        self._listing = listing
        self._source = source
        self._backend = backend
        self._positions = positions
        self._slicing = slicing
        self._rows = MovingView()
        self._moment = backend.applied()
        self._begin, unsettled = listing.begin, listing.unsettled
        end = positions.end_of(self._key(self._begin._replace(skip=unsettled))) if unsettled else None
        if end is not None:
            self._begin, unsettled = Cursor(self._begin.list, self._begin.skip - unsettled, end), 0
        # The answer to such a cursor begins only once an item, or the end of the list, has been found.
        wanted = unsettled + 1 if listing.unsettled else 0
        passed, self._mark = positions.nearest(self._key(self._begin), self._moment)
        self._skip = Skip(self._begin.skip - passed)
        self._left = listing.limit
        self._last: Any = None
        self._ended = False
        self._behind = self._skip.left  # items to skip after the last item seen, or after the mark
        self._wanted = wanted
        self._counted: Cursor | None = None  # a cursor issued before the page's end was known
        self._learned: list[tuple[int, Mark]] = []
        self._items = (
            listing.walk(self._rows, self._mark)
            if listing.skipping is None
            else listing.skipping(self._rows, self._mark, self._skip)
        )

    def slice(self, *, look_ahead: bool) -> list[bytes]:
        """Return the next items, encoded; with ``look_ahead`` continue to the first one after the page."""
        parts: list[bytes] = []
        until, size = time.perf_counter() + self._slicing.slice_s, 0
        with self._source.view() as view:
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
        end = self._last_mark() if self.complete and self._counted else None
        if self._counted is not None and end is not None:
            self._positions.put_end(self._key(self._counted), end)
        return parts

    def successor(self) -> Cursor | None:
        """Return the start of the next page; None if there is none.

        If this page is not complete yet, the cursor counts the items that are left of it.
        """
        if self._ended:
            return None
        cursor = Cursor(self._begin.list, self._behind + self._left, self._last_mark())
        if not self.complete:
            self._counted = cursor
        return cursor

    def ahead(self) -> _Walk:
        """Return a walk over the rest of the page that only finds its end."""
        begin = Cursor(self._begin.list, self._behind, self._last_mark())
        rest = replace(self._listing, printed=_print_nothing, begin=begin, limit=self._left, unsettled=0)
        return _Walk(rest, self._source, self._backend, self._positions, self._slicing)

    def _key(self, cursor: Cursor) -> Cursor:
        """Return the key under which positions after a cursor are remembered."""
        return cursor._replace(list=cursor.list + self._source.key) if self._source.key else cursor

    def _last_mark(self) -> Mark | None:
        return self._mark if self._last is None else self._listing.mark(self._last)

    @property
    def is_at_cursor(self) -> bool:
        """True if the position that the cursor means has been reached."""
        return self._passed_count >= self._wanted

    @property
    def _passed_count(self) -> int:
        """Number of items seen or skipped since the start of the page's cursor."""
        return self._begin.skip - self._skip.left + self._listing.limit - self._left

    def _pass(self, item: Any) -> None:
        self._last = item
        if self._skip.left:
            self._skip.left -= 1
        else:
            self._left -= 1
            self.complete = not self._left
        self._behind = self._skip.left
        passed = self._passed_count
        if self.complete or not passed % STEP:
            self._learned.append((passed, self._listing.mark(item)))

    def _learn(self) -> None:
        """Remember positions, unless the rows have changed since counting began."""
        if self._moment == self._backend.applied():
            for count, mark in self._learned:
                self._positions.put(self._key(self._begin), count, mark, self._moment)
        else:
            self._moment = -1
        self._learned.clear()


def _print_nothing(_: Any) -> bytes:
    return b""


def _link(successor: Cursor | None, path: bytes, query: bytes) -> tuple[Header, ...]:
    """Return the ``Link`` header for the next page, with the same path and filters (RFC 8288)."""
    if successor is None:
        return ()
    pairs = [pair for pair in query.split(b"&") if pair and not _begins(pair)]
    pairs.append(b"%b=%b" % (CURSOR.name.encode(), successor.text().encode()))
    target = quote(b"%b?%b" % (path, b"&".join(pairs)), safe=_SAFE)
    return ((b"link", b'<%b>; rel="next"' % target.encode()),)


def _begins(pair: bytes) -> bool:
    """Return true for a parameter that sets the start of a page."""
    return percent_decode(pair.partition(b"=")[0].replace(b"+", b" ")) in (OFFSET.name, CURSOR.name)
