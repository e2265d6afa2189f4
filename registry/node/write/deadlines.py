"""Calls that are due at some time, made by one thread for all of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from registry.processes.threads import begun

_log = logging.getLogger(__name__)


@dataclass(order=True, slots=True)
class Deadline:
    """A call to come. One that is dropped holds nothing in memory any more."""

    at: float
    number: int
    call: Callable[[], None] | None = field(compare=False)

    def drop(self) -> None:
        """Do without the call, if it has not begun."""
        self.call = None


class Deadlines:
    """Any thread may add some. The thread that makes the calls is there while there are some."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._coming: list[Deadline] = []
        """A heap."""
        self._numbers = count()
        self._served = False

    def add(self, at: float, call: Callable[[], None]) -> Deadline:
        """Have ``call`` made at ``at``, as ``time.monotonic()`` tells.

        Where the machine has no thread for it, it is made when a later one finds one, or never.
        """
        deadline = Deadline(at, next(self._numbers), call)
        with self._changed:
            heappush(self._coming, deadline)
            if self._served:
                self._changed.notify()
            else:
                self._served = begun("deadlines", self._run, "to look at the clock") is not None
        return deadline

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:
                _log.exception("what was due has failed")
            del call  # nothing holds it while the next one is waited for

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next one; ``None`` when there is none."""
        with self._changed:
            while self._coming:
                first = self._coming[0]
                left_s = first.at - time.monotonic()
                if first.call is not None and left_s > 0:
                    self._changed.wait(left_s)
                    continue
                call = heappop(self._coming).call
                if call is not None:
                    return call
            self._served = False
            return None
