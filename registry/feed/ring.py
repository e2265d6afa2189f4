"""A bounded memory of the newest events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from registry.domain.events import Event, decode_event, encode_event

from .contract import PAGE_BYTES, PAGE_EVENTS, Page

COUNT_MAX, BYTES_MAX = 4096, 4 << 20


class RingEntry(NamedTuple):
    """An event, and the same as JSON."""

    event: Event
    data: bytes


def entry_of(event: Event) -> RingEntry:
    """Return an event with its JSON."""
    return RingEntry(event, encode_event(event))


def entries_of(page: Page) -> list[RingEntry]:
    """Return the events of a page with their JSON."""
    return [RingEntry(decode_event(data), data) for data in page.events]


class Ring:
    """All events from ``begin`` to ``end``, exclusively; the oldest go first."""

    def __init__(self, position: int, *, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self.reset(position)

    def reset(self, position: int) -> None:
        """Forget everything, and begin at a position."""
        self.begin = self.end = position
        self._entries: list[RingEntry] = []
        self._offsets: list[int] = []
        self._bytes = 0

    def covers(self, position: int) -> bool:
        """Return true if no event from ``position`` on is missing."""
        return self.begin <= position <= self.end

    def add(self, entries: Iterable[RingEntry], end: int) -> None:
        """Add the events up to ``end``, where the next ones begin."""
        for each in entries:
            self._entries.append(each)
            self._offsets.append(each.event.offset)
            self._bytes += len(each.data)
        self.end = end
        self._shrink()

    def since(self, position: int) -> tuple[Sequence[RingEntry], int]:
        """Return the events of one page from a covered ``position`` on, and the position after them."""
        start = bisect_left(self._offsets, position)
        return cut(self._entries[start : start + PAGE_EVENTS + 1], self.end)

    def _shrink(self) -> None:
        count = 0
        while len(self._entries) - count > self._count_max or self._bytes > self._bytes_max:
            self._bytes -= len(self._entries[count].data)
            count += 1
        if count:
            self.begin = self._offsets[count - 1] + 1
            del self._entries[:count], self._offsets[:count]


def cut(entries: Sequence[RingEntry], end: int) -> tuple[Sequence[RingEntry], int]:
    """Return as many of the events up to ``end`` as a page holds, and the position after them."""
    size = 0
    for index, each in enumerate(entries):
        size += len(each.data)
        if index >= PAGE_EVENTS or (index and size > PAGE_BYTES):
            return entries[:index], entries[index - 1].event.offset + 1
    return entries, end
