"""Spans of the log whose records a history holds.

A history grows at its top with every step of the follower, and is filled below in any order. So it may hold
several spans at a time; they are kept ascending, and those that touch become one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

# With more spans, the lowest are forgotten and filled again.
SPANS_MAX = 16
# The first byte of packed spans: another format is another history, which is filled again from the log.
_FORMAT = b"\x03"
_SPAN = struct.Struct(">QQQ")


class Span(NamedTuple):
    """A stretch of the log of which the history holds every record that was still there."""

    begin: int
    # From here on no record is missing; below, compaction may have removed some before they were seen.
    since: int
    end: int


def joined(spans: Iterable[Span], new: Span) -> tuple[Span, ...]:
    """Return the spans together with a new one, which overlaps none of them."""
    found: list[Span] = []
    for each in sorted([*spans, new]):
        if found and found[-1].end == each.begin:
            last = found[-1]
            since = last.since if each.since == each.begin else each.since
            found[-1] = Span(last.begin, since, each.end)
        else:
            found.append(each)
    return tuple(found[-SPANS_MAX:])


def gap_below(spans: tuple[Span, ...], end: int) -> tuple[int, int] | None:
    """Return the highest stretch below ``end`` that no span covers; ``None`` if there is none."""
    for each in reversed(spans):
        if each.end < end:
            return each.end, end
        end = min(end, each.begin)
    return (0, end) if end > 0 else None


def complete_from(spans: tuple[Span, ...], end: int) -> int:
    """Return the offset from which on no record up to ``end`` is missing."""
    return spans[-1].since if spans and spans[-1].end == end else end


def pack(spans: tuple[Span, ...]) -> bytes:
    """Return spans as bytes."""
    return _FORMAT + b"".join(_SPAN.pack(*each) for each in spans)


def is_foreign(raw: bytes) -> bool:
    """Return true for spans of another format, whose history cannot be read."""
    return bool(raw) and raw[:1] != _FORMAT


def unpack(raw: bytes) -> tuple[Span, ...]:
    """Return the spans in ``raw``; none if it is empty or of another format."""
    if raw[:1] != _FORMAT or (len(raw) - 1) % _SPAN.size:
        return ()
    return tuple(Span(*each) for each in _SPAN.iter_unpack(raw[1:]))
