"""Decisions on deletes of versions, subjects and contexts (Confluent 8.x), and on releases of reserved ids.

A version that others refer to is not deleted. Soft deletes ignore references from soft-deleted versions;
permanent ones do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import orjson

from registry.domain import errors
from registry.domain.commands import DeleteContext, DeleteSubject, DeleteVersion, ReleaseIds
from registry.domain.errors import ID_IN_USE
from registry.domain.fold.versions import tombstones, tombstones_of_versions
from registry.domain.log_format import records, values
from registry.domain.log_format.records import ConfigKey, ContextKey, Entry, ModeKey, SchemaKey
from registry.domain.model import Subject
from registry.domain.parsing.stored import is_referred_to, referrers
from registry.domain.queries import by_subject, scope, versions
from registry.domain.queries.id_space import IdRange, id_space, id_usage
from registry.domain.queries.scope import Defaults
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View

from .association_checks import check_no_associations, check_stays_active
from .decision import Decision, check_writable
from .deletion_guard import check_guard
from .ids import Ids, shown_context


def delete_version(view: View, subject: Subject, command: DeleteVersion, defaults: Defaults) -> Decision:
    """Delete one version. Raises 40406, 40401, 40402, 42205, 40907, 42206, 40407, 40984, in this order."""
    found = _version(view, subject, command.version)
    version, row = found.version, found.row
    if row.deleted and not command.permanent:
        raise errors.VERSION_SOFT_DELETED(subject.qualified, version)
    check_writable(view, subject, subject.qualified)
    if not command.permanent:
        check_stays_active(view, subject, version)
    if next(referrers(view, subject, version, deleted=command.permanent), None) is not None:
        raise errors.REFERENCE_EXISTS(subject.qualified, version)
    reply = b"%d" % version
    if not command.permanent:
        key = records.schema_key(subject, version)
        return Decision([Entry(key, values.schema_value_of(row, deleted=True))], reply)
    if not row.deleted:
        raise errors.VERSION_NOT_SOFT_DELETED(subject.qualified, version)
    others = (each for each in versions.versions(view, subject, deleted=True) if each.version != version)
    last = next(others, None) is None
    check_guard(view, [found], defaults, force=command.force)
    nulls = tombstones(view, SchemaKey(subject, version))
    return Decision([*nulls, *(_scope_entries(view, subject) if last else ())], reply)


def _version(view: View, subject: Subject, number: int) -> Registered:
    found = versions.version_numbered(view, subject, number)
    if found is None:
        if versions.exists(view, subject, deleted=True):
            raise errors.VERSION_NOT_FOUND(number)
        raise errors.SUBJECT_NOT_FOUND(subject.qualified)
    return found


def delete_subject(view: View, subject: Subject, command: DeleteSubject, defaults: Defaults) -> Decision:
    """Delete all versions. Raises 40401, 40404, 42205, 40904, 42206, 40405, 40984, in this order."""
    everything = list(versions.versions(view, subject, deleted=True))
    if not everything:
        raise errors.SUBJECT_NOT_FOUND(subject.qualified)
    gone = everything if command.permanent else [each for each in everything if not each.row.deleted]
    if not gone:
        raise errors.SUBJECT_SOFT_DELETED(subject.qualified)
    check_writable(view, subject, subject.qualified)
    check_no_associations(view, subject)
    referred_to = is_referred_to(view, subject)
    for each in gone:
        if referred_to and next(_foreign_referrers(view, each, deleted=command.permanent), None) is not None:
            raise errors.REFERENCE_EXISTS(subject.qualified, each.version)
        if command.permanent and not each.row.deleted:
            raise errors.SUBJECT_NOT_SOFT_DELETED(subject.qualified)
    reply = orjson.dumps([each.version for each in gone])
    if command.permanent:
        check_guard(view, gone, defaults, force=command.force)
        nulls = tombstones_of_versions(view, subject, (each.version for each in reversed(gone)))
        return Decision([*nulls, *_scope_entries(view, subject)], reply)
    # The highest version that exists, even if soft-deleted, so that a later mark covers the earlier ones.
    mark = values.delete_subject_value(subject, everything[-1].version)
    return Decision([Entry(records.delete_subject_key(subject), mark)], reply)


def _foreign_referrers(view: View, referenced: Registered, *, deleted: bool) -> Iterator[Registered]:
    using = referrers(view, referenced.subject, referenced.version, deleted=deleted)
    return (each for each in using if each.subject != referenced.subject)


def _scope_entries(view: View, subject: Subject) -> list[Entry]:
    """Return tombstones for mode and config of a subject that loses its last version; not for a context."""
    if subject.is_context:
        return []
    entries: list[Entry] = []
    if view.get(layout.scope_key(layout.MODE, subject)) is not None:
        entries += tombstones(view, ModeKey(subject))
    if scope.stored_config(view, subject) is not None:
        entries += tombstones(view, ConfigKey(subject))
    return entries


def delete_context(view: View, command: DeleteContext) -> Decision:
    """Delete a context without subjects; an unknown one needs no record. Raises 42211."""
    context = command.context
    prefix = Subject(context, "").qualified
    if by_subject.subjects(view, prefix, deleted=True):
        raise errors.CONTEXT_NOT_EMPTY(context)
    known = view.get(layout.context_key(layout.CONTEXT, context)) is not None
    return Decision(tombstones(view, ContextKey(context)) if known else [], b"")


def release_ids(view: View, command: ReleaseIds, ids: Ids) -> Decision:
    """Make reserved ids free again; ids that are free already need no record. Raises 40983.

    Soft-deleted versions have their ids, also those that a clear made the registry forget.
    """
    context, freed = command.context, IdRange(command.first, command.last)
    used = versions.id_from(view, context, freed.first)
    if used is not None and used <= freed.last:
        raise ID_IN_USE(*freed, shown_context(context), used)
    before = id_space(view, context)
    grant = ids.release(context, before, freed)
    ids.take(grant)
    reply = msgspec.json.encode(id_usage(view, context, before.with_released(freed)))
    return Decision(grant.entries, reply)
