"""A cache for functions of bytes that clients have sent, bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")
_ENTRY_BYTES = 512  # overhead of an entry


def remembered(
    *, bytes_max: int, key_bytes_max: int, value_bytes: int = 0
) -> Callable[[Callable[[bytes], _T]], Callable[[bytes], _T]]:
    """Return a decorator that caches the most recently used results within ``bytes_max``.

    Keys longer than ``key_bytes_max`` are not cached. ``value_bytes``: maximum size of a result.
    """

    def decorate(function: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
        known = lru_cache(bytes_max // (key_bytes_max + value_bytes + _ENTRY_BYTES))(function)

        def result(key: bytes) -> _T:
            return known(key) if len(key) <= key_bytes_max else function(key)

        return result

    return decorate
