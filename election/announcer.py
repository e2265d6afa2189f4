"""The events of an election, in the order and the number that the contract promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from election.contract import Event, Lost, NoPrimary, Won


class Announcer:
    """Keeps what is to be told to the one consumer; used on one event loop.

    At most two events wait: a :class:`Lost`, and what came after it.
    """

    def __init__(self) -> None:
        self._standing: Event | None = None
        self._waiting: list[Event] = []
        self._news = asyncio.Event()
        self._closed = False
        self._consumers = 0

    @property
    def standing(self) -> Event | None:
        """The last that was said, whether or not somebody has heard it."""
        return self._standing

    @property
    def won(self) -> bool:
        """Whether this node is the primary, by what was said last."""
        return isinstance(self._standing, Won)

    def tell(self, event: Event, lost: str = "another node is the primary now") -> None:
        """Say ``event`` if it is news; ``lost`` is the reason where it means that another node took over."""
        if self._closed or event == self._standing:
            return
        if self.won and not isinstance(event, Lost):
            self._add(Lost(event.reason if isinstance(event, NoPrimary) else lost))
        if not isinstance(event, Lost) or self.won:
            self._add(event)
            self._standing = event
            self._news.set()

    def _add(self, event: Event) -> None:
        """The consumer has heard what came before ``_waiting``; of what waits only a Lost must be heard."""
        unheard_win = bool(self._waiting) and isinstance(self._waiting[-1], Won)
        if self._waiting and not isinstance(self._waiting[-1], Lost):
            self._waiting.pop()
        if not (isinstance(event, Lost) and unheard_win):
            self._waiting.append(event)

    def close(self) -> None:
        """Nothing more will be said; what waits is still heard."""
        self._closed = True
        self._news.set()

    async def events(self) -> AsyncIterator[Event]:
        """Every event from the present state on. A second call ends the first one's iterator."""
        self._consumers += 1
        mine = self._consumers
        self._waiting = [] if self._standing is None else [self._standing]
        self._news.set()
        while mine == self._consumers:
            if self._waiting:
                yield self._waiting.pop(0)
            elif self._closed:
                return
            else:
                self._news.clear()
                await self._news.wait()
