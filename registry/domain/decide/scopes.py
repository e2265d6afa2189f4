"""Decisions on changes of config and mode (Confluent 8.x)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import msgspec

from registry.domain import errors
from registry.domain.commands import DeleteConfig, DeleteMode, PutConfig, PutMode
from registry.domain.fold.versions import tombstones
from registry.domain.log_format import records, subject_values, values
from registry.domain.log_format.records import ConfigKey, Entry, ModeKey, SchemaKey
from registry.domain.lookup.metadata import tidy_metadata, tidy_rules
from registry.domain.model import EVERYWHERE, TOP, Metadata, RuleSet, Subject
from registry.domain.parsing.stored import referrers
from registry.domain.queries import by_subject, entities, scope, versions
from registry.domain.queries.scope import Config, Defaults, exact_config, mode_in_scope, stored_config
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .decision import Decision, check_subject, check_writable
from .deletion_guard import check_guard


def put_config(view: View, command: PutConfig) -> Decision:
    """Merge a patch into a config. Raises 400, 42203, 42210, 42208, 42205; after 400 in this order."""
    patch = {name: _read_member(name, value) for name, value in command.patch.items() if name in _READ}
    patch = _with_use(patch)
    scope = TOP if command.subject is None else Subject.parse(command.subject)
    if command.subject is not None:
        check_subject(scope, command.subject, is_scope=True)
    check_writable(view, scope, _format(command.subject))
    stored = stored_config(view, scope)
    members: dict[str, Any] = {} if stored is None else msgspec.to_builtins(stored)
    members = {name: value for name, value in (members | patch).items() if value is not None and value != ""}
    if members.get(_USED) and not members.get(_LEVEL, "").endswith("_TRANSITIVE"):
        raise errors.INVALID_COMPATIBILITY()
    merged = msgspec.convert(msgspec.to_builtins(members), Config)
    value = subject_values.config_value(scope, msgspec.to_builtins(merged))
    return Decision([Entry(records.config_key(scope), value)], entities.config_update(merged))


def _with_use(patch: dict[str, Any]) -> dict[str, Any]:
    """Return a patch in which a level says if it is for versions in use: another level ends that."""
    if _LEVEL not in patch:
        return patch
    level = patch[_LEVEL]
    if level in subject_values.USED_LEVELS:
        return patch | {_LEVEL: subject_values.USED_LEVELS[level], _USED: True}
    return {_USED: None} | patch


def delete_config(view: View, command: DeleteConfig, defaults: Defaults) -> Decision:
    """Remove a config; the reply is the old one. Raises 40401, 42205."""
    scope = TOP if command.subject is None else Subject.parse(command.subject)
    old = exact_config(view, scope, defaults)
    if old is None:
        raise errors.SUBJECT_NOT_FOUND(scope.qualified)
    check_writable(view, scope, _format(command.subject))
    return Decision(tombstones(view, ConfigKey(scope)), entities.config_entity(old))


def _format(subject: str | None) -> str:
    return "null" if subject is None else subject


_LEVEL, _USED = "compatibilityLevel", "compatibilityUsed"


def _level(value: Any) -> Any:
    level = value.upper() if isinstance(value, str) else None
    if level not in subject_values.LEVELS and level not in subject_values.USED_LEVELS:
        raise errors.INVALID_COMPATIBILITY()
    return level


def _policy(value: Any) -> Any:
    policy = value.upper() if isinstance(value, str) else None
    return policy if policy in subject_values.POLICIES else None  # others remove it, as null (Confluent 8.4)


def _of_type(expected: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        return msgspec.convert(msgspec.to_builtins(value), expected)

    return read


# The members of a patch, in the order in which they are checked.
_READ: dict[str, Callable[[Any], Any]] = {
    "compatibilityLevel": _level,
    "defaultRuleSet": lambda value: tidy_rules(_of_type(RuleSet)(value)),
    "overrideRuleSet": lambda value: tidy_rules(_of_type(RuleSet)(value)),
    "defaultMetadata": lambda value: tidy_metadata(_of_type(Metadata)(value)),
    "overrideMetadata": lambda value: tidy_metadata(_of_type(Metadata)(value)),
    "alias": _of_type(str),
    "aliasForDeks": _of_type(str),
    "normalize": _of_type(bool),
    "validateFields": _of_type(bool),
    "validateNewSchemas": _of_type(bool),
    "validateRules": _of_type(bool),
    "compatibilityPolicy": _policy,
    "compatibilityGroup": _of_type(str),
    "compatibilityUsed": lambda value: _of_type(bool)(value) or None,
}


def _read_member(name: str, value: Any) -> Any:
    if value is None:
        return None
    try:
        return _READ[name](value)
    except msgspec.ValidationError as error:
        raise errors.BAD_REQUEST(f"Cannot read '{name}': {error}") from None


def put_mode(view: View, command: PutMode, defaults: Defaults) -> Decision:
    """Set or remove a mode. Raises 42208, 42204, 42205, 42206, 40984, in this order."""
    subject = TOP if command.subject is None else Subject.parse(command.subject)
    if command.subject is not None:
        check_subject(subject, command.subject, is_scope=True)
    mode = command.mode
    if mode is not None and mode not in subject_values.MODES:
        raise errors.INVALID_MODE()
    if command.echo == "FORWARD" and subject != EVERYWHERE:  # other letter cases are accepted (Confluent 8.x)
        raise errors.FORWARD_ONLY_GLOBAL()
    _check_mutable(defaults)
    reply = entities.mode_entity(command.echo)
    if mode is None:
        return Decision(tombstones(view, ModeKey(subject)), reply)
    emptying = mode == "IMPORT" and not command.force and mode_in_scope(view, subject) != "IMPORT"
    entries = _empty_scope(view, subject, defaults) if emptying else []
    return Decision(
        [*entries, Entry(records.mode_key(subject), subject_values.mode_value(subject, mode))], reply
    )


def _check_mutable(defaults: Defaults) -> None:
    if not defaults.mode_mutability:
        raise errors.NOT_PERMITTED("Mode changes are not allowed")


def _empty_scope(view: View, subject: Subject, defaults: Defaults) -> list[Entry]:
    """Return tombstones for all soft-deleted versions in a scope, and its clear; refused if others exist.

    It is also refused if something refers to them, or the guard of deletions does not let them go. The top
    level contains everything, the default of all contexts nothing.
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
    for _, doomed in groupby(leftover, key=lambda each: each.subject):
        check_guard(view, list(doomed), defaults, force=False)
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
