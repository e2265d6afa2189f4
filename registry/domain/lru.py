"""The cache of this program: it evicts what was used least recently, within a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Lru(Generic[_K, _V]):
    """Values by key, of which those used least recently are evicted. Not safe for threads.

    ``weight_max`` bounds the sum of the weights of all values: bytes, or their number where each weighs 1.
    The ``least`` values used last are kept even if they weigh more.
    """

    def __init__(self, weight_max: int, *, least: int = 0) -> None:
        self._weight_max = weight_max
        self._least = least
        self._weight = 0
        self._values: OrderedDict[_K, tuple[_V, int]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values)

    def get(self, key: _K) -> _V | None:
        """Return a value and mark it as used."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: _K, value: _V, weight: int = 1) -> None:
        """Put or replace a value and mark it as used; then evict others until all are within the bound."""
        before = self._values.pop(key, None)
        self._weight += weight if before is None else weight - before[1]
        self._values[key] = value, weight
        while self._weight > self._weight_max and len(self._values) > self._least:
            _, (_, evicted) = self._values.popitem(last=False)
            self._weight -= evicted

    def remove(self, key: _K) -> None:
        """Remove a value, if there is one."""
        removed = self._values.pop(key, None)
        if removed is not None:
            self._weight -= removed[1]

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()
        self._weight = 0
