"""No election: the primary is named by a setting, or there is one node only."""

from __future__ import annotations

from collections.abc import AsyncIterator

from election.announcer import Announcer
from election.contract import Event, Identity, Lost, NoPrimary, PrimaryIs, Won


class StaticElection:
    """``primary`` is who the setting names; ``None`` or this node's own URL: this node.

    Every node must be given the same ``primary``. Nobody takes over from it, whatever happens.
    """

    def __init__(self, own: Identity, primary: Identity | None = None) -> None:
        self._own = own
        self._primary = primary
        self._announcer = Announcer()

    def events(self) -> AsyncIterator[Event]:
        """One event for ever, until this node resigns."""
        self._announcer.tell(self._verdict())
        return self._announcer.events()

    def _verdict(self) -> Event:
        if self._primary is not None and self._primary.url != self._own.url:
            return PrimaryIs(self._primary)
        if not self._own.eligible:
            return NoPrimary("this node is the only one named, and is not eligible")
        return Won()

    async def confirm(self) -> bool:
        """Whether this node is the one named, and has not resigned."""
        return self._announcer.won

    async def resign(self) -> None:
        """Nobody takes over."""
        self._announcer.tell(Lost("this node resigned"))

    async def evict(self, identity: Identity) -> bool:
        """Nobody can be evicted: False."""
        return False

    async def close(self) -> None:
        """End the iterator."""
        self._announcer.tell(Lost("this node stops"))
        self._announcer.close()
