"""Choosing the partition, and so the task, that Spark gives a row to."""

from __future__ import annotations

from typing import Any

import numpy as np

# Numbers tried for each partition, so that hardly any partition gets none.
_TRIED = 20
_SEED = 42


def places_for(count: int) -> list[int]:
    """Return for each of ``count`` partitions a number that Spark's hash puts there.

    With the numbers 0, 1, … a third of the partitions would stay empty, and others get twice their share.
    """
    numbers = np.arange(_TRIED * count, dtype=np.int64)
    found: dict[int, int] = {}
    for number, partition in zip(numbers.tolist(), (spark_hash(numbers) % count).tolist(), strict=True):
        found.setdefault(partition, number)
    return [found.get(partition, partition) for partition in range(count)]


def spark_hash(numbers: Any) -> Any:
    """Return Spark's hash of each number of an array: 32 bits of Murmur3, signed, of its two halves."""
    halves = numbers.astype("<i8").view("<u4").reshape(-1, 2)
    state: Any = np.full(len(numbers), _SEED, np.uint32)
    for half in (halves[:, 0], halves[:, 1]):
        mixed = _rotate(half * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotate(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)
    state = (state ^ (state >> 16)) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> 13)) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> 16)).view(np.int32)


def _rotate(words: Any, bits: int) -> Any:
    return (words << bits) | (words >> (32 - bits))
