"""Decisions on contexts, which are created with their first schema and deleted only by command."""

from __future__ import annotations

from registry.domain import errors
from registry.domain.commands import DeleteContext
from registry.domain.fold.tombstones import tombstones
from registry.domain.log_format.records import ContextKey
from registry.domain.model import Subject
from registry.domain.queries import by_subject
from registry.domain.rows import layout
from registry.domain.rows.view import View

from .decision import Decision


def delete_context(view: View, command: DeleteContext) -> Decision:
    """Delete a context without subjects; an unknown one needs no record. Raises 42211."""
    context = command.context
    prefix = Subject(context, "").qualified
    if by_subject.subjects(view, prefix, deleted=True):
        raise errors.CONTEXT_NOT_EMPTY(context)
    known = view.get(layout.context_key(layout.CONTEXT, context)) is not None
    return Decision(tombstones(view, ContextKey(context)) if known else [], b"")
