"""Walks over rows: skipping whole blocks by their counts, and sorting in bounded memory.

A *walk* is an iterator that yields items, and ``None`` for rows that it looked at and skipped, so that its
consumer can pause it between any two rows. A *search* is a generator that yields ``None`` for each row that
it looks at, for the same reason, and returns the result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from typing import Any, NamedTuple, TypeVar

from registry.domain.rows.layout import after
from registry.domain.rows.view import Block, Counts, Skip, View

Row = tuple[bytes, bytes]


class Skips(NamedTuple):
    """Permission for a walk to skip whole blocks; ``count`` returns the number of the list's items in one."""

    skip: Skip
    count: Callable[[Counts], int]

    def skip_block(self, block: Block) -> bool:
        """Skip the block if all of its items are to be skipped; return true if so."""
        items = self.count(block.counts)
        if items > self.skip.left:
            return False
        self.skip.left -= items
        return True


# Blocks that are skipped in one step, so that a step takes no longer than a few hundred microseconds.
BLOCKS_AT_ONCE = 64


class BlockSkip:
    """A search for blocks to skip, at or after the key ``at`` and before ``end``."""

    def __init__(self, skips: Skips, end: bytes) -> None:
        self.at = b""
        self._skips = skips
        self._end = end

    def skip_from(self, view: View, start: bytes, key: bytes, *, parts: bool = False) -> bytes | None:
        """Return the end of the skipped blocks; ``None`` if none was skipped.

        Nothing was listed from ``start`` on so far, and the first row there has the key ``key``. ``parts``:
        blocks may be parts of a group.
        """
        passed = None
        for _ in range(BLOCKS_AT_ONCE):
            block = view.block(key)
            if block is None:
                break
            suits = start <= block.begin and block.end <= self._end and (parts or block.whole)
            if not (suits and self._skips.skip_block(block)):
                self.at = block.end
                break
            key = passed = start = block.end
            if passed >= self._end:
                break
        return passed


class BlockSkipBack:
    """The same for a walk that goes back, down to the key ``begin``."""

    def __init__(self, skips: Skips, begin: bytes) -> None:
        self._skips = skips
        self._begin = begin
        self._at: bytes | None = None

    def skip_from(self, view: View, end: bytes, key: bytes) -> bytes | None:
        """Return the beginning of the skipped blocks; ``None`` if none was skipped.

        Nothing was listed before ``end`` so far, and the last row there has the key ``key``.
        """
        if self._at is not None and key >= self._at:
            return None
        passed = None
        for _ in range(BLOCKS_AT_ONCE):
            block = view.block(key)
            if block is None:
                break
            suits = self._begin <= block.begin and block.end <= end and block.whole
            if not (suits and self._skips.skip_block(block)):
                self._at = block.begin
                break
            passed = end = block.begin
            row = view.seek_back(end)
            if row is None or row[0] < self._begin:
                break
            key = row[0]
        return passed


def scan_skipping(view: View, prefix: bytes, start: bytes, skips: Skips | None) -> Iterator[Row | None]:
    """Yield the rows whose key begins with ``prefix``, from ``start`` on; ``None`` for skipped blocks."""
    block_skip = None if skips is None else BlockSkip(skips, after(prefix))
    row = view.seek(start)
    while row is not None and row[0].startswith(prefix):
        key = row[0]
        tries = block_skip is not None and key >= block_skip.at
        passed = block_skip.skip_from(view, start, key, parts=True) if tries and block_skip else None
        yield row if passed is None else None
        start = key + b"\0" if passed is None else passed
        row = view.seek(start)


_T = TypeVar("_T")
_K = TypeVar("_K", bound=Any)

Search = Generator[None, None, _T]

# Items held at once. Larger than any page of a sorted list, so that a page takes one pass.
BATCH = 2_000


def in_order(
    walk: Callable[[], Iterator[_T | None]],
    key: Callable[[_T], _K],
    after: _K | None = None,
    batch: int = BATCH,
) -> Iterator[_T | None]:
    """Yield the items of ``walk()`` in the order of ``key``, starting with the first key above ``after``.

    The last of several items with the same key counts. Walks once for each ``batch`` of items taken.
    """
    full = True
    while full:
        kept: dict[_K, _T] = {}
        bound: _K | None = None
        full = False
        for each in walk():
            yield None
            if each is None:
                continue
            place = key(each)
            if (after is not None and place <= after) or (bound is not None and place > bound):
                full = full or (bound is not None and place > bound)
                continue
            kept[place] = each
            if len(kept) == 2 * batch:
                kept = dict(_least(kept, batch))
                bound, full = next(reversed(kept)), True
        chosen = _least(kept, batch)
        full = full or len(kept) > batch
        for place, each in chosen:
            after = place
            yield each


def _least(kept: dict[_K, _T], count: int) -> list[tuple[_K, _T]]:
    """Return the pairs with the smallest keys, in order."""
    return [(place, kept[place]) for place in sorted(kept)[:count]]


def held_and_sorted(walk: Iterable[_T | None], key: Callable[[_T], Any] | None = None) -> Iterator[_T | None]:
    """Yield all items of a walk in order; they are held in memory, sorted a batch at a time."""
    runs: list[list[Any]] = [[]]
    for each in walk:
        yield None
        if each is None:
            continue
        runs[-1].append(each)
        if len(runs[-1]) == BATCH:
            runs[-1].sort(key=key)
            runs.append([])
    runs[-1].sort(key=key)
    yield from merge(*runs, key=key)


def first(walk: Iterator[_T | None]) -> Search[_T | None]:
    """Search for the first item of a walk."""
    for each in walk:
        if each is not None:
            return each
        yield
    return None


def run_search(search: Search[_T]) -> _T:
    """Return the result of a search without pausing."""
    while True:
        try:
            next(search)
        except StopIteration as stop:
            found: _T = stop.value
            return found
