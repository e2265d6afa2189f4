"""The queue of an election's events, with the guarantees of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from election.contract import Event, Lost, NoPrimary, Won


class Announcer:
    """Queues events for one consumer; used on one event loop.

    At most two events wait: a :class:`Lost`, and the latest event after it.
    """

    def __init__(self) -> None:
        self._latest: Event | None = None
        self._waiting: list[Event] = []
        self._news = asyncio.Event()
        self._closed = False
        self._consumers = 0

    @property
    def latest(self) -> Event | None:
        """The latest event, consumed or not."""
        return self._latest

    @property
    def won(self) -> bool:
        """True if this node is the primary according to the latest event."""
        return isinstance(self._latest, Won)

    def announce(self, event: Event, lost: str = "another node is the primary now") -> None:
        """Queue ``event`` if it is new; ``lost`` is the reason if it means that another node took over."""
        if self._closed or event == self._latest:
            return
        if self.won and not isinstance(event, Lost):
            self._add(Lost(event.reason if isinstance(event, NoPrimary) else lost))
        if not isinstance(event, Lost) or self.won:
            self._add(event)
            self._latest = event
            self._news.set()

    def _add(self, event: Event) -> None:
        # A waiting event that was not consumed is superseded, except a Lost: its Won was consumed.
        unseen_win = bool(self._waiting) and isinstance(self._waiting[-1], Won)
        if self._waiting and not isinstance(self._waiting[-1], Lost):
            self._waiting.pop()
        if not (isinstance(event, Lost) and unseen_win):
            self._waiting.append(event)

    def close(self) -> None:
        """Accept no more events; those that wait are still delivered."""
        self._closed = True
        self._news.set()

    async def events(self) -> AsyncIterator[Event]:
        """Yield every event, starting with the current state. A second call ends the first iterator."""
        self._consumers += 1
        mine = self._consumers
        self._waiting = [] if self._latest is None else [self._latest]
        self._news.set()
        while mine == self._consumers:
            if self._waiting:
                yield self._waiting.pop(0)
            elif self._closed:
                return
            else:
                self._news.clear()
                await self._news.wait()
