"""Counts of versions and subjects per block, by which lists skip many items at once.

A block is a range of keys in the table of versions. It holds whole subjects, and never separates subjects
whose keys begin alike as far as they are not cut (:func:`.layout.together`): lists order those by their full
names. Counts are derived from rows; they are not part of digests or snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


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
    """The rows from key ``begin`` up to, but not including, ``end``."""

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
