"""What a node may do at a moment: the pure machine behind its role.

``FOLLOWING → (won) CATCHING_UP → (own barrier applied) PRIMARY → (lost, fenced, doubt) FOLLOWING``.

A node that is elected and only follows claims the log, again and again if need be: losing the log's claim is
no loss of the election. A node that was not elected never claims. Nothing is written but as ``PRIMARY``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from election.contract import Event, Identity, Lost, NoPrimary, PrimaryIs, Won

NO_EPOCH = -1
UNKNOWN = "no primary is known yet"


class Stage(Enum):
    """How far a node is on its way to writing."""

    FOLLOWING = "following"
    CATCHING_UP = "catching up"
    PRIMARY = "primary"


class Task(Enum):
    """What the thread that writes has to do next."""

    NOTHING = "nothing"
    CLAIM = "claim"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Role:
    """A node's role. Each method gives the role after something happened; this one stays as it is."""

    stage: Stage = Stage.FOLLOWING
    elected: bool = False
    """Whether the election says that this node is the primary."""
    leaving: bool = False
    """Whether this node has resigned for good, because it stops."""
    other: Identity | None = None
    """The primary, when it is another node."""
    epoch: int = NO_EPOCH
    """Of this node's primaryship: the offset of its barrier."""
    seen: int = NO_EPOCH
    """The offset of the newest barrier that was applied."""
    refused: bool = False
    """Whether the election keeps this node out for the address that it advertises."""
    reason: str = UNKNOWN
    """Why there is no primary, or why this node does not write yet; empty when all is well."""

    @property
    def task(self) -> Task:
        """What to do next."""
        if self.leaving or not self.elected:
            return Task.NOTHING
        return Task.WRITE if self.stage is Stage.PRIMARY else Task.CLAIM

    @property
    def name(self) -> str:
        """``primary``, ``secondary``, or ``following`` while no primary is known."""
        if self.stage is Stage.PRIMARY:
            return "primary"
        return "following" if self.other is None else "secondary"

    def heard(self, event: Event) -> Role:
        """The election has said something."""
        refused = isinstance(event, NoPrimary) and event.rejected
        return replace(self._heard(event), refused=refused)

    def _heard(self, event: Event) -> Role:
        match event:
            case Won():
                # Said again after a rebalance, it disturbs nothing: a healthy primary goes on writing.
                reason = self.reason if self.elected else "elected; the log is not claimed yet"
                return replace(self, elected=True, other=None, reason=reason)
            case PrimaryIs(identity):
                return replace(self._stepped_down(), elected=False, other=identity, reason="")
            case NoPrimary(reason=reason) | Lost(reason=reason):
                return replace(self._stepped_down(), elected=False, other=None, reason=reason or UNKNOWN)

    def claiming(self) -> Role:
        """The claim has begun."""
        return replace(self, stage=Stage.CATCHING_UP) if self.task is Task.CLAIM else self

    def claimed(self, epoch: int) -> Role:
        """The own barrier at offset ``epoch`` is applied; in vain if the election was lost meanwhile."""
        if self.stage is not Stage.CATCHING_UP or self.task is not Task.CLAIM or epoch < self.seen:
            return self._stepped_down()
        return replace(self, stage=Stage.PRIMARY, epoch=epoch, seen=epoch, reason="")

    def alone(self) -> Role:
        """Nobody else can write the log: no election, no barrier."""
        return replace(self, elected=True, stage=Stage.PRIMARY, epoch=0, reason="")

    def deposed(self, reason: str) -> Role:
        """The claim does not stand: fenced, in doubt, or not to be had."""
        return replace(self._stepped_down(), reason=reason if self.elected else self.reason)

    def applied(self, barrier: int) -> Role:
        """A barrier at offset ``barrier`` was applied; a newer one than its own deposes a primary."""
        if barrier <= self.seen:
            return self
        after = replace(self, seen=barrier)
        if self.stage is Stage.PRIMARY and barrier > self.epoch:
            return after.deposed(f"another node has claimed the log at offset {barrier}")
        return after

    def left(self) -> Role:
        """The node stops: it writes no more, and never again."""
        return replace(self._stepped_down(), elected=False, leaving=True, reason="this node stops")

    def _stepped_down(self) -> Role:
        return replace(self, stage=Stage.FOLLOWING, epoch=NO_EPOCH)
