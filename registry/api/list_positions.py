"""Places within lists, remembered so that an offset need not be counted from the start each time."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

from .listing import Cursor, Mark

STEP = 1024  # items between two places
_PLACE_BYTES = 200  # that a place takes beside its texts


class Places:
    """What stands where in lists, as long as the rows do not change; within ``bytes_max``."""

    def __init__(self, bytes_max: int = 8 * 1024 * 1024) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._moment = -1
        self._ends: OrderedDict[Cursor, Mark] = OrderedDict()
        self._ends_bytes = 0
        self._lists: OrderedDict[Cursor, _Places] = OrderedDict()

    def nearest(self, begin: Cursor, moment: int) -> tuple[int, Mark | None]:
        """Return how many items behind ``begin``'s mark need not be walked, and the last one's mark."""
        self._at(moment)
        found = self._lists.get(begin._replace(skip=0))
        if found is None:
            return 0, begin.mark
        self._lists.move_to_end(begin._replace(skip=0))
        at = bisect_right(found.counts, begin.skip)
        return (found.counts[at - 1], found.marks[at - 1]) if at else (0, begin.mark)

    def learn(self, begin: Cursor, count: int, mark: Mark, moment: int) -> None:
        """Remember that ``mark`` is the one of the ``count``-th item behind ``begin``'s mark."""
        self._at(moment)
        key = begin._replace(skip=0)
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = _Places()
            self._bytes += _PLACE_BYTES + _size(begin.mark or ())
        at = bisect_right(found.counts, count)
        if at and found.counts[at - 1] == count:
            return
        found.counts.insert(at, count)
        found.marks.insert(at, mark)
        size = _PLACE_BYTES + _size(mark)
        found.bytes += size
        self._bytes += size
        while self._bytes > self._bytes_max:
            oldest, places = self._lists.popitem(last=False)
            self._bytes -= places.bytes + _PLACE_BYTES + _size(oldest.mark or ())

    def end_of(self, counted: Cursor) -> Mark | None:
        """Return the mark of the last item that a cursor leaves out, if it was met here."""
        return self._ends.get(counted)

    def learn_end(self, counted: Cursor, mark: Mark) -> None:
        """Remember the last item of a page whose successor's cursor only counts; writes change nothing."""
        before = self._ends.pop(counted, None)
        self._ends_bytes += _end_bytes(counted, mark) - (_end_bytes(counted, before) if before else 0)
        self._ends[counted] = mark
        while self._ends_bytes > self._bytes_max // 8:
            self._ends_bytes -= _end_bytes(*self._ends.popitem(last=False))

    def _at(self, moment: int) -> None:
        if moment != self._moment:
            self._lists.clear()
            self._bytes, self._moment = 0, moment


class _Places:
    """The places of one list, by count."""

    __slots__ = ("bytes", "counts", "marks")

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.marks: list[Mark] = []
        self.bytes = 0


def _end_bytes(counted: Cursor, mark: Mark) -> int:
    return 2 * _PLACE_BYTES + _size(counted.mark or ()) + _size(mark)


def _size(mark: Mark) -> int:
    return sum(len(each) * 4 if isinstance(each, str) else 32 for each in mark)
