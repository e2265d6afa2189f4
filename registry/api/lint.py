"""Validation of a schema that is not registered: its stored forms, and the lint rules that it breaks."""

from __future__ import annotations

from typing import Any

from registry.domain import errors as e
from registry.domain.commands import Register
from registry.domain.lookup import registration
from registry.domain.model import TOP, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.principal import ANONYMOUS
from registry.domain.rows.view import View
from registry.domain.schemas import InvalidSchema
from registry.security.access import Permission

from .answers import Answer, json_answer
from .bodies import schema_request
from .operations import BODY_ERRORS, Call, Operation
from .parameters import word
from .permissions import in_handler, require_references, require_resolved


def lint(call: Call, view: View) -> Querying[Answer]:
    """``POST /schemas/lint``."""
    subject = _subject(call, view)
    request = schema_request(call.body, subject.qualified)
    require_references(call.access, view, subject, request.references or ())
    try:
        found = yield from _verdict(call, view, subject, request)
    except e.RegistryError as error:
        if error.code != e.INVALID_SCHEMA.code:
            raise
        found = {"valid": False, "message": error.message, "findings": []}
    return json_answer(found)


def _verdict(call: Call, view: View, subject: Subject, request: Register) -> Querying[dict[str, Any]]:
    if not request.schema.strip():
        raise e.INVALID_SCHEMA("Empty schema")
    content = yield from registration.read(view, subject, request, new=True, normalize=False)
    try:
        normalized = yield from querying.normalized(content.source)
        findings = yield from _findings(call, subject, content.source)
    except InvalidSchema as error:
        raise registration.invalid(request, error) from None
    return {"valid": True, "schema": content.text, "normalized": normalized, "findings": findings}


def _subject(call: Call, view: View) -> Subject:
    name: str = call.args["subject"]
    if not name:
        return TOP
    return require_resolved(call.access, Permission.COMPATIBILITY, view, Subject.parse(name))


def _findings(call: Call, subject: Subject, source: Source) -> Querying[list[dict[str, Any]]]:
    policy = call.settings.policies().policy(subject, ANONYMOUS)
    found = []
    for severity, rules in (("error", policy.lint_errors), ("warning", policy.lint_warnings)):
        broken = (yield from querying.lint(source, rules)) if rules else ()
        found += [{"severity": severity, **each._asdict()} for each in broken]
    return found


OPERATIONS = (
    Operation(
        method="POST",
        path="/schemas/lint",
        summary="Validate a schema and check it against a subject's lint rules",
        permission=in_handler(Permission.COMPATIBILITY),
        sees_all=True,
        handler=lint,
        request_schema="RegisterSchemaRequest",
        response_schema="LintResponse",
        parameters=(word("subject", "The subject whose lint rules apply; empty: the top level"),),
        errors=BODY_ERRORS,
    ),
)
