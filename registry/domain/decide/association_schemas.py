"""Registration of the schemas that come with associations."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from registry.domain import errors
from registry.domain.commands import Register
from registry.domain.errors import RegistryError
from registry.domain.lookup import registration
from registry.domain.model import Subject
from registry.domain.parsing.querying import Querying

from .association_checks import Step, imports
from .draft import Draft
from .register import register

# The members of ``Schema`` that the answer shows, in their order; without times.
_SCHEMA = ("version", "id", "guid", "schemaType", "references", "metadata", "schema", "ruleSet")


def take_schema(draft: Draft, step: Step) -> Querying[None]:
    """Register the schema that comes with an association; in IMPORT mode only parse it."""
    schema = step.wanted.schema
    if schema is None:
        return
    if not imports(draft.view, step.subject):
        step.schema = yield from _registered(draft, step.subject, schema)
    elif schema.schema.strip():
        yield from registration.read(draft.view, step.subject, schema, new=False, normalize=False)


def _registered(draft: Draft, subject: Subject, schema: Register) -> Querying[bytes]:
    """Register a schema or find it; return it as ``Schema``."""
    command = replace(schema, subject=subject.qualified)
    try:
        decision = yield from register(draft.view, command, draft.ids, draft.defaults, draft.memory)
    except RegistryError as error:
        raise _messages_alone(error, subject) from None
    draft.add(decision.entries)
    reply: dict[str, Any] = orjson.loads(decision.reply)
    members = {"subject": subject.qualified} | {name: reply[name] for name in _SCHEMA if name in reply}
    return msgspec.json.encode(members)


def _messages_alone(error: RegistryError, subject: Subject) -> RegistryError:
    """Return the error with only an incompatible schema's messages (Confluent 8.x, only for associations)."""
    if error.code != errors.INCOMPATIBLE.code:
        return error
    before, after = (errors.INCOMPATIBLE.template % (subject.qualified, "\0")).split("\0")
    return errors.INCOMPATIBLE_MESSAGES(error.message.removeprefix(before).removesuffix(after))
