"""Dividing the keys among tasks: whole parts of the new snapshot, about equally many bytes for each task."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from snapshots.format.manifest import Part
from snapshots.format.parts import begins_part

from .tasks.writing import Range, Unit

# Bytes of rows in a range, roughly.
RANGE_BYTES = 128 << 20
# Size of rows divided by the size of their parts' files, roughly.
_COMPRESSION = 5


class ChunkSummary(NamedTuple):
    """The driver's knowledge of a chunk."""

    first: bytes
    size: int
    begins: Sequence[bytes]
    gone: Sequence[bytes]


def plan_ranges(chunks: Collection[ChunkSummary], parts: Sequence[Part], least: int) -> tuple[Range, ...]:
    """Return about ``least`` ranges or more, at least one, which together cover every key once."""
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


def _units(chunks: Sequence[ChunkSummary], parts: Sequence[Part]) -> Iterator[Unit]:
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
        weight = sizes[b] - sizes[a] + sum(part.size for part in held) * _COMPRESSION
        yield Unit(low, high, held, weight)


def _edges(chunks: Sequence[ChunkSummary], firsts: Sequence[bytes]) -> list[bytes]:
    """Return the keys that begin a part: those of the base that stay, and new ones."""
    gone = {key for chunk in chunks for key in chunk.gone}
    stay = {first for first in firsts if begins_part(first)} - gone
    return sorted(stay.union(*(chunk.begins for chunk in chunks)))
