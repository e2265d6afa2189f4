"""Decisions on changes of config (Confluent 8.x)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from registry.domain import errors
from registry.domain.commands import DeleteConfig, PutConfig
from registry.domain.fold.tombstones import tombstones
from registry.domain.log_format import config_values, records
from registry.domain.log_format.records import ConfigKey, Entry
from registry.domain.lookup.metadata import tidy_metadata, tidy_rules
from registry.domain.model import TOP, Metadata, RuleSet, Subject
from registry.domain.queries import entities
from registry.domain.queries.scope import Config, Defaults, exact_config, stored_config
from registry.domain.rows.view import View

from .decision import Decision, check_subject, check_writable


def put_config(view: View, command: PutConfig) -> Decision:
    """Merge a patch into a config. Raises 400, 42203, 42210, 42208, 42205; after 400 in this order."""
    patch = {name: _read_member(name, value) for name, value in command.patch.items() if name in _READ}
    patch = {name: value for name, value in patch.items() if value is not _KEEP}
    scope = TOP if command.subject is None else Subject.parse(command.subject)
    if command.subject is not None:
        check_subject(scope, command.subject, is_scope=True)
    check_writable(view, scope, _format(command.subject))
    stored = stored_config(view, scope)
    members: dict[str, Any] = {} if stored is None else msgspec.to_builtins(stored)
    members = {name: value for name, value in (members | patch).items() if value is not None and value != ""}
    merged = msgspec.convert(msgspec.to_builtins(members), Config)
    value = config_values.config_value(scope, msgspec.to_builtins(merged))
    return Decision([Entry(records.config_key(scope), value)], entities.config_update(merged))


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


# The stored member stays, as if the client had not sent one.
_KEEP = object()


def _level(value: Any) -> Any:
    level = value.upper() if isinstance(value, str) else None
    if level not in config_values.LEVELS:
        raise errors.INVALID_COMPATIBILITY()
    return level


def _policy(value: Any) -> Any:
    policy = value.upper() if isinstance(value, str) else None
    return policy if policy in config_values.POLICIES else _KEEP  # an unknown one is dropped silently


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
}


def _read_member(name: str, value: Any) -> Any:
    if value is None:
        return None
    try:
        return _READ[name](value)
    except msgspec.ValidationError as error:
        raise errors.BAD_REQUEST(f"Cannot read '{name}': {error}") from None
