"""Dividing the keys among tasks: whole parts of the new snapshot, about equally many bytes for each task."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from snapshots.format.manifest import Part
from snapshots.format.parts import begins_part

from .tasks.summaries import SummaryMessage
from .tasks.writing import Range, Unit

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
