"""Checks of schemas that are not registered: compatibility, and lint rules."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from registry.domain import errors as e
from registry.domain.commands import Register
from registry.domain.compatibility import subject_check
from registry.domain.compatibility.explanation import (
    ExplainOptions,
    ExplainRequest,
    explain,
    explain_version,
)
from registry.domain.log_format import usage as stored_usage
from registry.domain.log_format.subject_values import LEVELS, POLICIES, USED_LEVELS
from registry.domain.log_format.usage import Census
from registry.domain.lookup import registration, usage
from registry.domain.model import TOP, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.principal import ANONYMOUS
from registry.domain.queries import by_subject, versions
from registry.domain.queries.scope import effective_config
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.domain.schemas import STRICT, InvalidSchema
from registry.domain.target_names import parse_targets
from registry.security.gate import Permission

from .answers import Answer, Header, json_answer, plain_answer
from .bodies import schema_members, schema_request
from .json_input import document, listing, required_members, text
from .operations import BODY_ERRORS, VERSION_MISSING, Call, Operation, PendingSearch
from .parameters import AGAINST, CONTEXT, DELETED, LEVEL, NORMALIZE, TARGET, VERBOSE, word
from .permissions import in_handler, may_read, on_subject, require_references, require_resolved

# Versions that a header names, the newest that were compared.
COMPARED_NAMED_MAX = 200


def check_version(call: Call, view: View) -> Querying[Answer] | PendingSearch[list[Registered]]:
    """``POST /compatibility/subjects/{subject}/versions/{version}``."""
    return _check(call, view, by_subject.parse_version(call.path["version"]))


def check_all(call: Call, view: View) -> Querying[Answer] | PendingSearch[list[Registered]]:
    """``POST /compatibility/subjects/{subject}/versions``: against the versions required by the level."""
    return _check(call, view, None)


def _check(call: Call, view: View, number: int | None) -> Querying[Answer] | PendingSearch[list[Registered]]:
    """Return the comparison; if it is with what messages use, after the search for that. Raises 42285."""
    basis = _basis(call, view) if number is None else None
    census = basis.census if basis else None
    if census is None:
        return _compare(call, view, number, None, usage.describe_basis(basis, ()) if basis else "")

    def search(view: View) -> Search[list[Registered]]:
        group = effective_config(view, call.place, call.settings.defaults).compatibility_group
        return (yield from usage.find_needed(view, call.subject, census, group))

    def finish(view: View, compared: list[Registered]) -> Querying[Answer]:
        about = usage.describe_basis(usage.Basis(census), compared)
        return _compare(call, view, None, compared, about)

    return PendingSearch(search, finish)


def _basis(call: Call, view: View) -> usage.Basis | None:
    """Return which versions count, if the level asked for, or else in force, is for those in use.

    Raises 42285 if it is asked for; in force, it falls back to all versions, as for a registration.
    """
    if level := call.args["level"].upper():
        return usage.Basis(_complete_census(call, view)) if level in USED_LEVELS else None
    config = effective_config(view, call.place, call.settings.defaults)
    if not config.compatibility_used:
        return None
    now = time.time_ns() // 1_000_000
    return usage.basis_of(view, config, replace(call.settings.defaults, now=now))


def _compare(
    call: Call, view: View, number: int | None, compared: list[Registered] | None, about: str
) -> Querying[Answer]:
    request = schema_request(call.body, call.subject.qualified, normalize=call.args["normalize"])
    require_references(call.access, view, call.subject, request.references or ())
    policy = call.settings.policies().policy(call.subject, ANONYMOUS)
    targets = tuple(dict.fromkeys((*wanted_targets(call.args["target"]), *policy.targets)))
    level = _level(call, view)
    shown = {"verbose": call.args["verbose"], "plain": call.plain, "level": level, "targets": targets}
    rows = view, call.memory, call.place
    body = yield from subject_check.answer(
        *rows,
        request,
        number,
        call.settings.defaults,
        **shown,
        compared=compared,
        about_compared=about,
        may_read=may_read(call.access),
    )
    answer = _as_accepted(call, body)
    if compared is None:
        return answer
    numbers = b", ".join(b"%d" % each.version for each in compared[:COMPARED_NAMED_MAX])
    headers: list[Header] = [(b"x-registry-compared-versions", numbers)]
    if (more := len(compared) - COMPARED_NAMED_MAX) > 0:
        headers.append((b"x-registry-compared-versions-more", b"%d" % more))
    return answer._replace(headers=(*answer.headers, *headers))


def _level(call: Call, view: View) -> str | None:
    """Return the level, which for ``BACKWARD_USED`` and the like needs a complete census. Raises 42285."""
    level: str = call.args["level"].upper()
    if level in USED_LEVELS:
        _complete_census(call, view)
        return USED_LEVELS[level]
    if level and level not in LEVELS:
        raise e.INVALID_COMPATIBILITY()
    return level or None


def _complete_census(call: Call, view: View) -> Census:
    level, census = call.args["level"].upper(), stored_usage.census(view)
    if census is None or not census.complete:
        raise e.NO_COMPLETE_CENSUS(
            level, "there is none" if census is None else "the newest one is not complete"
        )
    return census


def wanted_targets(names: Iterable[str]) -> tuple[str, ...]:
    """Return the targets that a parameter names. Raises 422."""
    try:
        return parse_targets(part for each in names for part in each.split(","))
    except ValueError as error:
        raise e.UNPROCESSABLE(f"target: {error}") from None


def explain_two(call: Call, view: View) -> Querying[Answer]:
    """``POST /compatibility/explain``."""
    source = document(call.body)
    schema_type = text(source.get("schemaType"), "schemaType")
    old, new = (_side(source, name, schema_type) for name in ("old", "new"))
    context = Subject(Subject.parse(call.args["context"]).context, "")
    asked = listing(text)(source.get("targets"), "targets") or ()
    policy = _policy(text(source.get("compatibilityPolicy"), "compatibilityPolicy"))
    options = ExplainOptions(policy, wanted_targets((*call.args["target"], *asked)), call.plain)
    request = ExplainRequest(schema_members(old, "old"), schema_members(new, "new"), context)
    for each in (request.old, request.new):
        require_references(call.access, view, context, each.references or ())
    return _as_accepted(call, (yield from explain(view, request, options)))


class Pair(NamedTuple):
    """A version, and the one to compare it with; None: no other is asked for or comes before it."""

    version: Registered
    against: Registered | None


def explain_registered(call: Call, view: View) -> PendingSearch[Pair]:
    """``GET /subjects/{subject}/versions/{version}/explain``."""
    number, deleted = by_subject.parse_version(call.path["version"]), call.args["deleted"]
    named: str = call.args["against"]
    against = by_subject.parse_version(named) if named else None
    policy = _policy(call.args["compatibilityPolicy"])
    options = ExplainOptions(policy, wanted_targets(call.args["target"]), call.plain)

    def answer(view: View, pair: Pair) -> Querying[Answer]:
        strict = call.strict_references
        return _as_accepted(call, (yield from explain_version(view, *pair, options, strict=strict)))

    return PendingSearch(lambda view: find_pair(view, call.subject, number, against, deleted=deleted), answer)


def find_pair(
    view: View, subject: Subject, number: int, against: int | None, *, deleted: bool
) -> Search[Pair]:
    """Search for a version and another one of its subject, by default the one before. Raises 404."""
    found = yield from by_subject.version_anywhere(view, subject, number, deleted=deleted)
    if against is None:
        return Pair(found, (yield from versions.find_before(view, found, deleted=deleted)))
    return Pair(found, (yield from by_subject.find_version(view, found.subject, against, deleted=deleted)))


def _as_accepted(call: Call, body: bytes) -> Answer:
    return plain_answer(body) if call.plain else Answer(body)


def _side(source: dict[str, Any], name: str, schema_type: str | None) -> dict[str, Any]:
    found = required_members(source.get(name), name)
    return {"schema": found.get("schema"), "references": found.get("references"), "schemaType": schema_type}


def _policy(given: str | None) -> str:
    policy = (given or STRICT).upper()
    if policy not in POLICIES:
        raise e.UNPROCESSABLE(f"compatibilityPolicy must be one of {', '.join(POLICIES)}")
    return policy


OPERATIONS = (
    Operation(
        method="POST",
        path="/compatibility/subjects/{subject}/versions/{version}",
        summary="Check if a schema is compatible with one version",
        permission=on_subject(Permission.COMPATIBILITY),
        sees_all=True,
        handler=check_version,
        request_schema="RegisterSchemaRequest",
        response_schema="CompatibilityCheckResponse",
        parameters=(NORMALIZE, VERBOSE, LEVEL, TARGET),
        plain=True,
        errors=(
            e.INVALID_VERSION,
            e.VERSION_NOT_FOUND,
            e.INVALID_SCHEMA,
            e.INVALID_COMPATIBILITY,
            e.NO_COMPLETE_CENSUS,
            *BODY_ERRORS,
        ),
    ),
    Operation(
        method="POST",
        path="/compatibility/subjects/{subject}/versions",
        summary="Check if a schema is compatible with the versions required by the compatibility level",
        permission=on_subject(Permission.COMPATIBILITY),
        sees_all=True,
        handler=check_all,
        request_schema="RegisterSchemaRequest",
        response_schema="CompatibilityCheckResponse",
        parameters=(NORMALIZE, VERBOSE, LEVEL, TARGET),
        plain=True,
        errors=(e.INVALID_SCHEMA, e.INVALID_COMPATIBILITY, *BODY_ERRORS),
    ),
    Operation(
        method="POST",
        path="/compatibility/explain",
        summary="Compare two schemas at all compatibility levels",
        permission=in_handler(Permission.READ),
        sees_all=True,
        handler=explain_two,
        request_schema="ExplainRequest",
        needs_json=True,
        response_schema="ExplainResponse",
        parameters=(CONTEXT, TARGET),
        errors=(e.INVALID_SCHEMA, *BODY_ERRORS),
        plain=True,
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}/explain",
        summary="Compare a version with an earlier one at all compatibility levels, and for tables",
        permission=on_subject(Permission.READ),
        handler=explain_registered,
        response_schema="VersionExplained",
        parameters=(
            AGAINST,
            TARGET,
            word("compatibilityPolicy", "STRICT (the default), LENIENT or LOGICAL"),
            DELETED,
        ),
        errors=(*VERSION_MISSING, e.INVALID_SCHEMA, e.UNPROCESSABLE),
        plain=True,
    ),
)


def lint(call: Call, view: View) -> Querying[Answer]:
    """``POST /schemas/lint``."""
    return json_answer((yield from lint_members(call, view, _subject(call, view))))


def lint_members(call: Call, view: View, subject: Subject) -> Querying[dict[str, Any]]:
    """Return if the schema in the body is valid, what would be stored, and what it breaks."""
    request = schema_request(call.body, subject.qualified)
    require_references(call.access, view, subject, request.references or ())
    try:
        return (yield from _verdict(call, view, subject, request))
    except e.RegistryError as error:
        if error.code != e.INVALID_SCHEMA.code:
            raise
        return {"valid": False, "message": error.message, "findings": []}


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


OWN_OPERATIONS = (
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
