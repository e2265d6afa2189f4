"""Views: read-only access to rows, and walks over them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, Protocol

from .layout import after

# A put (key, value) or, with ``None``, a delete of one row.
Change = tuple[bytes, bytes | None]


class Counts(NamedTuple):
    """Number of versions and subjects in a block; live ones are not soft-deleted.

    A subject is live if one of its versions is.
    """

    live_versions: int = 0
    versions: int = 0
    live_subjects: int = 0
    subjects: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sums of both."""
        a, b, c, d = self
        e, f, g, h = other
        return Counts(a + e, b + f, c + g, d + h)


class Block(NamedTuple):
    """The version rows from key ``begin`` up to, but not including, ``end``, and their counts.

    A block holds whole subjects, and never separates subjects whose keys begin alike as far as they are not
    cut (:func:`.layout.together`), because lists order those by their full names. Counts are derived from
    rows; they are not part of digests or snapshots.
    """

    begin: bytes
    end: bytes
    counts: Counts


class Skip:
    """A counter of items still to skip; the code that skips items decrements it."""

    __slots__ = ("left",)

    def __init__(self, left: int = 0) -> None:
        self.left = left


class Leaps(NamedTuple):
    """Permission for a walk to skip whole blocks; ``count`` returns the number of the list's items in one."""

    skip: Skip
    count: Callable[[Counts], int]

    def over(self, block: Block) -> bool:
        """Skip the block if all of its items are to be skipped; return true if so."""
        items = self.count(block.counts)
        if items > self.skip.left:
            return False
        self.skip.left -= items
        return True


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


def scan(view: View, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, ascending, from ``start`` on."""
    row = view.seek(prefix if start is None else start)
    while row is not None and row[0].startswith(prefix):
        yield row
        row = view.seek(row[0] + b"\0")


def scan_back(view: View, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, descending."""
    row = view.seek_back(after(prefix))
    while row is not None and row[0].startswith(prefix):
        yield row
        row = view.seek_back(row[0])
