"""A simulated election: one authority with sessions, and its delayed messages to each node.

It is as reliable as real elections: a node that was frozen still believes that it is elected, and
:meth:`Authority.usurp` elects another node while the primary is healthy. Safety must not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from election.contract import Event, Identity, Lost, NoPrimary, PrimaryIs, Won

from .world import World

SESSION_S = 6.0
HEARTBEAT_S = 1.0
_ANSWER_S = 0.001


@dataclass
class Session:
    identity: Identity
    seen_at: float


class Authority:
    """The members, and which of them is elected; sticky."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sessions: dict[str, Session] = {}
        self.elected = ""

    def heartbeat(self, identity: Identity, *, eligible: bool = True) -> Identity | None:
        """Record that a member is alive, and notify it of the elected one."""
        now = self._world.now
        if eligible:
            self._sessions[identity.node] = Session(identity, now)
        for name in [name for name, each in self._sessions.items() if now - each.seen_at > SESSION_S]:
            self.leave(name)
        if not self.elected and self._sessions:
            self.elected = self._world.chance.choice(sorted(self._sessions))
        return self._sessions[self.elected].identity if self.elected else None

    def leave(self, name: str) -> None:
        """Remove a member."""
        self._sessions.pop(name, None)
        if self.elected == name:
            self.elected = ""

    def evict(self, identity: Identity) -> bool:
        """Remove the elected one if it is this; return true if it was removed."""
        if self.elected != identity.node:
            return False
        self.leave(identity.node)
        return True

    def usurp(self) -> None:
        """Elect another member, whatever the state of the current one."""
        others = sorted(self._sessions.keys() - {self.elected})
        if others:
            self.elected = self._world.chance.choice(others)


class Elector:
    """One node's part in it; ``cut`` returns true if the authority is out of its reach."""

    def __init__(
        self,
        world: World,
        authority: Authority,
        identity: Identity,
        tell: Callable[[Event], None],
        cut: Callable[[], bool],
    ) -> None:
        self._world = world
        self._authority = authority
        self._identity = identity
        self._tell = tell
        self._cut = cut
        self._told: Identity | None = None
        self._heard_at = world.now
        self._resigned = False

    def run(self) -> None:
        """Send heartbeats for ever."""
        while True:
            self._beat()
            self._world.sleep(HEARTBEAT_S * (0.5 + self._world.chance.random()))

    def confirm(self) -> bool:
        """Ask now if this node is still elected."""
        return self._beat() == self._identity

    def resign(self) -> None:
        """Resign, and remain a listener."""
        self._resigned = True
        if not self._cut():
            self._authority.leave(self._identity.node)
        self._learn(None)

    def _beat(self) -> Identity | None:
        self._world.sleep(self._world.chance.random() * _ANSWER_S)
        if self._cut():
            if self._world.now - self._heard_at > SESSION_S:
                self._learn(None)
            return None
        found = self._authority.heartbeat(self._identity, eligible=not self._resigned)
        self._heard_at = self._world.now
        self._world.sleep(self._world.chance.random() * _ANSWER_S)
        self._learn(found)
        return found

    def _learn(self, found: Identity | None) -> None:
        before, self._told = self._told, found
        if found == before:
            return
        if before == self._identity:
            self._tell(Lost("another was elected, or the session has passed"))
        if found is None:
            self._tell(NoPrimary("nobody is elected"))
        elif found == self._identity:
            self._tell(Won())
        else:
            self._tell(PrimaryIs(found))
