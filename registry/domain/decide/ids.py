"""Allocation of schema ids.

Ids grow within a context, may have gaps, and are never assigned twice, even after all versions with an id
were permanently deleted and compacted away. For that, a reservation in the log covers each id before it is
used. A new primary starts above the highest reservation and above the highest id in the rows. If nothing is
left above, ids go on in the largest free range (:mod:`.id_space`), which no reservation has ever covered.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.errors import ID_TOO_FAR, IDS_USED_UP
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry
from registry.domain.model import DEFAULT_CONTEXT, ID_MAX
from registry.domain.queries import versions
from registry.domain.queries.id_space import (
    BLOCK,
    FREE_MAX,
    FREE_MIN,
    IdRange,
    IdSpace,
    can_have_free_ranges,
    id_space,
)
from registry.domain.rows.view import View

# Number of ids in the first reservation of a context; a restart may skip that many.
ID_BATCH = 20
# An import that leaves more ids below itself that were never reserved needs permission on the whole context.
# It is the sum that counts, because otherwise many imports, each a little higher, would use up the ids.
FAR = 1_000_000


class Span(NamedTuple):
    """The remaining reserved ids of a context, and the size of the next reservation."""

    next: int
    # The last reserved id; less than ``next`` if none is left.
    upto: int
    batch: int
    # The first id of the reservation that ends with ``upto``.
    first: int = 1


class Grant(NamedTuple):
    """An id, the reservations that must precede it in the log, and the remaining ids; not yet used."""

    schema_id: int
    entries: list[Entry]
    context: str
    span: Span


class Ids:
    """The ids that one primary may assign. Its spans end with it, which only leaves gaps."""

    def __init__(self, batch: int = ID_BATCH, batch_max: int = 1000) -> None:
        """``batch``: ids in a context's first reservation; each later one doubles it, up to ``batch_max``."""
        self._batch = batch
        self._batch_max = max(batch, batch_max)
        self._spans: dict[str, Span] = {}
        self._floor = 0

    def grant(self, view: View, context: str) -> Grant:
        """Return the next id of a context. Raises 40982 if none is left."""
        span = self._span(context)
        schema_id = span.next
        if schema_id <= span.upto and versions.id_in_use(view, context, schema_id):
            schema_id = versions.id_max(view, context, span.upto) + 1
        if schema_id <= span.upto:
            return Grant(schema_id, [], context, span._replace(next=schema_id + 1))
        space = id_space(view, context)
        schema_id = self._highest(view, context, space) + 1
        if schema_id <= ID_MAX:
            return self._grant_above(context, schema_id, space, IdRange(schema_id, schema_id - 1))
        return self._from_free_range(view, context, space)

    def import_id(self, view: View, context: str, schema_id: int, *, far: bool = True) -> Grant:
        """Return an id that the client brought. If it is above all others, the next one will be above it.

        ``far``: whether it may leave more than :data:`FAR` free ids below itself; otherwise raises 40382.
        """
        span = self._span(context)
        if span.next <= schema_id <= span.upto:
            return Grant(schema_id, [], context, span._replace(next=schema_id + 1))
        space = id_space(view, context)
        if schema_id > space.upto:
            skipped = IdRange(self._highest(view, context, space) + 1, schema_id - 1)
            if not far:
                _check_near(context, schema_id, space, skipped, skipped.size)
            return self._grant_above(context, schema_id, space, skipped)
        free = space.range_of(schema_id)
        if free is None:
            return Grant(schema_id, [], context, span)
        if not far:
            _check_near(context, schema_id, space, IdRange(free.first, schema_id - 1))
        block = schema_id // BLOCK * BLOCK
        taken = IdRange(max(free.first, block), min(free.last, block + BLOCK - 1))
        return Grant(schema_id, reservations(context, space, space.without(taken)), context, span)

    def release(self, context: str, space: IdSpace, freed: IdRange) -> Grant:
        """Return the records that make reserved ids free again; ``space``: the reserved ids of the context.

        The next id is taken from a new reservation, because the current one may include ids of ``freed``.
        """
        nothing_left = Span(1, 0, self._batch)
        return Grant(0, reservations(context, space, space.with_released(freed)), context, nothing_left)

    def _grant_above(self, context: str, schema_id: int, space: IdSpace, skipped: IdRange) -> Grant:
        """Grant an id above all reserved ones; the ids of ``skipped``, below it, were never reserved."""
        batch = self._span(context).batch
        upto = schema_id + batch - 1
        if upto > ID_MAX:  # the last ids are reserved one by one, so that none is lost
            upto = schema_id
        if not can_have_free_ranges(context):
            skipped = IdRange(schema_id, schema_id - 1)
        entries = reservations(context, space, space.with_taken(upto, skipped))
        return Grant(schema_id, entries, context, self._grow(schema_id, upto, batch))

    def _from_free_range(self, view: View, context: str, space: IdSpace) -> Grant:
        batch = self._span(context).batch
        for free in sorted(space.free, key=lambda each: -each.size):
            schema_id = max(free.first - 1, versions.id_max(view, context, free.last)) + 1
            if schema_id <= free.last:
                upto = min(schema_id + batch - 1, free.last)
                after = space.without(IdRange(free.first, upto))
                entries = reservations(context, space, after)
                return Grant(schema_id, entries, context, self._grow(schema_id, upto, batch))
        raise IDS_USED_UP(shown_context(context), ID_MAX)

    def _grow(self, schema_id: int, upto: int, batch: int) -> Span:
        return Span(schema_id + 1, upto, min(batch * 2, self._batch_max), schema_id)

    def take(self, grant: Grant) -> None:
        """Use a grant, because its decision stands."""
        self._spans[grant.context] = grant.span

    def save(self) -> dict[str, Span]:
        """Return the current spans, for :meth:`restore`."""
        return self._spans.copy()

    def restore(self, saved: dict[str, Span]) -> None:
        """Return to earlier spans, because nothing decided since will be appended."""
        self._spans = saved.copy()

    def rewind(self, before: dict[str, Span], after: dict[str, Span]) -> None:
        """Return to the spans of ``before`` such that the decision that led to ``after`` gets its ids again.

        What that decision reserved counts as reserved, so that it needs no record for them.
        """
        self._spans = before.copy()
        for context, span in after.items():
            old = before.get(context)
            if old is None or (old.first, old.upto) != (span.first, span.upto):
                self._spans[context] = span._replace(next=span.first)

    def restart(self, floor: int = 0) -> None:
        """Forget all spans, so that they start again from the rows, as after a change of primary.

        ``floor``: the highest id in the default context that an allocator outside the log has assigned.
        """
        self._spans.clear()
        self._floor = floor

    def _span(self, context: str) -> Span:
        return self._spans.get(context) or Span(1, 0, self._batch)

    def _highest(self, view: View, context: str, space: IdSpace) -> int:
        """Return the highest id that is reserved, in use, or assigned by an allocator outside the log."""
        floor = self._floor if context == DEFAULT_CONTEXT else 0
        return max(space.upto, versions.id_max(view, context), floor)


def _check_near(context: str, schema_id: int, space: IdSpace, skipped: IdRange, new: int = 0) -> None:
    """Refuse an import that skips many ids if more than :data:`FAR` below it were free, or too many ranges.

    ``new``: how many of the ids that it skips are not free yet.
    """
    lost = len(space.free) >= FREE_MAX or not can_have_free_ranges(context)
    if skipped.size >= FREE_MIN and (lost or space.free_below(schema_id) + new > FAR):
        raise ID_TOO_FAR(schema_id, FAR, shown_context(context))


def reservations(context: str, before: IdSpace, after: IdSpace) -> list[Entry]:
    """Return the records that make ``after`` of ``before``.

    What is taken away from free ranges comes first and what is added to them last, so that no beginning of
    the records frees an id that is not free after all of them.
    """
    old, new = ({each.last: each.first for each in space.free} for space in (before, after))
    gone = [Entry(_range_key(context, last), None) for last in old if last not in new]
    changed = [each for each in after.free if old.get(each.last) != each.first]
    shrunk = [_range_entry(context, each) for each in changed if each.first > old.get(each.last, ID_MAX)]
    more = [_range_entry(context, each) for each in changed if each.first < old.get(each.last, ID_MAX)]
    whole = Entry(records.reservation_key(context), values.reservation_value(after.upto))
    return [*gone, *shrunk, *([whole] if after.upto != before.upto else []), *more]


def _range_key(context: str, last: int) -> bytes:
    return records.reservation_key(records.free_range_name(context, last))


def _range_entry(context: str, free: IdRange) -> Entry:
    return Entry(_range_key(context, free.last), values.reservation_value(free.first - 1))


def shown_context(context: str) -> str:
    """Return a context as messages name it."""
    return "the default context" if context == DEFAULT_CONTEXT else f"context {context}"
