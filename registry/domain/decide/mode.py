"""Decisions on changes of mode (Confluent 8.x)."""

from __future__ import annotations

from registry.domain import errors
from registry.domain.commands import DeleteMode, PutMode
from registry.domain.fold.tombstones import tombstones
from registry.domain.log_format import config_values, records, values
from registry.domain.log_format.records import Entry, ModeKey, SchemaKey
from registry.domain.model import EVERYWHERE, TOP, Subject
from registry.domain.parsing.stored import referrers
from registry.domain.queries import by_subject, entities, scope, versions
from registry.domain.queries.scope import Defaults, mode_in_scope
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .decision import Decision, check_subject


def put_mode(view: View, command: PutMode, defaults: Defaults) -> Decision:
    """Set or remove a mode. Raises 42208, 42204, 42205, 42206, in this order."""
    subject = TOP if command.subject is None else Subject.parse(command.subject)
    if command.subject is not None:
        check_subject(subject, command.subject, is_scope=True)
    mode = command.mode
    if mode is not None and mode not in config_values.MODES:
        raise errors.INVALID_MODE()
    if command.echo == "FORWARD" and subject != EVERYWHERE:  # other letter cases are accepted (Confluent 8.x)
        raise errors.FORWARD_ONLY_GLOBAL()
    _check_mutable(defaults)
    reply = entities.mode_entity(command.echo)
    if mode is None:
        return Decision(tombstones(view, ModeKey(subject)), reply)
    emptying = mode == "IMPORT" and not command.force and mode_in_scope(view, subject) != "IMPORT"
    entries = _empty_scope(view, subject) if emptying else []
    return Decision(
        [*entries, Entry(records.mode_key(subject), config_values.mode_value(subject, mode))], reply
    )


def _check_mutable(defaults: Defaults) -> None:
    if not defaults.mode_mutability:
        raise errors.NOT_PERMITTED("Mode changes are not allowed")


def _empty_scope(view: View, subject: Subject) -> list[Entry]:
    """Return tombstones for all soft-deleted versions in a scope, and its clear; refused if others exist.

    The top level contains everything, the default of all contexts nothing.
    """
    if subject == EVERYWHERE:
        return []
    leftover: list[Registered] = []
    for inside in _subjects_in(view, subject):
        leftover += versions.versions(view, inside, deleted=True)
    if not all(each.row.deleted for each in leftover):
        raise errors.NOT_PERMITTED("Cannot import since found existing subjects")
    places = {(each.subject, each.version) for each in leftover}
    for each in leftover:
        using = referrers(view, each.subject, each.version)
        if any((other.subject, other.version) not in places for other in using):
            raise errors.REFERENCE_EXISTS(each.subject.qualified, each.version)
    keys = (SchemaKey(each.subject, each.version) for each in leftover)
    nulls = [null for key in keys for null in tombstones(view, key)]
    return [*nulls, Entry(records.clear_subject_key(subject), values.clear_subject_value(subject))]


def _subjects_in(view: View, subject: Subject) -> list[Subject]:
    if not subject.is_context:
        return [subject]
    prefix = ":*:" if subject == TOP else subject.qualified
    return [Subject.parse(name) for name in by_subject.subjects(view, prefix, deleted=True)]


def delete_mode(view: View, command: DeleteMode, defaults: Defaults) -> Decision:
    """Remove a mode; the reply is the old one. Raises 40401, 42205.

    ``recursive`` on a context also removes those of its subjects, with or without schemas.
    """
    subject = TOP if command.subject is None else Subject.parse(command.subject)
    old = scope.exact_mode(view, subject)
    if old is None and not command.recursive:
        raise errors.SUBJECT_NOT_FOUND(subject.qualified)
    _check_mutable(defaults)
    entries = tombstones(view, ModeKey(subject))
    if command.recursive and subject.is_context:
        below = _modes_below(view, subject)
        entries += [null for each in below for null in tombstones(view, ModeKey(each))]
    return Decision(entries, entities.mode_entity(old))


def _modes_below(view: View, context: Subject) -> list[Subject]:
    found = scan(view, layout.context_key(layout.MODE, context.context))
    return [each for each in (layout.scope_of(key, value) for key, value in found) if not each.is_context]
