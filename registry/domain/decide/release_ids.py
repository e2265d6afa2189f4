"""Decisions on releases of reserved ids that no version has."""

from __future__ import annotations

import msgspec

from registry.domain.commands import ReleaseIds
from registry.domain.errors import ID_IN_USE
from registry.domain.queries import versions
from registry.domain.queries.id_space import IdRange, id_space, id_usage
from registry.domain.rows.view import View

from .decision import Decision
from .ids import Ids, shown_context


def release_ids(view: View, command: ReleaseIds, ids: Ids) -> Decision:
    """Make reserved ids free again; ids that are free already need no record. Raises 40983.

    Soft-deleted versions have their ids, also those that a clear made the registry forget.
    """
    context, freed = command.context, IdRange(command.first, command.last)
    used = versions.id_from(view, context, freed.first)
    if used is not None and used <= freed.last:
        raise ID_IN_USE(*freed, shown_context(context), used)
    before = id_space(view, context)
    grant = ids.released(context, before, freed)
    ids.take(grant)
    reply = msgspec.json.encode(id_usage(view, context, before.released(freed)))
    return Decision(grant.entries, reply)
