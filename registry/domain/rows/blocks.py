"""Counts of versions and subjects, block by block, so that a list can leave out many items at once.

A block is a range of keys in the table of versions. It holds whole subjects, and never separates subjects
whose names are the same as far as keys show them (:func:`.layout.together`): lists order those by their full
names.
Counts are derived from rows: no digest and no snapshot knows them.
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
        """Return the sums."""
        a, b, c, d = self
        e, f, g, h = other
        return Counts(a + e, b + f, c + g, d + h)


class Block(NamedTuple):
    """What lies from the key ``begin`` on and before ``end``."""

    begin: bytes
    end: bytes
    counts: Counts


class Skip:
    """Number of items still to be left out; whoever passes items counts it down."""

    __slots__ = ("left",)

    def __init__(self, left: int = 0) -> None:
        self.left = left


class Leaps(NamedTuple):
    """Permission for a walk to pass whole blocks; ``count`` gives the items of the list in one."""

    skip: Skip
    count: Callable[[Counts], int]

    def over(self, block: Block) -> bool:
        """Count the block's items as passed, if all of them are to be left out."""
        items = self.count(block.counts)
        if items > self.skip.left:
            return False
        self.skip.left -= items
        return True
