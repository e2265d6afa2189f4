"""Sorting of walks in bounded memory.

A *walk* is an iterator that yields items, and ``None`` for rows that it looked at and skipped, so that its
consumer can pause it between any two rows. A *search* is a generator that yields ``None`` for each row that
it looks at, for the same reason, and returns the result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from typing import Any, TypeVar

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Any)

Search = Generator[None, None, _T]

# Items held at once. Larger than any page of a sorted list, so that a page takes one pass.
BATCH = 2_000


def ordered(
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


def finished(search: Search[_T]) -> _T:
    """Return the result of a search without pausing."""
    while True:
        try:
            next(search)
        except StopIteration as stop:
            found: _T = stop.value
            return found
