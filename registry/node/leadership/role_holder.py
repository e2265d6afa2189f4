"""The node's role, shared by its threads: each change is made under a lock and wakes all waiting threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from election.contract import Event, Lost, NoPrimary, PrimaryIs, Won

from .role import Role, Stage

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

    def claimed(self, epoch: int) -> None:
        """Apply :meth:`.role.Role.claimed`."""
        self._change(lambda role: role.claimed(epoch))

    def standalone(self) -> None:
        """Apply :meth:`.role.Role.standalone`."""
        self._change(Role.standalone)

    def deposed(self, reason: str) -> None:
        """Apply :meth:`.role.Role.deposed`."""
        self._change(lambda role: role.deposed(reason))

    def applied(self, barrier: int) -> None:
        """Apply :meth:`.role.Role.applied`."""
        self._change(lambda role: role.applied(barrier))

    def left(self) -> None:
        """Apply :meth:`.role.Role.left`."""
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
