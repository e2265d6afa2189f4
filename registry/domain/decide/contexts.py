"""Deciding about contexts. They come with their first schema and go only by command."""

from __future__ import annotations

from registry.domain import errors, queries, rows
from registry.domain.commands import DeleteContext
from registry.domain.model import Subject
from registry.domain.records import ContextKey
from registry.domain.rows import View
from registry.domain.tombstones import tombstones

from .decision import Decision


def delete_context(view: View, command: DeleteContext) -> Decision:
    """Forget a context without subjects; one that is not known needs no record. Raises 42211."""
    context = command.context
    prefix = Subject(context, "").qualified
    if queries.subjects(view, prefix, deleted=True):
        raise errors.CONTEXT_NOT_EMPTY(context)
    known = view.get(rows.context_key(rows.CONTEXT, context)) is not None
    return Decision(tombstones(view, ContextKey(context)) if known else [], b"")
