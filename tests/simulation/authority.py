"""An election as a simulation: one authority with sessions, and what each node hears of it, and when.

It is as right as elections are: who was frozen still believes to be elected, and :meth:`Authority.usurp`
makes another node the primary under the eyes of a healthy one. Safety must not rest on it.
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
    """Knows the members and who of them is elected; sticky."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sessions: dict[str, Session] = {}
        self.elected = ""

    def heartbeat(self, identity: Identity, *, eligible: bool = True) -> Identity | None:
        """A member shows that it lives, and hears who is elected."""
        now = self._world.now
        if eligible:
            self._sessions[identity.node] = Session(identity, now)
        for name in [name for name, each in self._sessions.items() if now - each.seen_at > SESSION_S]:
            self.leave(name)
        if not self.elected and self._sessions:
            self.elected = self._world.chance.choice(sorted(self._sessions))
        return self._sessions[self.elected].identity if self.elected else None

    def leave(self, name: str) -> None:
        """A member goes, or is made to go."""
        self._sessions.pop(name, None)
        if self.elected == name:
            self.elected = ""

    def usurp(self) -> None:
        """Another member is elected, whatever the state of the one that was."""
        others = sorted(self._sessions.keys() - {self.elected})
        if others:
            self.elected = self._world.chance.choice(others)


class Elector:
    """One node's part in it; ``cut`` says whether the authority is out of its reach."""

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
        """Heartbeat for ever."""
        while True:
            self._beat()
            self._world.sleep(HEARTBEAT_S * (0.5 + self._world.chance.random()))

    def confirm(self) -> bool:
        """Ask now whether this node is still elected."""
        return self._beat() == self._identity

    def resign(self) -> None:
        """Give up and stay a listener."""
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
