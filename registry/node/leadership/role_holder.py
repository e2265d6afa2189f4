"""The node's role, shared by its threads: each change is made under one lock and told to all that wait."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from election.contract import Event, Lost, NoPrimary, PrimaryIs, Won

from .role import Role, Stage

_log = logging.getLogger(__name__)


class RoleHolder:
    """Any thread may read ``role`` and change it.

    ``switched`` is called while the change is made, by the thread that makes it, whenever the node becomes
    primary or ceases to be; ``changed`` after every change.
    """

    def __init__(self, *, switched: Callable[[Role], None], changed: Callable[[], None]) -> None:
        self._switched = switched
        self._changed = changed
        self._condition = threading.Condition()
        self._changes = 0
        self._closed = False
        self.role = Role()

    def heard(self, event: Event) -> None:
        """The election has said something."""
        # Nobody can write then, unless this node leaves the office to the next one.
        grave = isinstance(event, NoPrimary | Lost) and not self.role.leaving
        _log.log(logging.WARNING if grave else logging.INFO, "%s", _heard(event))
        self._change(lambda role: role.heard(event))

    def claiming(self) -> None:
        """See :meth:`.role.Role.claiming`."""
        self._change(Role.claiming)

    def claimed(self, epoch: int) -> None:
        """See :meth:`.role.Role.claimed`."""
        self._change(lambda role: role.claimed(epoch))

    def alone(self) -> None:
        """See :meth:`.role.Role.alone`."""
        self._change(Role.alone)

    def deposed(self, reason: str) -> None:
        """See :meth:`.role.Role.deposed`."""
        self._change(lambda role: role.deposed(reason))

    def applied(self, barrier: int) -> None:
        """See :meth:`.role.Role.applied`."""
        self._change(lambda role: role.applied(barrier))

    def left(self) -> None:
        """See :meth:`.role.Role.left`."""
        self._change(Role.left)

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
            _log.info("%s", _said(after))
        self._changed()

    def wait(self, seen: Role, timeout_s: float | None = None) -> Role:
        """Wait until the role is another than ``seen``, the time is over or all ends; the role then."""
        with self._condition:
            self._condition.wait_for(lambda: self.role != seen or self._closed, timeout_s)
            return self.role

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()


def _heard(event: Event) -> str:
    match event:
        case Won():
            return "this node is elected"
        case PrimaryIs(identity):
            return f"{identity.name} is elected"
        case NoPrimary(reason, refused):
            return f"this node is refused: {reason}" if refused else f"no node is elected: {reason}"
        case Lost(reason):
            return f"this node is no longer elected: {reason}"


def _said(role: Role) -> str:
    if role.name == "primary":
        return f"this node is the primary now, epoch {role.epoch}"
    if role.other is not None:
        return f"the primary is {role.other.name}"
    if role.elected:
        return f"this node does not write yet: {role.reason}"
    return f"no primary: {role.reason}"
