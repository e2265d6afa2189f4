"""Allocation of schema ids.

Ids grow within a context, may have gaps, and are never assigned twice, even after all versions with an id
were permanently deleted and compacted away. For that, a reservation in the log covers each id before it is
used. A new primary starts above the highest reservation and above the highest id in the rows.
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

# Number of ids in the first reservation of a context; a restart may skip that many.
ID_BATCH = 20


def reserved_upto(view: View, context: str) -> int:
    """Return the highest reserved id of a context; 0 if none was reserved."""
    row = view.get(layout.context_key(layout.RESERVATION, context))
    return 0 if row is None else layout.unnumber(row)


class Span(NamedTuple):
    """The remaining reserved ids of a context, and the size of the next reservation."""

    next: int
    # The last reserved id; less than ``next`` if none is left.
    upto: int
    batch: int


class Grant(NamedTuple):
    """An id, the reservation that must precede it in the log, and the remaining ids; not yet used."""

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
        """Return the next id of a context. Raises 50001 if none is left."""
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
        """Return an id that the client brought. The next one will be above it."""
        span = self._span(view, context)
        if schema_id < span.next:
            return Grant(schema_id, [], context, span)
        return self._granted(context, span, schema_id)

    def _granted(self, context: str, span: Span, schema_id: int) -> Grant:
        if schema_id <= span.upto:
            return Grant(schema_id, [], context, span._replace(next=schema_id + 1))
        upto = schema_id + span.batch - 1
        if upto > ID_MAX:  # the last ids are reserved one by one, so that none is lost
            upto = schema_id
        reservation = Entry(records.reservation_key(context), values.reservation_value(upto))
        grown = Span(schema_id + 1, upto, min(span.batch * 2, self._batch_max))
        return Grant(schema_id, [reservation], context, grown)

    def take(self, grant: Grant) -> None:
        """Use a grant, because its decision stands."""
        self._spans[grant.context] = grant.span

    def saved(self) -> dict[str, Span]:
        """Return the current spans, for :meth:`restore`."""
        return self._spans.copy()

    def restore(self, saved: dict[str, Span]) -> None:
        """Return to earlier spans, because nothing decided since will be appended."""
        self._spans = saved.copy()

    def restart(self, floor: int = 0) -> None:
        """Forget all spans, so that they start again from the rows, as after a change of primary.

        ``floor``: the highest id in the default context that an allocator outside the log has assigned.
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
