"""Registering the schemas that come with associations."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.model import Subject

from .draft import Draft
from .register import register

_SCHEMA = (
    "version", "id", "guid", "schemaType", "references", "metadata", "schema", "ts", "deleted", "ruleSet",
)  # fmt: skip
"""The members of ``Schema`` that a registration answers, in the order of ``Schema``."""


def is_registered(draft: Draft, subject: Subject, schema: Register) -> bool:
    """Whether a schema is registered under the subject already; refused where it is none at all."""
    ids = draft.ids.saved()
    step = draft.step()
    try:
        registered(step, subject, schema)
    except RegistryError as error:
        if error.code != errors.INCOMPATIBLE.code:
            raise
        return False
    finally:
        draft.ids.restore(ids)
    return not step.entries


def registered(draft: Draft, subject: Subject, schema: Register) -> bytes:
    """Register a schema; what stands there then, as ``Schema``."""
    command = replace(schema, subject=subject.qualified)
    try:
        decision = register(draft.view, command, draft.ids, draft.defaults, draft.parser)
    except RegistryError as error:
        raise _messages_alone(error, subject) from None
    draft.add(decision.entries)
    reply: dict[str, Any] = orjson.loads(decision.reply)
    members = {"subject": subject.qualified} | {name: reply[name] for name in _SCHEMA if name in reply}
    return msgspec.json.encode(members)


def _messages_alone(error: RegistryError, subject: Subject) -> RegistryError:
    """In answers about associations an incompatible schema's messages stand alone (Confluent 8.x)."""
    if error.code != errors.INCOMPATIBLE.code:
        return error
    before, after = (errors.INCOMPATIBLE.template % (subject.qualified, "\0")).split("\0")
    return errors.INCOMPATIBLE_MESSAGES(error.message.removeprefix(before).removesuffix(after))
