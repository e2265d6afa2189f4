"""Taking the steps of a plan in a running registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from registry.cli.client.client import RegistryClient
from registry.cli.client.paths import scope_path, subject_path, version_path
from registry.cli.client.shapes import Found, Registered
from registry.cli.folder.steps import Step
from registry.domain.commands import (
    Command,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    PutConfig,
    PutMode,
    Register,
)
from registry.domain.model import DEFAULT_TYPE

# Members of configs whose names in requests differ from those in answers.
_SENT_AS: Final = {"compatibilityLevel": "compatibility"}


class PlanOutdated(Exception):
    """The registry does not do what the plan says: it changed, or is of another kind."""


def perform(client: RegistryClient, steps: Sequence[Step]) -> Iterator[Step]:
    """Take steps in order; yield each one that is done.

    Raises :class:`registry.cli.client.errors.RegistryError` and :class:`PlanOutdated`.
    """
    for step in steps:
        answer = _send(client, step.command)
        if isinstance(step.command, Register):
            wanted, given = step.command.schema_id, answer.get("id")
            if wanted >= 0 and given != wanted:
                raise PlanOutdated(
                    f"{step.command.subject} got the id {given} instead of {wanted}: this registry keeps "
                    "no ids; delete what was registered, and register it without them"
                )
            number = _number(client, step.command, answer)
            if number != step.number:
                raise PlanOutdated(
                    f"{step.command.subject} became version {number} instead of {step.number}: somebody else "
                    "writes to this registry; run the command again"
                )
        yield step


def _send(client: RegistryClient, command: Command) -> Any:
    match command:
        case Register():
            return client.post(f"{subject_path(command.subject)}/versions", _body(command), Registered)
        case PutConfig():
            body = {_SENT_AS.get(name, name): value for name, value in command.patch.items()}
            return client.put(scope_path("config", command.subject or ""), body)
        case PutMode():
            path = scope_path("mode", command.subject or "")
            return client.put(path, {"mode": command.mode}, force=command.force)
        case DeleteMode():
            return client.delete(scope_path("mode", command.subject or ""))
        case DeleteVersion():
            return client.delete(version_path(command.subject, command.version))
        case DeleteSubject():
            return client.delete(subject_path(command.subject))
    raise AssertionError(command)


def _number(client: RegistryClient, command: Register, answer: Any) -> int:
    """Return the number that a schema got; registries of others do not answer with it."""
    found = answer.get("version")
    if found is None:
        found = client.post(subject_path(command.subject), _body(command), Found)["version"]
    return int(found)


def _body(command: Register) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": command.schema}
    if command.schema_type != DEFAULT_TYPE:
        body["schemaType"] = command.schema_type
    if command.references:
        body["references"] = msgspec.to_builtins(command.references)
    if command.metadata is not None:
        body["metadata"] = msgspec.to_builtins(command.metadata)
    if command.rule_set is not None:
        body["ruleSet"] = msgspec.to_builtins(command.rule_set)
    if command.schema_id >= 0:
        body |= {"id": command.schema_id, "version": command.version}
    return body
