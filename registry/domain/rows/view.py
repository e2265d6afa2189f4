"""Views: read-only access to rows, walks over them, and the spans of the log whose records a history holds.

A history grows at its top with every step of the follower, and is filled below in any order. So it may hold
several spans at a time; they are kept ascending, and those that touch become one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager
from operator import add
from typing import NamedTuple, Protocol

from .layout import after, is_version_key

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


def join_span(spans: Iterable[Span], new: Span) -> tuple[Span, ...]:
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


# A put (key, value) or, with ``None``, a delete of one row.
Change = tuple[bytes, bytes | None]


class Counts(NamedTuple):
    """Number of versions and subjects in a block; live ones are not soft-deleted.

    A subject is live if one of its versions is. Versions that a clear made the registry forget count only as
    rows. The part of a group has no counts of subjects.
    """

    live_versions: int = 0
    versions: int = 0
    live_subjects: int = 0
    subjects: int = 0
    rows: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sums of both."""
        return Counts(*map(add, self, other))


class Block(NamedTuple):
    """The version rows from key ``begin`` up to, but not including, ``end``, and their counts.

    A block holds whole groups (:func:`.layout.together`), or a part of one large group. Counts are derived
    from rows; they are not part of digests or snapshots.
    """

    begin: bytes
    end: bytes
    counts: Counts

    @property
    def whole(self) -> bool:
        """True unless the block is a part of a group."""
        return not (is_version_key(self.begin) or is_version_key(self.end))


class Skip:
    """A counter of items still to skip; the code that skips items decrements it."""

    __slots__ = ("left",)

    def __init__(self, left: int = 0) -> None:
        self.left = left


class History(Protocol):
    """The history of the owners of the rows, see :mod:`registry.domain.history`; keys are ordered."""

    def spans(self) -> tuple[Span, ...]:
        """Return the parts of the log that the history holds."""
        ...

    def applied(self) -> int:
        """Return the applied offset of the rows at the same moment."""
        ...

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first entry whose key is ``key`` or greater."""
        ...

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last entry whose key is less than ``key``."""
        ...


class View(Protocol):
    """Read-only access to the rows at one moment."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        ...

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        ...

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        ...

    def revision(self) -> Hashable | None:
        """Return a value that changes if a version is put below its subject's top or gets other content.

        While it stays the same, a subject whose version N is unchanged has the same versions below N as
        before.
        ``None``: unknown.
        """
        ...

    def block(self, key: bytes) -> Block | None:
        """Return the block of version rows that holds ``key``; ``None`` if versions are not counted."""
        ...

    def history(self) -> History | None:
        """Return the history of the same moment; ``None`` if there is none with these rows."""
        ...


class Rows(Protocol):
    """Rows that change as records are applied."""

    @property
    def applied(self) -> int:
        """Offset of the next record to apply."""
        ...

    def view(self) -> AbstractContextManager[View]:
        """Open a view of the rows as they are now."""
        ...


def scan(view: View, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, ascending, from ``start`` on."""
    row = view.seek(prefix if start is None else start)
    while row is not None and row[0].startswith(prefix):
        yield row
        row = view.seek(row[0] + b"\0")


def scan_back(
    view: View, prefix: bytes, count: Callable[[Counts], int] | None = None, below: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, descending.

    ``count``: after the first row of a block of which this is zero, skip its other rows. ``below``: only rows
    with smaller keys.
    """
    at = after(prefix) if below is None else below
    row = view.seek_back(at)
    while row is not None and row[0].startswith(prefix):
        key = row[0]
        yield row
        if count is not None and key < at:  # the first row in its block
            block = view.block(key)
            at = key if block is None else block.begin
            if block is not None and not count(block.counts):
                key = at
        row = view.seek_back(key)
