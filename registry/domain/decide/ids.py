"""Ids: which one a new schema gets.

Ids grow within a context, may skip, and are never given twice, not even after everything that had one was
deleted for good and compacted away: before an id is used, a reservation that covers it stands in the log. A
primary starts above the highest reservation and above the highest id in the rows.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.errors import STORE_FAILED
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry
from registry.domain.model import DEFAULT_CONTEXT, ID_MAX
from registry.domain.queries import versions
from registry.domain.rows import layout
from registry.domain.rows.view import View


def reserved_upto(view: View, context: str) -> int:
    """Return the highest reserved id of a context; 0 when none was."""
    row = view.get(layout.context_key(layout.RESERVATION, context))
    return 0 if row is None else layout.unnumber(row)


class Span(NamedTuple):
    """The reserved ids of a context that are left, and how many the next reservation takes."""

    next: int
    # The last reserved one; less than ``next`` when none is left.
    upto: int
    batch: int


class Grant(NamedTuple):
    """An id, the reservation that must stand before it in the log, and what is left; not yet taken."""

    schema_id: int
    entries: list[Entry]
    context: str
    span: Span


class Ids:
    """The ids that one primary may give. Its ranges are lost with it, which only skips some ids."""

    def __init__(self, batch: int = 20, batch_max: int = 1000) -> None:
        """``batch``: ids in a context's first reservation; later ones double it, up to ``batch_max``."""
        self._batch = batch
        self._batch_max = max(batch, batch_max)
        self._spans: dict[str, Span] = {}
        self._floor = 0

    def grant(self, view: View, context: str) -> Grant:
        """Return the next id of a context. Raises 50001 when there is none left."""
        span = self._span(view, context)
        schema_id = span.next
        if schema_id <= ID_MAX and versions.id_in_use(view, context, schema_id):
            schema_id = max(schema_id, versions.id_max(view, context)) + 1
        if schema_id > ID_MAX:
            name = "the default context" if context == DEFAULT_CONTEXT else f"context {context}"
            reason = f"the ids of {name} are used up: {ID_MAX} was imported or reserved"
            raise STORE_FAILED(f"Register schema operation failed: {reason}")
        return self._granted(context, span, schema_id)

    def imported(self, view: View, context: str, schema_id: int) -> Grant:
        """Return an id that the client brought. The next one is above it."""
        span = self._span(view, context)
        if schema_id < span.next:
            return Grant(schema_id, [], context, span)
        return self._granted(context, span, schema_id)

    def _granted(self, context: str, span: Span, schema_id: int) -> Grant:
        if schema_id <= span.upto:
            return Grant(schema_id, [], context, span._replace(next=schema_id + 1))
        upto = schema_id + span.batch - 1
        if upto > ID_MAX:  # the last ids are reserved one by one, so that none is wasted
            upto = schema_id
        reservation = Entry(records.reservation_key(context), values.reservation_value(upto))
        grown = Span(schema_id + 1, upto, min(span.batch * 2, self._batch_max))
        return Grant(schema_id, [reservation], context, grown)

    def take(self, grant: Grant) -> None:
        """Use a grant: the decision that holds it stands."""
        self._spans[grant.context] = grant.span

    def saved(self) -> dict[str, Span]:
        """Return the ranges at this moment, for :meth:`restore`."""
        return self._spans.copy()

    def restore(self, saved: dict[str, Span]) -> None:
        """Go back to earlier ranges: nothing that was decided since will be appended."""
        self._spans = saved.copy()

    def restart(self, floor: int = 0) -> None:
        """Forget all ranges: they start again from the rows, as after a change of primary.

        ``floor``: ids of the default context up to it were given by somebody who counts outside the log.
        """
        self._spans.clear()
        self._floor = floor

    def _span(self, view: View, context: str) -> Span:
        span = self._spans.get(context)
        if span is None:
            reserved = reserved_upto(view, context)
            floor = self._floor if context == DEFAULT_CONTEXT else 0
            highest = max(reserved, versions.id_max(view, context), floor)
            span = Span(highest + 1, highest, self._batch)
        return span
