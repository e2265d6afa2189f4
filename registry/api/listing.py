"""Lists that operations answer with: pages, cursors, and remembered positions of items."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec

from registry.domain.lru import Lru
from registry.domain.rows.view import Skip, View

from .answers import Header
from .parameters import INT_MAX

_T = TypeVar("_T")

# The position of an item in its list: strings and numbers that a cursor can carry.
Mark = tuple[Any, ...]

STEP = 1024  # items between two remembered positions
_POSITION_BYTES = 200  # memory of a position in addition to its texts


class Cursor(NamedTuple):
    """The start of a page."""

    list: str  # the identity of its list
    skip: int = 0  # number of items to skip from there
    mark: Mark | None = None  # of the item before the page; None: the page begins at the list's start

    def text(self) -> str:
        """Return the query parameter."""
        return urlsafe_b64encode(msgspec.json.encode(self)).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a query parameter. Raises :class:`ValueError` unless :meth:`text` can have returned it."""
        raw = urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        try:
            return msgspec.json.decode(raw, type=cls)
        except RecursionError:
            raise ValueError("nested too deeply") from None


@dataclass(frozen=True, slots=True)
class Listing(Generic[_T]):
    """A page of a list; it is walked in slices after the handler has made sure that there is no error.

    ``walk`` begins after a mark and yields ``None`` for each row that it examines but does not list (see
    :mod:`registry.domain.queries.walks`).
    """

    walk: Callable[[View, Any], Iterator[_T | None]]
    printed: Callable[[_T], bytes]
    mark: Callable[[_T], Mark]
    begin: Cursor
    limit: int
    unsettled: int = 0  # items between the mark and the position that the cursor means
    headers: tuple[Header, ...] = ()
    # The same as ``walk``, but it can skip blocks of items.
    skipping: Callable[[View, Any, Skip], Iterator[_T | None]] | None = None
    head: bytes = b"["  # before the items; a list may be the last member of an object
    tail: bytes = b"]"

    @property
    def may_have_more(self) -> bool:
        """True if there may be a further page."""
        return self.limit != INT_MAX


class PositionCache:
    """Positions in lists, so that an offset need not be counted from the start; within ``bytes_max``.

    All are forgotten when the rows change.
    """

    def __init__(self, bytes_max: int = 8 * 1024 * 1024) -> None:
        self._moment = -1
        self._ends = Lru[Cursor, Mark](bytes_max // 8)
        self._lists = Lru[Cursor, _ListPositions](bytes_max)

    def nearest(self, begin: Cursor, moment: int) -> tuple[int, Mark | None]:
        """Return how many items behind ``begin``'s mark need not be walked, and the last one's mark."""
        self._at(moment)
        found = self._lists.get(begin._replace(skip=0))
        if found is None:
            return 0, begin.mark
        at = bisect_right(found.counts, begin.skip)
        return (found.counts[at - 1], found.marks[at - 1]) if at else (0, begin.mark)

    def put(self, begin: Cursor, count: int, mark: Mark, moment: int) -> None:
        """Remember that ``mark`` is the one of the ``count``-th item behind ``begin``'s mark."""
        self._at(moment)
        key = begin._replace(skip=0)
        found = self._lists.get(key) or _ListPositions(_POSITION_BYTES + _size(begin.mark or ()))
        at = bisect_right(found.counts, count)
        if at and found.counts[at - 1] == count:
            return
        found.counts.insert(at, count)
        found.marks.insert(at, mark)
        found.bytes += _POSITION_BYTES + _size(mark)
        self._lists.put(key, found, found.bytes)

    def end_of(self, counted: Cursor) -> Mark | None:
        """Return the mark of the last item that a cursor skips, if it is remembered here."""
        return self._ends.get(counted)

    def put_end(self, counted: Cursor, mark: Mark) -> None:
        """Remember the last item of a page whose next cursor only has a count; stays valid across writes."""
        self._ends.put(counted, mark, 2 * _POSITION_BYTES + _size(counted.mark or ()) + _size(mark))

    def _at(self, moment: int) -> None:
        if moment != self._moment:
            self._lists.clear()
            self._moment = moment


class _ListPositions:
    """The positions of one list, by count."""

    __slots__ = ("bytes", "counts", "marks")

    def __init__(self, bytes: int) -> None:
        self.counts: list[int] = []
        self.marks: list[Mark] = []
        self.bytes = bytes  # approximate memory use


def _size(mark: Mark) -> int:
    return sum(len(each) * 4 if isinstance(each, str) else 32 for each in mark)
