"""No election: a setting names the primary, or there is only one node."""

from __future__ import annotations

from collections.abc import AsyncIterator

from election.contract import Announcer, Event, Identity, Lost, NoPrimary, PrimaryIs, Won


class StaticElection:
    """``primary`` is the node that the setting names; ``None`` or this node's own URL means this node.

    Every node must have the same ``primary``. There is no failover.
    """

    def __init__(self, own: Identity, primary: Identity | None = None) -> None:
        self._own = own
        self._primary = primary
        self._announcer = Announcer()

    def events(self) -> AsyncIterator[Event]:
        """Yield a single event, and another one if this node resigns."""
        self._announcer.announce(self._verdict())
        return self._announcer.events()

    def _verdict(self) -> Event:
        if self._primary is not None and self._primary.url != self._own.url:
            return PrimaryIs(self._primary)
        if not self._own.eligible:
            return NoPrimary("this node is named as the primary but is not eligible")
        return Won()

    async def confirm(self) -> bool:
        """Return True if this node is the primary and has not resigned."""
        return self._announcer.won

    async def resign(self) -> None:
        """Give up the primary role; no other node takes over."""
        self._announcer.announce(Lost("this node resigned"))

    async def evict(self, identity: Identity) -> bool:
        """Return False: a primary that is named cannot be evicted."""
        return False

    async def close(self) -> None:
        """End the iterator."""
        self._announcer.announce(Lost("this node stops"))
        self._announcer.close()
