"""The ids of a context: those that are reserved, and the free ranges below the highest of them.

A reservation names the highest id that is taken. An id imported far above leaves ids below it that nobody was
ever given. Each such *free range* is a reservation of its own, under the name of the context and the range's
last id (:func:`.records.free_range_name`), which says up to where the ids of the range are taken. To releases
that do not know free ranges all ids up to the highest are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from registry.domain.log_format import records
from registry.domain.model import ID_MAX
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .versions import id_max

# Free ranges of one context; the smallest further ones are given up.
FREE_MAX = 32
# Ids that an import must leave below itself to make a free range.
FREE_MIN = 1000
# An import into a free range takes this many ids around it, so that not every one needs a record.
BLOCK = 1000


class IdRange(NamedTuple):
    """The ids from ``first`` to ``last``; none if ``last`` is less."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """The number of ids."""
        return max(0, self.last - self.first + 1)


class IdSpace(NamedTuple):
    """The ids of a context that were ever reserved: all up to ``upto`` except those in ``free``."""

    upto: int
    # Ascending, neither empty nor adjacent, all below ``upto``.
    free: tuple[IdRange, ...] = ()

    @property
    def taken_count(self) -> int:
        """The number of ids that are not free up to ``upto``."""
        return self.upto - sum(each.size for each in self.free)

    def range_of(self, schema_id: int) -> IdRange | None:
        """Return the free range that contains an id."""
        return next((each for each in self.free if each.first <= schema_id <= each.last), None)

    def free_below(self, schema_id: int) -> int:
        """Return the number of free ids below an id."""
        return sum(_parts(each, IdRange(schema_id, ID_MAX))[0].size for each in self.free)

    def with_taken(self, upto: int, skipped: IdRange) -> IdSpace:
        """Return the space with all ids up to ``upto`` taken, except ``skipped`` if that is large enough."""
        return IdSpace(upto, self.free if skipped.size < FREE_MIN else _largest((*self.free, skipped)))

    def without(self, taken: IdRange) -> IdSpace:
        """Return the space with the ids of ``taken`` no longer free."""
        return IdSpace(self.upto, _largest(part for each in self.free for part in _parts(each, taken)))

    def with_released(self, freed: IdRange) -> IdSpace:
        """Return the space with the ids of ``freed`` no longer taken."""
        free = _merge((*self.free, IdRange(freed.first, min(freed.last, self.upto))))
        if free and free[-1].last == self.upto:
            return IdSpace(free[-1].first - 1, free[:-1])
        return IdSpace(self.upto, _largest(free))


def _parts(whole: IdRange, taken: IdRange) -> tuple[IdRange, IdRange]:
    """Return what is left of a range below and above ``taken``."""
    below = IdRange(whole.first, min(whole.last, taken.first - 1))
    return below, IdRange(max(whole.first, taken.last + 1), whole.last)


def _largest(ranges: Iterable[IdRange]) -> tuple[IdRange, ...]:
    """Return the largest ranges, ascending."""
    largest = sorted((each for each in ranges if each.size), key=lambda each: -each.size)
    return tuple(sorted(largest[:FREE_MAX]))


def _merge(ranges: Iterable[IdRange]) -> tuple[IdRange, ...]:
    """Return the same ids as ranges that neither overlap nor touch, ascending."""
    found: list[IdRange] = []
    for each in sorted(each for each in ranges if each.size):
        if found and each.first <= found[-1].last + 1:
            found[-1] = IdRange(found[-1].first, max(found[-1].last, each.last))
        else:
            found.append(each)
    return tuple(found)


def id_space(view: View, context: str) -> IdSpace:
    """Return the reserved ids of a context."""
    upto = reserved_upto(view, context)
    return IdSpace(upto, tuple(_free_ranges(view, context, upto)))


def reserved_upto(view: View, context: str) -> int:
    """Return the highest reserved id of a context; 0 if none was reserved."""
    row = view.get(layout.context_key(layout.RESERVATION, context))
    return 0 if row is None else layout.unnumber(row)


def can_have_free_ranges(context: str) -> bool:
    """Return false for a context whose name is so long that the keys of rows cut it."""
    return layout.CUT_MARK not in layout.part(records.free_range_name(context, ID_MAX))


def _free_ranges(view: View, context: str, upto: int) -> Iterator[IdRange]:
    if not can_have_free_ranges(context):
        return
    prefix = layout.RESERVATION + layout.part(records.free_range_name(context, ID_MAX))[:-11]
    above = 0
    for key, value in scan(view, prefix):
        digits = key[len(prefix) : -1]
        found = IdRange(layout.unnumber(value) + 1, int(digits) if digits.isdigit() else 0)
        # Rows of another kind, if others wrote any, mean nothing.
        if above < found.first <= found.last < upto:
            above = found.last
            yield found


class IdUsage(msgspec.Struct, frozen=True):
    """The use of a context's ids, as the API shows it."""

    context: str
    # The highest id that a version has; 0: none.
    highest: int
    reserved: int
    # The share of all possible ids that are reserved or in use.
    used: float
    # Ids below ``reserved`` that can still be given to new schemas.
    free: list[FreeRange]


class FreeRange(msgspec.Struct, frozen=True, rename={"first": "from", "last": "to"}):
    """A free range, as the API shows it."""

    first: int
    last: int


def id_usage(view: View, context: str, space: IdSpace) -> IdUsage:
    """Return the use of a context's ids, of which ``space`` are reserved."""
    highest = id_max(view, context)
    used = (max(space.upto, highest) - space.upto + space.taken_count) / ID_MAX
    return IdUsage(context, highest, space.upto, used, [FreeRange(*each) for each in space.free])
