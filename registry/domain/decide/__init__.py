"""Decisions on commands: pure functions of the rows at one moment. A refusal changes nothing."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from registry.domain.commands import (
    Associate,
    ChangeAssociations,
    Command,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteUsage,
    DeleteVersion,
    Dissociate,
    PutCensus,
    PutConfig,
    PutMode,
    PutUsage,
    Register,
    ReleaseIds,
    RequestSnapshot,
    TagVersion,
)
from registry.domain.model import TOP, Subject
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.principal import CheckedNames
from registry.domain.queries.scope import (
    ConfiguredSubject,
    Defaults,
    resolve_alias,
    resolve_configured,
    with_own_config,
)
from registry.domain.rows.view import View

from .association_batches import decide_associations
from .decision import Decision, check_checked, check_condition
from .deletes import delete_context, delete_subject, delete_version, release_ids
from .ids import Ids
from .own_records import decide_webhook, request_snapshot
from .register import register
from .scopes import delete_config, delete_mode, put_config, put_mode
from .usage import decide_usage
from .version_records import registered_before, registration

__all__ = ["Decision", "decide", "repeated"]

_T = TypeVar("_T", bound=Register | DeleteVersion | DeleteSubject)
# What is done to the subject or context that a command names, as rules say it. Those of associations are
# checked when they are found; all other commands name none.
_OPERATIONS: dict[type, str] = {
    Register: "write",
    TagVersion: "write",
    DeleteVersion: "delete",
    DeleteSubject: "delete",
    PutConfig: "config",
    DeleteConfig: "config",
    PutMode: "mode",
    DeleteMode: "mode",
    DeleteContext: "delete",
}
# Commands whose subject may be an alias; what it names is checked.
_ALIASED = (Register, DeleteVersion, DeleteSubject)


def decide(
    view: View, command: Command, ids: Ids, defaults: Defaults, memory: SchemaMemory
) -> Querying[Decision]:
    """Return the records and the reply of ``command``.

    Raises ``RegistryError`` and leaves ``ids`` unchanged then. Otherwise ``ids`` advances with the
    decision; if the records are not appended after all, restore it (:meth:`.Ids.restore`).
    """
    if defaults.checked is not None and type(command) in _OPERATIONS and not isinstance(command, _ALIASED):
        check_checked(defaults.checked, _OPERATIONS[type(command)], _name(command))
    if defaults.condition is not None and not isinstance(command, _ALIASED):
        check_condition(view, Subject.parse(_name(command)), command, defaults)
    match command:
        case Register():
            place, command = _place(view, command, defaults)
            return (yield from register(view, place, command, ids, defaults, memory))
        case TagVersion():
            tagged = yield from registration(view, command)
            place = with_own_config(view, Subject.parse(tagged.subject))
            return (yield from register(view, place, tagged, ids, defaults, memory, force_new=True))
        case DeleteVersion():
            place, command = _place(view, command, defaults)
            return delete_version(view, place.subject, command, defaults)
        case DeleteSubject():
            place, command = _place(view, command, defaults)
            return delete_subject(view, place.subject, command, defaults)
        case PutConfig():
            return put_config(view, command)
        case DeleteConfig():
            return delete_config(view, command, defaults)
        case PutMode():
            return put_mode(view, command, defaults)
        case DeleteMode():
            return delete_mode(view, command, defaults)
        case DeleteContext():
            return delete_context(view, command)
        case ReleaseIds():
            return release_ids(view, command, ids)
        case Associate() | Dissociate() | ChangeAssociations():
            return (yield from decide_associations(view, command, ids, defaults, memory))
        case RequestSnapshot():
            return request_snapshot(view, command)
        case PutUsage() | DeleteUsage() | PutCensus():
            return decide_usage(view, command)
        case _:
            return decide_webhook(view, command)


def repeat_reply(
    view: View, command: Command, brief: bytes, checked: CheckedNames | None = None
) -> Querying[bytes | None]:
    """Return the reply to a command that was executed before with a decision of this ``brief``.

    ``None`` if that is not true any more, see :func:`.version_records.registered_before`.

    If its alias has since got another target, for which permissions were not ``checked``, that is the brief.
    """
    if isinstance(command, TagVersion):
        subject, shown = Subject.parse(command.subject), ""
    elif isinstance(command, Register):
        subject, shown = resolve_alias(view, Subject.parse(command.subject)), command.format
    else:
        return brief
    if checked is not None and not checked.cover(_OPERATIONS[Register], subject.qualified):
        return brief
    return (yield from registered_before(view, subject, shown, brief))


def _place(view: View, command: _T, defaults: Defaults) -> tuple[ConfiguredSubject, _T]:
    """Return the subject that the alias in a command names, and the command for it. Raises 503.

    The reader may not have known that alias yet.
    """
    asked = Subject.parse(command.subject)
    place = resolve_configured(view, asked)
    if place.subject != asked:
        command = msgspec.structs.replace(command, subject=place.subject.qualified)
    if defaults.checked is not None:
        check_checked(defaults.checked, _OPERATIONS[type(command)], command.subject)
        if isinstance(command, DeleteVersion | DeleteSubject) and command.force:
            check_checked(defaults.checked, "force", command.subject)
    if defaults.condition is not None:
        check_condition(view, place.subject, command, defaults)
    return place, command


def _name(command: Any) -> str:
    """Return the qualified name of the subject or context that a command of :data:`_OPERATIONS` names."""
    if isinstance(command, DeleteContext):
        return Subject(command.context, "").qualified
    return getattr(command, "subject", None) or TOP.qualified  # webhooks belong to no subject
