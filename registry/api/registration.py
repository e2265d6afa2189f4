"""Registering schemas under subjects, finding them there, and changing their inline tags (Confluent 8.x)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import orjson

from registry.domain import errors as e
from registry.domain.commands import Register, TagVersion
from registry.domain.decide.decision import check_subject
from registry.domain.errors import INVALID_SCHEMA, SUBJECT_NOT_FOUND
from registry.domain.lookup import duplicates, find, registration
from registry.domain.lookup.metadata import tidy_rules
from registry.domain.lookup.registration import Content
from registry.domain.model import LATEST, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.parsing.stored import require_source, source_of, subjects_used
from registry.domain.principal import ANONYMOUS
from registry.domain.queries import by_subject, entities, versions
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.domain.schemas import FORMATS, InvalidSchema
from registry.security.gate import Access, Permission

from .answers import Answer, Header
from .bodies import metadata, rule_set, schema_request, tags_of
from .json_input import document, integer, listing, text
from .operations import (
    BODY_ERRORS,
    REGISTER_ERRORS,
    VERSION_MISSING,
    Call,
    FindHeaders,
    Freshness,
    Operation,
    PendingSearch,
    Write,
)
from .parameters import DDL_OR_FORMAT, DELETED, FORCE, FORMAT, NORMALIZE
from .permissions import (
    limit_import,
    may_read,
    on_subject,
    readable,
    require,
    require_references,
    require_uses,
    without_inherited,
)

_ALL = "*"


def tag_version(call: Call, view: View) -> PendingSearch[Registered]:
    """``POST /subjects/{subject}/versions/{version}/tags``: register the version with other tags."""
    subject, defaults = call.subject, call.settings.defaults
    check_subject(subject, subject.qualified, reject_empty=defaults.reject_empty_subject)
    wanted = tag_request(call.body)
    for rules in (wanted["rule_set"], wanted["rules_to_merge"]):
        tidy_rules(rules)
    number = by_subject.parse_version(call.path["version"])

    def command(view: View, found: Registered) -> TagVersion:
        if found.subject != subject and not call.access.may(Permission.WRITE, found.subject):
            raise SUBJECT_NOT_FOUND(subject.qualified)  # it lies in another context
        require(call.access, Permission.READ, found.subject)  # the answer holds the text
        require_references(call.access, view, found.subject, entities.references(found.row))
        return TagVersion(found.subject.qualified, found.version, **wanted)

    return PendingSearch(lambda view: by_subject.version_anywhere(view, subject, number), command)


def tag_request(body: bytes) -> dict[str, Any]:
    """Read a ``TagSchemaRequest`` as arguments of :class:`TagVersion`. Raises 400, 422."""
    source = document(body)
    return {
        "new_version": integer(source.get("newVersion"), "newVersion") or 0,
        "tags_to_add": tags_of(source.get("tagsToAdd"), "tagsToAdd"),
        "tags_to_remove": tags_of(source.get("tagsToRemove"), "tagsToRemove"),
        "metadata": metadata(source.get("metadata"), "metadata"),
        "rule_set": rule_set(source.get("ruleSet"), "ruleSet"),
        "rules_to_merge": rule_set(source.get("rulesToMerge"), "rulesToMerge"),
        "rules_to_remove": listing(text)(source.get("rulesToRemove"), "rulesToRemove"),
    }


def tail_of(call: Call, view: View, found: Registered) -> Querying[bytes]:
    """Return the member ``schemaTags`` for ``findTags``, with a leading comma; empty if nothing matches.

    It lists the entities with any of the tags; ``*``: with any tag at all. Raises 42201.
    """
    wanted = set(call.args["findTags"])
    if not wanted:
        return b""
    try:
        tagged = yield from querying.tags(require_source(view, found, strict=call.strict_references))
    except InvalidSchema as error:
        raise INVALID_SCHEMA(str(error)) from None
    listed = [
        {"schemaEntity": {"entityPath": entity.path, "entityType": entity.kind}, "tags": tags}
        for entity, tags in tagged
        if _ALL in wanted or not wanted.isdisjoint(tags)
    ]
    return b',"schemaTags":' + orjson.dumps(listed) if listed else b""


TAG_OPERATIONS = (
    Operation(
        method="POST",
        path="/subjects/{subject}/versions/{version}/tags",
        conditional=True,
        summary="Register a version again with other tags, metadata or rules",
        permission=on_subject(Permission.WRITE, also=(Permission.READ,)),
        sees_all=True,
        handler=tag_version,
        freshness=Freshness.DECIDED,
        request_schema="TagSchemaRequest",
        response_schema="RegisterSchemaResponse",
        errors=(*VERSION_MISSING, *REGISTER_ERRORS),
    ),
)


# Clients accept some kilobytes of headers.
WARNINGS_MAX = 8
_VERSION = re.compile(rb'\{"id":-?[0-9]+,"version":([0-9]+),')


def look_up(call: Call, view: View) -> Querying[Answer | PendingSearch[str]]:
    """``POST /subjects/{subject}``: a miss in the default context is looked up in the others, in order."""
    request = _request(call)
    require_references(call.access, view, call.subject, request.references or ())
    return _look_up(call, request, view, None)


def _look_up(
    call: Call, request: Register, view: View, context: str | None
) -> Querying[Answer | PendingSearch[str]]:
    defaults, deleted = call.settings.defaults, call.args["deleted"]
    if context is not None and request.format:  # the answer may hold what the schema refers to there
        place = Subject(context, call.subject.name)
        require_references(call.access, view, place, request.references or ())
    found = yield from find.lookup(
        view, call.memory, call.place, request, defaults, deleted=deleted, elsewhere=context
    )
    if found is not None:
        return Answer(found)
    # One context at a time, because there may be many.
    return PendingSearch(partial(_next_context, call, context), partial(_look_up, call, request))


def _next_context(call: Call, after: str | None, view: View) -> Search[str]:
    rows = readable(view, call.access)
    return find.next_context(rows, call.subject, after, deleted=call.args["deleted"])


def register(call: Call, view: View) -> Querying[Answer | Write]:
    """``POST /subjects/{subject}/versions``: answered here if the schema is registered already."""
    defaults = call.settings.defaults
    access, request = call.access, _request(call, force=call.args["force"])
    if request.schema_id >= 0:
        request = limit_import(access, request, call.subject.context)
    if request.rule_set is not None:
        tidy_rules(request.rule_set)
    check_subject(call.subject, request.subject, reject_empty=defaults.reject_empty_subject)
    require_uses(access, view, call.subject, request)
    if registration.is_ddl(request):
        named = msgspec.structs.replace(request, subject=call.requested_subject.qualified)
        request = yield from registration.from_ddl(view, call.subject, named)
        request = msgspec.structs.replace(request, subject=call.subject.qualified)
    finished = partial(_readable, call.sender.access, call.subject)
    if request.changes_tags:
        return Write(_as_requested(call, request), (), finished, call)
    request = yield from _parse_request(request)
    if call.confirmed and call.context.condition is None:  # a condition is for the primary to decide
        reply = yield from find.already_registered(view, call.memory, call.place, request, defaults)
        if reply is not None:
            return _readable(call.sender.access, call.subject, Answer(reply))
    command = _as_requested(call, request)
    warnings = yield from _warnings(call, view, request)
    return Write(command, warnings, finished, call)


def _as_requested(call: Call, request: Register) -> Register:
    """Return the command of a request, which names the subject as the client did: it may be an alias."""
    if call.requested_subject == call.subject:
        return request
    return msgspec.structs.replace(request, subject=call.requested_subject.qualified)


def _readable(access: Access, subject: Subject, answer: Answer) -> Answer:
    """Return the answer without what a version inherits, unless the subject may be read."""
    if access.everywhere(Permission.READ) or access.may(Permission.READ, subject):
        return answer
    return answer._replace(body=orjson.dumps(without_inherited(orjson.loads(answer.body))))


def _warnings(call: Call, view: View, request: Register) -> Querying[tuple[Header, ...]]:
    """Return what the policy only warns about; nothing if the schema is not valid."""
    policy = call.settings.policies().policy(call.subject, ANONYMOUS)
    rules, targets = policy.lint_warnings, policy.target_warnings
    if not (rules or targets) or not request.schema.strip():
        return ()
    try:
        content = yield from registration.read(view, call.subject, request, new=False, normalize=False)
        findings = (yield from querying.lint(content.source, rules)) if rules else ()
        refusals = (yield from _target_warnings(call, view, content, targets)) if targets else ()
    except (InvalidSchema, e.RegistryError):
        return ()  # the primary refuses it
    warnings = [(b"x-registry-lint", str(each)) for each in findings[:WARNINGS_MAX]]
    warnings += [(b"x-registry-targets", each) for each in refusals[:WARNINGS_MAX]]
    # Names in JSON schemas may hold any character, also line breaks.
    return tuple((name, each.encode("unicode_escape")) for name, each in warnings)


def _target_warnings(call: Call, view: View, content: Content, targets: Sequence[str]) -> Querying[list[str]]:
    """Return the objections of targets to the schema, and to its change from the latest version.

    They name fields of that version, so it is only compared for those who may read all schemas in it.
    """
    latest = versions.version_numbered(view, call.subject, LATEST)
    before = None
    try:
        if latest is not None and entities.schema_type(latest.row) == content.schema_type:
            used = [call.subject, *subjects_used(view, call.subject.context, entities.references(latest.row))]
            readable = may_read(call.access)
            if readable is None or all(map(readable, used)):
                before = source_of(view, latest)
        found = yield from querying.targets(content.source, None, targets)
        if before is not None:
            found = [*found, *(yield from querying.targets(content.source, before, targets))]
    except InvalidSchema as error:
        return [str(error)]
    return [f"{report.engine}: {each}" for report in found for each in report.findings]


def _request(call: Call, **options: Any) -> Register:
    wanted = {"normalize": call.args["normalize"], "format": call.args["format"], **options}
    read = call.context.schema_request
    if read is not None:
        return msgspec.structs.replace(read, subject=call.subject.qualified, **wanted)
    return schema_request(call.body, call.subject.qualified, **wanted)


def _parse_request(request: Register) -> Querying[Register]:
    """Return the request with its canonical text, so that the primary need not parse it again.

    It is returned unchanged if that needs other schemas or if it is not a valid new schema: the primary then
    decides what to answer.
    """
    kind = request.type_name
    if request.canonical or request.references or not request.schema.strip() or kind not in FORMATS:
        return request
    try:
        text = yield from querying.canonical(Source(kind, request.schema, new=True))
    except InvalidSchema:
        return request
    return msgspec.structs.replace(request, schema=text, canonical=True)


def equal_to(call: Call, answer: Answer) -> FindHeaders | None:
    """Return what finds ``X-Registry-Equal-To`` for a registration; nothing can equal a first version."""
    version = _VERSION.match(answer.body)
    if version is None or version[1] == b"1":
        return None
    return partial(_equal_to, call.subject, int(version[1]))


def _equal_to(subject: Subject, number: int, view: View) -> Querying[Sequence[Header]]:
    """Return the header, if an earlier version equals this one."""
    try:
        found = yield from duplicates.equal_to(view, subject, number)
    except InvalidSchema:
        return ()
    return () if found is None else ((b"x-registry-equal-to", b"%d" % found),)


OPERATIONS = (
    Operation(
        method="POST",
        path="/subjects/{subject}",
        summary="Find a schema under a subject",
        permission=on_subject(Permission.READ),
        sees_all=True,
        handler=look_up,
        request_schema="RegisterSchemaRequest",
        response_schema="Schema",
        parameters=(NORMALIZE, FORMAT, DELETED),
        errors=(e.INVALID_SCHEMA, e.SUBJECT_NOT_FOUND, e.SCHEMA_NOT_FOUND, *BODY_ERRORS),
    ),
    Operation(
        method="POST",
        path="/subjects/{subject}/versions",
        conditional=True,
        summary="Register a schema under a subject",
        permission=on_subject(Permission.WRITE, also=(Permission.READ,)),
        sees_all=True,
        handler=register,
        extra_headers=equal_to,
        freshness=Freshness.DECIDED,
        request_schema="RegisterSchemaRequest",
        response_schema="RegisterSchemaResponse",
        parameters=(NORMALIZE, DDL_OR_FORMAT, FORCE),
        errors=REGISTER_ERRORS,
    ),
)
