"""The role of a node, and who holds it.

``FOLLOWING → (won) CATCHING_UP → (own barrier applied) PRIMARY → (lost, fenced, doubt, newer barrier)
FOLLOWING``.

An elected node that is ``FOLLOWING`` claims the log, repeatedly if necessary: losing the claim of the log
does not mean losing the election. A node that is not elected never claims. Only a ``PRIMARY`` writes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from election.contract import Event, Identity, Lost, NoPrimary, PrimaryIs, Won

NO_EPOCH = -1
UNKNOWN = "no primary is known yet"


class Stage(Enum):
    """A node's progress toward writing."""

    FOLLOWING = "following"
    CATCHING_UP = "catching up"
    PRIMARY = "primary"


class Task(Enum):
    """The next task of the write thread."""

    NOTHING = "nothing"
    CLAIM = "claim"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Role:
    """A node's role; immutable. Each method returns the role after an event."""

    stage: Stage = Stage.FOLLOWING
    # True if this node won the election.
    elected: bool = False
    # True once this node has resigned permanently, because it stops.
    leaving: bool = False
    # The primary, if it is another node.
    other: Identity | None = None
    # The epoch in which this node is primary: the offset of its barrier.
    epoch: int = NO_EPOCH
    # Offset of the newest applied barrier.
    seen: int = NO_EPOCH
    # True if the election rejects this node because of the address that it advertises.
    refused: bool = False
    # The reason why there is no primary, or why this node does not write yet; empty if all is well.
    reason: str = UNKNOWN

    @property
    def task(self) -> Task:
        """The next task of the write thread in this role."""
        if self.leaving or not self.elected:
            return Task.NOTHING
        return Task.WRITE if self.stage is Stage.PRIMARY else Task.CLAIM

    @property
    def name(self) -> str:
        """``primary``, ``secondary``, or ``following`` while no primary is known."""
        if self.stage is Stage.PRIMARY:
            return "primary"
        return "following" if self.other is None else "secondary"

    def on_event(self, event: Event) -> Role:
        """Return the role after an event of the election."""
        refused = isinstance(event, NoPrimary) and event.rejected
        return replace(self._on_event(event), refused=refused)

    def _on_event(self, event: Event) -> Role:
        match event:
            case Won():
                # Repeated after a rebalance, the event changes nothing: a healthy primary keeps writing.
                reason = self.reason if self.elected else "elected, but the log is not claimed yet"
                return replace(self, elected=True, other=None, reason=reason)
            case PrimaryIs(identity):
                return replace(self._stepped_down(), elected=False, other=identity, reason="")
            case NoPrimary(reason=reason) | Lost(reason=reason):
                return replace(self._stepped_down(), elected=False, other=None, reason=reason or UNKNOWN)

    def claiming(self) -> Role:
        """Return the role after the claim has begun."""
        return replace(self, stage=Stage.CATCHING_UP) if self.task is Task.CLAIM else self

    def after_claim(self, epoch: int) -> Role:
        """Return the role once this node's barrier at offset ``epoch`` is applied.

        The claim has no effect if the election was lost in the meantime.
        """
        if self.stage is not Stage.CATCHING_UP or self.task is not Task.CLAIM or epoch < self.seen:
            return self._stepped_down()
        return replace(self, stage=Stage.PRIMARY, epoch=epoch, seen=epoch, reason="")

    def standalone(self) -> Role:
        """Return the role of a primary without election and barrier, as no other node can write the log."""
        return replace(self, elected=True, stage=Stage.PRIMARY, epoch=0, reason="")

    def after_deposition(self, reason: str) -> Role:
        """Return the role after the claim was fenced, became uncertain or could not be made."""
        return replace(self._stepped_down(), reason=reason if self.elected else self.reason)

    def after_barrier(self, barrier: int) -> Role:
        """Return the role after a barrier was applied; one newer than its own deposes a primary."""
        if barrier <= self.seen:
            return self
        after = replace(self, seen=barrier)
        if self.stage is Stage.PRIMARY and barrier > self.epoch:
            return after.after_deposition(f"another node claimed the log at offset {barrier}")
        return after

    def after_leaving(self) -> Role:
        """Return the role of a node that stops; it never writes again."""
        return replace(self._stepped_down(), elected=False, leaving=True, reason="this node is stopping")

    def _stepped_down(self) -> Role:
        return replace(self, stage=Stage.FOLLOWING, epoch=NO_EPOCH)


_log = logging.getLogger(__name__)


class RoleHolder:
    """Holds the role; any thread may read ``role`` and change it.

    ``switched`` is called under the lock, by the thread that makes the change, whenever the node becomes
    primary or stops being primary. ``changed`` is called after every change.
    """

    def __init__(self, *, switched: Callable[[Role], None], changed: Callable[[], None]) -> None:
        self._switched = switched
        self._changed = changed
        self._condition = threading.Condition()
        self._changes = 0
        self._closed = False
        self.role = Role()

    def on_event(self, event: Event) -> None:
        """Log an event of the election and apply it to the role."""
        # No node can write then, unless this one is handing over to the next primary.
        grave = isinstance(event, NoPrimary | Lost) and not self.role.leaving
        _log.log(logging.WARNING if grave else logging.INFO, "%s", _describe_event(event))
        self._change(lambda role: role.on_event(event))

    def claiming(self) -> None:
        """Apply :meth:`.role.Role.claiming`."""
        self._change(Role.claiming)

    def claim(self, epoch: int) -> None:
        """Apply :meth:`.role.Role.after_claim`."""
        self._change(lambda role: role.after_claim(epoch))

    def standalone(self) -> None:
        """Apply :meth:`.role.Role.standalone`."""
        self._change(Role.standalone)

    def depose(self, reason: str) -> None:
        """Apply :meth:`.role.Role.after_deposition`."""
        self._change(lambda role: role.after_deposition(reason))

    def apply_barrier(self, barrier: int) -> None:
        """Apply :meth:`.role.Role.after_barrier`."""
        self._change(lambda role: role.after_barrier(barrier))

    def leave(self) -> None:
        """Apply :meth:`.role.Role.after_leaving`."""
        self._change(Role.after_leaving)

    def _change(self, change: Callable[[Role], Role]) -> None:
        with self._condition:
            before = self.role
            self.role = after = change(before)
            if after == before:
                return
            if (before.stage is Stage.PRIMARY) != (after.stage is Stage.PRIMARY):
                self._switched(after)
            self._changes += 1
            self._condition.notify_all()
        if before.name != after.name:
            _log.info("%s", _describe_role(after))
        self._changed()

    def wait(self, seen: Role, timeout_s: float | None = None) -> Role:
        """Wait until the role differs from ``seen``, the holder is closed or time is up; return the role."""
        with self._condition:
            self._condition.wait_for(lambda: self.role != seen or self._closed, timeout_s)
            return self.role

    def close(self) -> None:
        """Release all waiting threads; later waits return at once."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()


def _describe_event(event: Event) -> str:
    match event:
        case Won():
            return "this node is elected"
        case PrimaryIs(identity):
            return f"{identity.name} is elected"
        case NoPrimary(reason, refused):
            return f"this node is refused: {reason}" if refused else f"no node is elected: {reason}"
        case Lost(reason):
            return f"this node is no longer elected: {reason}"


def _describe_role(role: Role) -> str:
    if role.name == "primary":
        return f"this node is now the primary, epoch {role.epoch}"
    if role.other is not None:
        return f"the primary is {role.other.name}"
    if role.elected:
        return f"this node does not write yet: {role.reason}"
    return f"no primary: {role.reason}"
