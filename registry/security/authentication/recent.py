"""Cache of recently verified credentials."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values that were used within the last ``seconds`` to twice that, at most ``count_max`` times two.

    Entries move between two dictionaries instead of having ages of their own, so that reading one costs
    little more than a lookup.
    """

    def __init__(self, seconds: float, count_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic, in seconds."""
        self._seconds = seconds
        self._count_max = count_max
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._new: dict[bytes | str, V] = {}
        self._old: dict[bytes | str, V] = {}
        self._turns_at = self._clock() + self._seconds

    def get(self, key: bytes | str, now: float | None = None) -> V | None:
        """Return the value of ``key``; ``now``: the clock, if the caller has read it."""
        if (self._clock() if now is None else now) >= self._turns_at:
            self._turn()
        found = self._new.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: bytes | str, value: V) -> None:
        """Keep ``value``."""
        if len(self._new) >= self._count_max:
            self._turn()
        self._new[key] = value

    def drop(self, key: bytes | str) -> None:
        """Forget one value."""
        self._new.pop(key, None)
        self._old.pop(key, None)

    def _turn(self) -> None:
        now = self._clock()
        # After two periods without use, nothing is kept.
        self._old = {} if now >= self._turns_at + self._seconds else self._new
        self._new = {}
        self._turns_at = now + self._seconds
