"""Which keys each task writes: whole parts of the snapshot to be made, about as many bytes for each task."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from snapshots.format.manifest import Part
from snapshots.format.parts import begins_part

from .tasks.writing import Range, Unit

RANGE_BYTES = 128 << 20
"""Of rows in a range, about."""
_COMPRESSED = 5
"""Rows are about so many times as large as the files of parts."""


class ChunkSeen(NamedTuple):
    """What the driver knows of a chunk."""

    first: bytes
    size: int
    begins: Sequence[bytes]
    gone: Sequence[bytes]


def plan_ranges(chunks: Collection[ChunkSeen], parts: Sequence[Part], least: int) -> tuple[Range, ...]:
    """ManifestHeader ``least`` ranges or more, at least one, which together hold every key once."""
    units = list(_units(sorted(chunks, key=lambda chunk: chunk.first), parts))
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


def _units(chunks: Sequence[ChunkSeen], parts: Sequence[Part]) -> Iterator[Unit]:
    firsts, lasts = [part.first for part in parts], [part.last for part in parts]
    chunk_firsts = [chunk.first for chunk in chunks]
    sizes = [0, *accumulate(chunk.size for chunk in chunks)]
    lows = [b"", *_edges(chunks, firsts)]
    for low, high in zip(lows, [*lows[1:], None], strict=True):
        begin = bisect_left(lasts, low)
        end = len(parts) if high is None else bisect_left(firsts, high)
        held = tuple(parts[begin:end])
        a = bisect_left(chunk_firsts, low)
        b = len(chunks) if high is None else bisect_left(chunk_firsts, high)
        weight = sizes[b] - sizes[a] + sum(part.size for part in held) * _COMPRESSED
        yield Unit(low, high, held, weight)


def _edges(chunks: Sequence[ChunkSeen], firsts: Sequence[bytes]) -> list[bytes]:
    """The keys that begin a part: those of the base that stay, and those that come."""
    gone = {key for chunk in chunks for key in chunk.gone}
    stay = {first for first in firsts if begins_part(first)} - gone
    return sorted(stay.union(*(chunk.begins for chunk in chunks)))
