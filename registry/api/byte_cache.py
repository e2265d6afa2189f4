"""Memory of what functions of bytes gave, bounded by bytes: the keys are what clients send."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")
_ENTRY_BYTES = 512  # that an entry takes beside what it holds


def remembered(
    *, bytes_max: int, key_bytes_max: int, value_bytes: int = 0
) -> Callable[[Callable[[bytes], _T]], Callable[[bytes], _T]]:
    """Return a decorator that remembers the last results used, within ``bytes_max``.

    Longer keys than ``key_bytes_max`` are not remembered. ``value_bytes``: the most that a result takes.
    """

    def decorate(function: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
        known = lru_cache(bytes_max // (key_bytes_max + value_bytes + _ENTRY_BYTES))(function)

        def result(key: bytes) -> _T:
            return known(key) if len(key) <= key_bytes_max else function(key)

        return result

    return decorate
