"""The bound on request bodies, for all connections of a process together."""

from __future__ import annotations

import sys
from typing import Protocol

from registry.domain.admission import Room, is_large


class Sender(Protocol):
    """A connection whose client sends a body."""

    def admitted(self) -> None:
        """Note that the body may be received now."""
        ...


class Intake:
    """Admits bodies while there is room for them, by their announced sizes and in the order of their arrival.

    A body counts from its admission until its request is answered. Those that are not admitted stay with
    their clients. Large bodies leave some room to small ones, which do not wait behind them.
    """

    def __init__(self, bytes_max: int) -> None:
        self._room = Room(sys.maxsize, bytes_max)
        self._admitted: dict[Sender, int] = {}
        # By whether they are large.
        self._waiting: dict[bool, dict[Sender, int]] = {False: {}, True: {}}

    @property
    def size(self) -> int:
        """Return the announced bytes of all admitted bodies."""
        return sum(self._admitted.values())

    def admit(self, sender: Sender, size: int) -> bool:
        """Check that there is room for a body; if not, ``sender`` is told when there is."""
        waiting = self._waiting[is_large(size)]
        if waiting or not self._room.fits(size):
            waiting[sender] = size
            return False
        self._admit(sender, size)
        return True

    def waits(self, sender: Sender) -> bool:
        """Check that the body of ``sender`` is not admitted yet."""
        return bool(self._admitted) and (sender in self._waiting[True] or sender in self._waiting[False])

    def holds_up(self, sender: Sender) -> bool:
        """Check that bodies of other clients wait while that of ``sender`` has room."""
        return sender in self._admitted and any(self._waiting.values())

    def release(self, sender: Sender) -> None:
        """Forget the body of ``sender``, if there is one, and admit those for which there is room now."""
        if not self._admitted:
            return  # then none waits either
        size = self._admitted.pop(sender, None)
        if size is not None:
            self._room.remove(size)
        for waiting in self._waiting.values():
            if sender in waiting:
                del waiting[sender]
            while waiting:
                first, size = next(iter(waiting.items()))
                if not self._room.fits(size):
                    break
                del waiting[first]
                self._admit(first, size)
                first.admitted()

    def _admit(self, sender: Sender, size: int) -> None:
        self._room.add(size)
        self._admitted[sender] = size
