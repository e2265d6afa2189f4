"""Deciding about contexts. They come with their first schema and go only by command."""

from __future__ import annotations

from registry.domain import errors, queries, records, rows
from registry.domain.commands import DeleteContext
from registry.domain.model import Subject
from registry.domain.records import Entry
from registry.domain.rows import View

from .decision import Decision


def delete_context(view: View, command: DeleteContext) -> Decision:
    """Forget a context without subjects; one that is not known needs no record. Raises 42211."""
    context = command.context
    prefix = Subject(context, "").qualified
    if queries.subjects(view, prefix, deleted=True):
        raise errors.CONTEXT_NOT_EMPTY(context)
    known = view.get(rows.context_key(rows.CONTEXT, context)) is not None
    return Decision([Entry(records.context_key(context), None)] if known else [], b"")
