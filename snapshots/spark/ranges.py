"""Dividing the keys among tasks, and choosing the partition that Spark gives a row to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from snapshots.format.manifest import Part
from snapshots.format.parts import begins_part

from .tasks.summaries import SummaryMessage
from .tasks.writing import Range, Unit

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


# Bytes of rows in a range, roughly.
RANGE_BYTES = 128 << 20
# Size of rows divided by the size of their parts' files, roughly.
_COMPRESSION = 5


def plan_ranges(folded: Collection[SummaryMessage], parts: Sequence[Part], least: int) -> tuple[Range, ...]:
    """Return about ``least`` ranges or more, at least one, which together cover every key once.

    ``folded``: the summaries of all tasks that folded; ``parts``: those of the base.
    """
    units = list(_units(folded, parts))
    size = sum(unit.weight for unit in units)
    share = size / max(least, size // RANGE_BYTES)
    ranges: list[Range] = []
    under_way: list[Unit] = []
    weight = 0
    for unit in units:
        under_way.append(unit)
        weight += unit.weight
        if weight >= share:
            ranges.append(tuple(under_way))
            under_way, weight = [], 0
    return (*ranges, tuple(under_way)) if under_way else tuple(ranges)


def _units(folded: Collection[SummaryMessage], parts: Sequence[Part]) -> Iterator[Unit]:
    firsts, lasts = [part.first for part in parts], [part.last for part in parts]
    samples = sorted(sample for summary in folded for sample in summary.samples)
    sampled = [key for key, _ in samples]
    sizes = [0, *accumulate(size for _, size in samples)]
    lows = [b"", *_edges(folded, firsts)]
    for low, high in zip(lows, [*lows[1:], None], strict=True):
        begin = bisect_left(lasts, low)
        end = len(parts) if high is None else bisect_left(firsts, high)
        held = tuple(parts[begin:end])
        a = bisect_left(sampled, low)
        b = len(samples) if high is None else bisect_left(sampled, high)
        weight = sizes[b] - sizes[a] + sum(part.size for part in held) * _COMPRESSION
        yield Unit(low, high, held, weight)


def _edges(folded: Collection[SummaryMessage], firsts: Sequence[bytes]) -> list[bytes]:
    """Return the keys that begin a part: those of the base that stay, and new ones."""
    gone = {key for summary in folded for key in summary.gone}
    stay = {first for first in firsts if begins_part(first)} - gone
    return sorted(stay.union(*(summary.begins for summary in folded)))
