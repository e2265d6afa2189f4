"""What a node asks of an election: who is the primary, and is it still me.

Three elections keep this contract and pass one suite: static, a Kafka group, ZooKeeper. They live on the
event loop of the caller, which must never be kept busy for long: their heartbeats run there.

An election may be wrong for a while about who is the primary (a node that was frozen does not know it yet).
What makes that harmless is the fence of the log, not the election.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from election.identity import Identity

__all__ = ["Election", "Event", "Identity", "Lost", "NoPrimary", "PrimaryIs", "Reachable", "Won"]


@dataclass(frozen=True)
class Won:
    """The node itself is the primary from now on."""


@dataclass(frozen=True)
class PrimaryIs:
    """Another node is the primary."""

    identity: Identity


@dataclass(frozen=True)
class NoPrimary:
    """Nobody is the primary, or this node may not know who; the reason is a plain sentence."""

    reason: str
    refused: bool = False
    """Whether this node is kept out for the address it advertises, so that it takes no writes at all."""


@dataclass(frozen=True)
class Lost:
    """The node was told :class:`Won`, and is not the primary any more. What is instead is told next."""

    reason: str


Event = Won | PrimaryIs | NoPrimary | Lost

Reachable = Callable[[Identity], Awaitable[str]]
"""Asks for the node at an advertised address: "", or a plain sentence why it cannot be reached."""


class Election(Protocol):
    """Takes part in the election from the first :meth:`events` to :meth:`close`, and reconnects for ever."""

    def events(self) -> AsyncIterator[Event]:
        """What changes, in order, from the present state on, for one consumer; ends after :meth:`close`.

        Consuming it anew begins with the present state, and lets a node be elected that had resigned.
        Changes that nobody took are left out, except that a :class:`Lost` never is.
        """
        ...

    async def confirm(self) -> bool:
        """Ask the authority now whether this node is still elected; no answer in time means no.

        A node that is not learns sooner what has changed, if it has reason to think so.
        """
        ...

    async def resign(self) -> None:
        """Give up at once: tells :class:`Lost`, and the next node takes over.

        The node goes on to be told who is the primary, so that it can hand writes on while it stops, and is
        not elected until :meth:`events` is consumed anew. Does not raise when the authority is out of reach.
        """
        ...

    async def evict(self, identity: Identity) -> bool:
        """Make the authority forget the primary ``identity``, which the caller holds to be dead.

        Whether it did. False where that cannot be done, or another one is the primary by now.
        A wrong verdict is harmless: the fence holds, and the evicted node joins anew.
        """
        ...

    async def close(self) -> None:
        """Leave, so that the next node takes over at once; the iterator ends. May be called twice."""
        ...
