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
    DeleteVersion,
    Dissociate,
    PutConfig,
    PutMode,
    Register,
    ReleaseIds,
    RequestSnapshot,
    TagVersion,
)
from registry.domain.model import TOP, Subject
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.principal import CheckedNames
from registry.domain.queries.scope import Defaults, aliased
from registry.domain.rows.view import View

from .association_batches import decide_associations
from .decision import Decision, check_checked
from .deletes import delete_context, delete_subject, delete_version, release_ids
from .ids import Ids
from .register import register
from .scopes import delete_config, delete_mode, put_config, put_mode
from .snapshots import request_snapshot
from .tags import registration
from .version_records import registered_before
from .webhooks import decide_webhook

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


def decide(
    view: View, command: Command, ids: Ids, defaults: Defaults, memory: SchemaMemory
) -> Querying[Decision]:
    """Return the records and the reply of ``command``.

    Raises ``RegistryError`` and leaves ``ids`` unchanged then. Otherwise ``ids`` advances with the
    decision; if the records are not appended after all, restore it (:meth:`.Ids.restore`).
    """
    if isinstance(command, Register | DeleteVersion | DeleteSubject):
        command = _of_subject(view, command)
    if defaults.checked is not None and type(command) in _OPERATIONS:
        check_checked(defaults.checked, _OPERATIONS[type(command)], _name(command))
    match command:
        case Register():
            return (yield from register(view, command, ids, defaults, memory))
        case TagVersion():
            tagged = yield from registration(view, command)
            return (yield from register(view, tagged, ids, defaults, memory, force_new=True))
        case DeleteVersion():
            return delete_version(view, command)
        case DeleteSubject():
            return delete_subject(view, command)
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
        case _:
            return decide_webhook(view, command)


def repeated(
    view: View, command: Command, brief: bytes, checked: CheckedNames | None = None
) -> Querying[bytes]:
    """Return the reply to a command that was executed before with a decision of this ``brief``.

    If its alias has since got another target, for which permissions were not ``checked``, that is the brief.
    """
    if isinstance(command, TagVersion):
        command = Register(command.subject, "")
    elif isinstance(command, Register):
        command = _of_subject(view, command)
    else:
        return brief
    if checked is not None and not checked.cover(_OPERATIONS[Register], command.subject):
        return brief
    return (yield from registered_before(view, command, brief))


def _of_subject(view: View, command: _T) -> _T:
    """Return the command for the subject that its alias names; other nodes may not know that alias yet."""
    asked = Subject.parse(command.subject)
    subject = aliased(view, asked)
    return command if subject == asked else msgspec.structs.replace(command, subject=subject.qualified)


def _name(command: Any) -> str:
    """Return the qualified name of the subject or context that a command of :data:`_OPERATIONS` names."""
    if isinstance(command, DeleteContext):
        return Subject(command.context, "").qualified
    return command.subject or TOP.qualified
