"""The port to an election, which names the primary, and the election of a cluster with one candidate.

Three implementations pass one suite: static, a Kafka group, and ZooKeeper. They run on the caller's event
loop, which must not be blocked, because heartbeats run there.

An election may be wrong about the primary for a while: a node that was frozen does not know yet that it was
replaced. The log's fence makes that harmless, not the election.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from election.identity import Identity, Reachable

__all__ = [
    "Announcer", "Election", "ErrorLog", "Event", "Identity", "Lost", "NoPrimary", "PrimaryIs", "Reachable",
    "Won",
]  # fmt: skip

# Seconds from one log line about unexpected errors to the next.
_ERROR_EVERY_S = 30.0


@dataclass(frozen=True)
class Won:
    """The local node is the primary from now on."""


@dataclass(frozen=True)
class PrimaryIs:
    """Another node is the primary."""

    identity: Identity


@dataclass(frozen=True)
class NoPrimary:
    """There is no primary, or this node may not know it; the reason is a full sentence."""

    reason: str
    # True if this node is rejected because of the address it advertises. It then accepts no writes at all.
    rejected: bool = False


@dataclass(frozen=True)
class Lost:
    """The local node was the primary and no longer is. The next event says what is true instead."""

    reason: str


Event = Won | PrimaryIs | NoPrimary | Lost


class Election(Protocol):
    """Takes part in the election from the first :meth:`events` to :meth:`close`, reconnecting as needed."""

    def events(self) -> AsyncIterator[Event]:
        """Yield changes in order, starting with the current state; ends after :meth:`close`.

        There is one consumer. A new iterator starts with the current state and makes a node that had resigned
        electable again. Events that were not consumed in time are skipped, except :class:`Lost`.
        """
        ...

    async def confirm(self) -> bool:
        """Ask the authority now if this node is still elected; False without an answer in time.

        May also make a node that was replaced learn of the change sooner.
        """
        ...

    async def resign(self) -> None:
        """Give up the primary role at once, with a :class:`Lost`, so that another node takes over.

        The node still learns who is the primary, so that it can forward writes while it stops. It is not
        elected until :meth:`events` is called again. Does not raise if the authority cannot be reached.
        """
        ...

    async def evict(self, identity: Identity) -> bool:
        """Remove the primary ``identity``, which the caller believes to be dead; return True if removed.

        False if that is not possible or another node is the primary now. A wrong belief is harmless: the
        fence holds, and the evicted node joins again.
        """
        ...

    async def close(self) -> None:
        """Leave, so that another node takes over at once; ends the iterator. May be called twice."""
        ...


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
    def is_primary(self) -> bool:
        """True if this node is the primary according to the latest event."""
        return isinstance(self._latest, Won)

    def announce(self, event: Event, lost: str = "another node is the primary now") -> None:
        """Queue ``event`` if it is new; ``lost`` is the reason if it means that another node took over."""
        if self._closed or event == self._latest:
            return
        if self.is_primary and not isinstance(event, Lost):
            self._add(Lost(event.reason if isinstance(event, NoPrimary) else lost))
        if not isinstance(event, Lost) or self.is_primary:
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


class ErrorLog:
    """Logs the unexpected errors of an election, which is tried again after each (Confluent 8.4).

    The first one of a type and place is logged at once and later ones at most every 30 s, then that the
    election works again.
    """

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._logged_at: dict[object, float] = {}
        self._failing = False

    def report(self) -> None:
        """Log the exception that is being handled, unless there was such a one a short while ago."""
        now, error = self._now(), sys.exception()
        assert error is not None
        # Not its text, which may have another number each time.
        *_, place = traceback.walk_tb(error.__traceback__)
        kind = type(error), place[0].f_code, place[1]
        if now - self._logged_at.get(kind, -math.inf) >= _ERROR_EVERY_S:
            self._logged_at[kind], self._failing = now, True
            self._log.exception("unexpected error in the election; retrying")

    def clear(self) -> None:
        """Log the end of the errors, if one was logged."""
        if self._failing:
            self._failing = False
            self._log.info("the election works again")


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
        return self._announcer.is_primary

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
