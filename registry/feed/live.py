"""The listeners that have been sent everything, grouped by what they see: each group gets the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence

from .listener import EventFilter, Listener, State
from .ring import Entry


def printed(entry: Entry) -> bytes:
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
        listener.state = State.LIVE
        self._groups.setdefault(_group_of(listener), set()).add(listener)

    def leave(self, listener: Listener) -> None:
        """Remove a listener, before its sender's access changes."""
        key = _group_of(listener)
        group = self._groups[key]
        group.discard(listener)
        if not group:
            del self._groups[key]

    async def send(self, found: Sequence[Entry], begin: int, end: int) -> None:
        """Write the events from ``begin`` to ``end`` to those who have been sent everything before."""
        lines = [(each, printed(each)) for each in found]
        for (event_filter, _), group in tuple(self._groups.items()):
            text = b"".join(line for each, line in lines if event_filter.shows(each))
            framed = b""
            async for listener in in_slices(group):
                if listener.state is not State.LIVE or listener.position != begin:
                    continue  # it has left or joined meanwhile
                if text and listener.stream.behind:
                    self._on_behind(listener)
                    continue
                listener.position = end
                if text:
                    framed = framed or listener.stream.framed(text)
                    listener.stream.write(framed)


def _group_of(listener: Listener) -> tuple[EventFilter, Hashable]:
    return listener.event_filter, listener.stream.framing


async def in_slices(listeners: Iterable[Listener]) -> AsyncIterator[Listener]:
    """Yield listeners; others get their turn on the event loop after each slice."""
    for count, listener in enumerate(tuple(listeners), 1):
        yield listener
        if count % SLICE == 0:
            await asyncio.sleep(0)
