"""Delivery of events to the listeners that have been sent everything, and to those that catch up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence

from registry.domain.errors import EVENTS_DELETED, RegistryError
from registry.domain.lru import Lru

from .listener import EventFilter, Listener, ListenerState, Senders
from .ring import RingEntry
from .tail import Tail


def print_event(entry: RingEntry) -> bytes:
    """Return an event: its offset is the id from which clients resume, its kind the type."""
    event = entry.event
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.offset, event.kind.encode(), entry.data)


def beginning(position: int, retry_ms: int) -> bytes:
    """Return the first lines of a stream: the position, and how soon to connect again after it has ended."""
    return b"retry: %d\n%b" % (retry_ms, heartbeat(position))


def heartbeat(position: int) -> bytes:
    """Return a comment and an id without an event: clients resume from there, and notice nothing else."""
    return b": %d\nid: %d\n\n" % (position - 1, position - 1)


# Listeners written to before others get their turn on the event loop.
SLICE = 200


class LiveListeners:
    """Listeners that wait for the next events; ``on_behind`` is called with those that cannot take them."""

    def __init__(self, on_behind: Callable[[Listener], None]) -> None:
        self._on_behind = on_behind
        self._groups: dict[tuple[EventFilter, Hashable], set[Listener]] = {}

    def __iter__(self) -> Iterator[Listener]:
        return iter([listener for group in self._groups.values() for listener in group])

    def join(self, listener: Listener) -> None:
        """Add a listener that has been sent everything."""
        listener.state = ListenerState.LIVE
        self._groups.setdefault(_group_of(listener), set()).add(listener)

    def leave(self, listener: Listener) -> None:
        """Remove a listener, before its sender's access changes."""
        key = _group_of(listener)
        group = self._groups[key]
        group.discard(listener)
        if not group:
            del self._groups[key]

    async def send(self, found: Sequence[RingEntry], begin: int, end: int) -> None:
        """Write the events from ``begin`` to ``end`` to those who have been sent everything before."""
        lines = [(each, print_event(each)) for each in found]
        for (event_filter, _), group in tuple(self._groups.items()):
            text = b"".join(line for each, line in lines if event_filter.shows(each))
            framed = b""
            async for listener in in_slices(group):
                if listener.state is not ListenerState.LIVE or listener.position != begin:
                    continue  # it has left or joined meanwhile
                if text and listener.stream.behind:
                    self._on_behind(listener)
                    continue
                listener.position = end
                if text:
                    framed = framed or listener.stream.frame(text)
                    listener.stream.write(framed)


def _group_of(listener: Listener) -> tuple[EventFilter, Hashable]:
    return listener.event_filter, listener.stream.framing


async def in_slices(listeners: Iterable[Listener]) -> AsyncIterator[Listener]:
    """Yield listeners; others get their turn on the event loop after each slice."""
    for count, listener in enumerate(tuple(listeners), 1):
        yield listener
        if count % SLICE == 0:
            await asyncio.sleep(0)


_WORKERS = 4
# A worker lets others have the event loop after so long, or so many listeners.
_TURN_S, _TURN_LISTENERS = 0.002, 20
# Pages whose text is remembered: clients that resume after a restart lack the same ones.
_TEXTS_MAX = 16
_log = logging.getLogger(__name__)


class CatchingUp:
    """Sends listeners what they lack, page by page, until they are live."""

    def __init__(self, tail: Tail, live: LiveListeners, senders: Senders) -> None:
        self._tail = tail
        self._live = live
        self._senders = senders
        self._queue: deque[Listener] = deque()  # bounded by the number of listeners
        self._ahead: set[Listener] = set()
        self._workers: set[asyncio.Task[None]] = set()
        # Those that will look at the queue again.
        self._working = 0
        self._texts = Lru[tuple[int, int, EventFilter, Hashable], bytes](_TEXTS_MAX)

    def add(self, listener: Listener) -> None:
        """Send a listener what it lacks, in turn with others."""
        listener.state = ListenerState.CATCHING_UP
        self._queue.append(listener)
        if self._working < _WORKERS:
            self._working += 1
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def leave(self, listener: Listener) -> None:
        """Forget a listener that no longer waits for the feed."""
        self._ahead.discard(listener)

    def try_ahead(self) -> None:
        """Try again to advance those who were ahead of the feed."""
        ahead, self._ahead = self._ahead, set()
        for listener in ahead:
            self.add(listener)

    def clear(self) -> None:
        """Forget what was printed: the log may have changed."""
        self._texts.clear()

    def stop(self) -> None:
        """Send nothing more."""
        for worker in self._workers:
            worker.cancel()

    async def _work(self) -> None:
        try:
            while self._queue:
                await self._turn()
                await asyncio.sleep(0)
        finally:
            self._working -= 1

    async def _turn(self) -> None:
        until = time.monotonic() + _TURN_S
        for _ in range(min(_TURN_LISTENERS, len(self._queue))):
            listener = self._queue.popleft()
            if listener.state is ListenerState.CATCHING_UP:
                await self._advance_safely(listener)
            if time.monotonic() > until or not self._queue:
                break

    async def _advance_safely(self, listener: Listener) -> None:
        try:
            await self._advance(listener)
        except Exception:
            _log.exception("unexpected error in the feed; ending a stream, whose client resumes")
            listener.stream.end()

    async def _advance(self, listener: Listener) -> None:
        """Send a listener the next page of what it lacks."""
        if listener.stream.behind:
            listener.state = ListenerState.BEHIND
            return
        begin = listener.position
        try:
            found, end = ([], begin) if self._is_at_end(begin) else await self._tail.after(begin)
        except RegistryError as error:
            if error.code == EVENTS_DELETED.code:
                listener.stream.end()  # it gets the error when it resumes
            elif listener.state is ListenerState.CATCHING_UP:
                self._wait_ahead(listener)
            return
        if listener.state is not ListenerState.CATCHING_UP or listener.position != begin:
            return  # it has closed, or another worker was faster
        if not self._senders.check(listener.sender):
            return
        framed = self._frame_page(listener, found, end)
        if framed:
            listener.stream.write(framed)
        listener.position = end
        if self._is_at_end(end):
            self._live.join(listener)
        elif end == begin:
            self._wait_ahead(listener)
        else:
            self._queue.append(listener)

    def _is_at_end(self, position: int) -> bool:
        """Return true if the next events that are pulled begin at a position."""
        return self._tail.pulling and position == self._tail.end

    def _frame_page(self, listener: Listener, found: Sequence[RingEntry], end: int) -> bytes:
        """Return the events of a page that a listener sees, as they are written."""
        stream, event_filter = listener.stream, listener.event_filter
        key = listener.position, end, event_filter, stream.framing
        framed = self._texts.get(key)
        if framed is None:
            text = b"".join(print_event(each) for each in found if event_filter.shows(each))
            framed = stream.frame(text) if text else b""
            self._texts.put(key, framed)
        return framed

    def _wait_ahead(self, listener: Listener) -> None:
        listener.state = ListenerState.AHEAD
        self._ahead.add(listener)
