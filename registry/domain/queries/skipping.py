"""Walks that skip whole blocks of rows by their counts (see :mod:`registry.domain.rows.view.Block`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from registry.domain.rows.layout import after
from registry.domain.rows.view import Block, Counts, Skip, View

Row = tuple[bytes, bytes]


class Skips(NamedTuple):
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


class BlockSkip:
    """A search for blocks to skip, at or after the key ``at`` and before ``end``."""

    def __init__(self, skips: Skips, end: bytes) -> None:
        self.at = b""
        self._skips = skips
        self._end = end

    def over(self, view: View, start: bytes, key: bytes, *, parts: bool = False) -> bytes | None:
        """Return the end of a skipped block; ``None`` if none was skipped.

        Nothing was listed from ``start`` on so far, and the first row there has the key ``key``. ``parts``:
        the block may be a part of a group.
        """
        block = view.block(key)
        if block is None:
            return None
        suits = start <= block.begin and block.end <= self._end and (parts or block.whole)
        if not (suits and self._skips.over(block)):
            self.at = block.end
            return None
        return block.end


class BlockSkipBack:
    """The same for a walk that goes back, down to the key ``begin``."""

    def __init__(self, skips: Skips, begin: bytes) -> None:
        self._skips = skips
        self._begin = begin
        self._at: bytes | None = None

    def over(self, view: View, end: bytes, key: bytes) -> bytes | None:
        """Return the beginning of a skipped block; ``None`` if none was skipped.

        Nothing was listed before ``end`` so far, and the last row there has the key ``key``.
        """
        if self._at is not None and key >= self._at:
            return None
        block = view.block(key)
        if block is None:
            return None
        suits = self._begin <= block.begin and block.end <= end and block.whole
        if suits and self._skips.over(block):
            return block.begin
        self._at = block.begin
        return None


def scan_skipping(view: View, prefix: bytes, start: bytes, skips: Skips | None) -> Iterator[Row | None]:
    """Yield the rows whose key begins with ``prefix``, from ``start`` on; ``None`` for a skipped block."""
    block_skip = None if skips is None else BlockSkip(skips, after(prefix))
    row = view.seek(start)
    while row is not None and row[0].startswith(prefix):
        key = row[0]
        tries = block_skip is not None and key >= block_skip.at
        passed = block_skip.over(view, start, key, parts=True) if tries and block_skip else None
        yield row if passed is None else None
        start = key + b"\0" if passed is None else passed
        row = view.seek(start)
