"""Decisions on commands: pure functions of the rows at one moment. A refusal changes nothing."""

from __future__ import annotations

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
    RequestSnapshot,
    TagVersion,
)
from registry.domain.model import Subject
from registry.domain.parsing.memory import SchemaMemory
from registry.domain.parsing.querying import Querying
from registry.domain.queries.scope import Defaults, aliased
from registry.domain.rows.view import View

from .association_batches import decide_associations
from .config import delete_config, put_config
from .decision import Decision
from .deletes import delete_context, delete_subject, delete_version
from .ids import Ids
from .mode import delete_mode, put_mode
from .register import register
from .snapshots import request_snapshot
from .tags import registration
from .version_records import registered_before
from .webhooks import decide_webhook

__all__ = ["Decision", "decide", "repeated"]

_OfSubject = Register | TagVersion | DeleteVersion | DeleteSubject


def decide(
    view: View, command: Command, ids: Ids, defaults: Defaults, memory: SchemaMemory
) -> Querying[Decision]:
    """Return the records and the reply of ``command``.

    Raises ``RegistryError`` and leaves ``ids`` unchanged then. Otherwise ``ids`` advances with the
    decision; if the records are not appended after all, restore it (:meth:`.Ids.restore`).
    """
    if isinstance(command, Register | TagVersion | DeleteVersion | DeleteSubject):
        command = _of_subject(view, command)
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
        case Associate() | Dissociate() | ChangeAssociations():
            return (yield from decide_associations(view, command, ids, defaults, memory))
        case RequestSnapshot():
            return request_snapshot(view, command)
        case _:
            return decide_webhook(view, command)


def repeated(view: View, command: Command, brief: bytes) -> Querying[bytes]:
    """Return the reply to a command that was executed before with a decision of this ``brief``."""
    if isinstance(command, TagVersion):
        command = Register(command.subject, "")
    if not isinstance(command, Register):
        return brief
    subject = aliased(view, Subject.parse(command.subject))
    of_subject = msgspec.structs.replace(command, subject=subject.qualified)
    return (yield from registered_before(view, of_subject, brief))


def _of_subject(view: View, command: _OfSubject) -> _OfSubject:
    """Return the command for the subject that its alias names; other nodes may not know that alias yet."""
    asked = Subject.parse(command.subject)
    subject = aliased(view, asked)
    return command if subject == asked else msgspec.structs.replace(command, subject=subject.qualified)
