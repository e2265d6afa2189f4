"""Deciding commands: pure, over the rows of one moment. A refusal changes nothing."""

from __future__ import annotations

from registry.domain.commands import (
    Command,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    PutConfig,
    PutMode,
    Register,
)
from registry.domain.ids import Ids
from registry.domain.parsing import Parser
from registry.domain.rows import View
from registry.domain.scope import Defaults

from .config import delete_config, put_config
from .contexts import delete_context
from .decision import Decision
from .deletes import delete_subject, delete_version
from .mode import delete_mode, put_mode
from .register import register

__all__ = ["Decision", "decide"]


def decide(view: View, command: Command, ids: Ids, defaults: Defaults, parser: Parser) -> Decision:
    """The records and the reply of ``command``. Raises ``RegistryError``, and then leaves ``ids`` alone.

    ``ids`` moves with the decision. Where the records are not appended after all, put it back
    (:meth:`.Ids.saved`, :meth:`.Ids.restore`).
    """
    match command:
        case Register():
            return register(view, command, ids, defaults, parser)
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
