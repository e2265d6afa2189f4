"""Subjects, their versions, and the references around a version."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson

from registry.domain import errors as e
from registry.domain.commands import Command, DeleteSubject, DeleteVersion
from registry.domain.decide.deletion_guard import WARN, find_need
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.parsing.stored import describe_version, format_version
from registry.domain.queries import by_subject, entities, lists, versions
from registry.domain.queries.by_subject import Graph, GraphNode
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import Skip, View
from registry.domain.schemas import InvalidSchema
from registry.domain.schemas.fields import field_members
from registry.security.gate import Permission

from . import registration
from .answers import Answer, json_answer
from .listing import Listing
from .operations import VERSION_MISSING, WRITE_ERRORS, Call, Freshness, Operation, PendingSearch, Write
from .paging import page
from .parameters import (
    DELETED,
    DELETED_ONLY,
    FIND_TAGS,
    FORCE_DELETE,
    FORMAT,
    FORMAT_OR_DDL,
    LIST_MAX,
    OFFSET,
    PAGE,
    PERMANENT,
    REFERENCE_FORMAT,
    flag,
    limit,
    number,
    offset,
    words,
)
from .past import PAST, PAST_ERRORS
from .permissions import on_subject, require


def delete_subject(call: Call, view: View) -> Command | PendingSearch[str]:
    """``DELETE /subjects/{subject}``."""
    name, permanent = call.requested_subject.qualified, call.args["permanent"]
    command = DeleteSubject(name, permanent, _check_force(call))
    return _warning_of_use(call, command, lambda view: versions.walk(view, call.subject, deleted=True))


def _check_force(call: Call) -> bool:
    """Return true if the deletion is to be done whatever the data needs. Raises 403."""
    if call.args[FORCE_DELETE.name]:
        for either in dict.fromkeys((call.requested_subject, call.subject)):
            require(call.access, Permission.FORCE, either)
    return bool(call.args[FORCE_DELETE.name])


def _warning_of_use(
    call: Call,
    command: DeleteSubject | DeleteVersion,
    find_doomed: Callable[[View], Iterator[Registered | None]],
) -> Command | PendingSearch[str]:
    """Return the command; with ``deletion_guard=warn`` also why it would be refused otherwise."""
    defaults = call.settings.defaults
    if not command.permanent or defaults.deletion_guard != WARN:
        return command

    def search(view: View) -> Search[str]:
        doomed = []
        for each in find_doomed(view):
            yield
            if each is not None:
                doomed.append(each)
        return (yield from find_need(view, doomed, defaults.census_age_max_ms, time.time_ns() // 1_000_000))

    def answer(_: View, reason: str) -> Command | Write:
        quoted = re.sub(r"[^ !#-\[\]-~]", "?", reason).encode()
        return Write(command, ((b"warning", b'299 - "%s"' % quoted),)) if reason else command

    return PendingSearch(search, answer)


def list_versions(call: Call, view: View) -> PendingSearch[None]:
    """``GET /subjects/{subject}/versions``."""
    deleted, only = call.args["deleted"], call.args["deletedOnly"]
    negative = call.args["deletedAsNegative"]
    shown = {"deleted": deleted, "deleted_only": only, "deleted_as_negative": negative}

    def walk(view: View, mark: tuple[int] | None, skip: Skip | None = None) -> Iterator[int | None]:
        return lists.version_numbers(view, call.subject, mark[0] if mark else None, skip, **shown)

    listing = page(call, walk, lambda each: b"%d" % each, lambda each: (abs(each),), (int,), skipping=walk)
    return PendingSearch(
        lambda view: by_subject.require(view, call.subject, deleted=deleted or only), lambda _, __: listing
    )


def get_version(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /subjects/{subject}/versions/{version}``."""
    return PendingSearch(_version(call), partial(_version_entity, call))


def _version_entity(call: Call, view: View, found: Registered) -> Querying[Answer]:
    row = yield from describe_version(view, found, call.args["format"], strict=call.strict_references)
    if call.args["referenceFormat"] == "qualified":
        row = entities.with_qualified_references(row, found.subject.context)
    tail = yield from registration.tail_of(call, view, found)
    tag = b'"%s"' % entities.version_tag(found.version, found.row).encode()
    return Answer(entities.schema_entity(row, schema_tags=tail), headers=((b"etag", tag),))


def get_version_text(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /subjects/{subject}/versions/{version}/schema``: the bare text."""

    def text(view: View, found: Registered) -> Querying[Answer]:
        row = yield from describe_version(view, found, call.args["format"], strict=call.strict_references)
        return Answer(entities.text(row).encode())

    return PendingSearch(_version(call), text)


def delete_version(call: Call, view: View) -> Command | PendingSearch[str]:
    """``DELETE /subjects/{subject}/versions/{version}``."""
    number = by_subject.parse_version(call.path["version"])
    command = DeleteVersion(
        call.requested_subject.qualified, number, call.args["permanent"], _check_force(call)
    )
    return _warning_of_use(
        call, command, lambda view: iter([versions.version_numbered(view, call.subject, number)])
    )


def find_by_metadata(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /subjects/{subject}/metadata``."""
    wanted, deleted = zip(call.args["key"], call.args["value"], strict=False), call.args["deleted"]

    def entity(view: View, found: Registered) -> Querying[Answer]:
        row = yield from format_version(view, found, call.args["format"], strict=call.strict_references)
        return Answer(entities.schema_entity(row))

    return PendingSearch(
        lambda view: by_subject.version_with_metadata(view, call.subject, wanted, deleted=deleted), entity
    )


def list_referrers(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /subjects/{subject}/versions/{version}/referencedby``; the version itself may be soft-deleted."""
    number = by_subject.parse_version(call.path["version"])
    return PendingSearch(
        lambda view: by_subject.find_version(view, call.subject, number, deleted=True),
        lambda _, found: _referrers(call, found),
    )


def _referrers(call: Call, found: Registered) -> Listing[tuple[str, int]]:
    deleted = call.args["deleted"]

    def walk(view: View, mark: tuple[str, int] | None) -> Iterator[tuple[str, int] | None]:
        return lists.referrer_ids(view, found.subject, found.version, mark, deleted=deleted)

    return page(call, walk, lambda each: b"%d" % each[1], lambda each: each, (str, int), limit_max=LIST_MAX)


def _version(call: Call) -> Callable[[View], Search[Registered]]:
    number = by_subject.parse_version(call.path["version"])
    return lambda view: by_subject.version_anywhere(view, call.subject, number, deleted=call.args["deleted"])


OPERATIONS = (
    Operation(
        method="DELETE",
        path="/subjects/{subject}",
        conditional=True,
        summary="Delete all versions of a subject",
        permission=on_subject(Permission.DELETE, also=(Permission.FORCE,)),
        sees_all=True,
        handler=delete_subject,
        freshness=Freshness.DECIDED,
        response_schema="Numbers",
        parameters=(PERMANENT, FORCE_DELETE),
        errors=(
            e.DATA_NEEDS_VERSION,
            e.SUBJECT_NOT_FOUND,
            e.SUBJECT_SOFT_DELETED,
            e.SUBJECT_NOT_SOFT_DELETED,
            e.REFERENCE_EXISTS,
            e.ASSOCIATION_EXISTS,
            *WRITE_ERRORS,
        ),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/metadata",
        summary="The highest version with these metadata properties",
        permission=on_subject(Permission.READ),
        handler=find_by_metadata,
        response_schema="Schema",
        parameters=(
            words("key", "Name of a property; paired with value"),
            words("value", "Value of a property"),
            FORMAT,
            FORMAT_OR_DDL,
            DELETED,
            *PAST,
        ),
        errors=(e.SUBJECT_NOT_FOUND, e.SCHEMA_NOT_FOUND, *PAST_ERRORS),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/versions",
        summary="List the versions of a subject",
        permission=on_subject(Permission.READ),
        handler=list_versions,
        response_schema="Numbers",
        parameters=(
            DELETED,
            DELETED_ONLY,
            flag("deletedAsNegative", "Show soft-deleted versions as negative numbers"),
            *PAST,
            *PAGE,
        ),
        errors=(e.SUBJECT_NOT_FOUND, *PAST_ERRORS),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}",
        tagged=True,
        summary="A version of a subject",
        permission=on_subject(Permission.READ),
        handler=get_version,
        response_schema="Schema",
        parameters=(FORMAT_OR_DDL, REFERENCE_FORMAT, DELETED, FIND_TAGS, *PAST),
        errors=(*VERSION_MISSING, e.INVALID_SCHEMA, *PAST_ERRORS),
    ),
    Operation(
        method="DELETE",
        path="/subjects/{subject}/versions/{version}",
        conditional=True,
        summary="Delete a version",
        permission=on_subject(Permission.DELETE, also=(Permission.FORCE,)),
        sees_all=True,
        handler=delete_version,
        freshness=Freshness.DECIDED,
        response_schema="Id",
        parameters=(PERMANENT, FORCE_DELETE),
        errors=(
            e.DATA_NEEDS_VERSION,
            *VERSION_MISSING,
            e.VERSION_SOFT_DELETED,
            e.VERSION_NOT_SOFT_DELETED,
            e.REFERENCE_EXISTS,
            e.ASSOCIATION_EXISTS,
            e.NO_ACTIVE_VERSION,
            *WRITE_ERRORS,
        ),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}/schema",
        summary="The text of a version",
        permission=on_subject(Permission.READ),
        handler=get_version_text,
        response_schema="SchemaText",
        parameters=(FORMAT_OR_DDL, DELETED, *PAST),
        errors=(*VERSION_MISSING, e.INVALID_SCHEMA, *PAST_ERRORS),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}/referencedby",
        summary="The ids of the schemas that refer to a version",
        permission=on_subject(Permission.READ),
        handler=list_referrers,
        response_schema="Numbers",
        parameters=(DELETED, *PAGE),
        errors=VERSION_MISSING,
    ),
)


NODES_MAX = 1000
# Fields in one answer, which may hold long docs.
FIELDS_MAX = 5000


def list_fields(call: Call, view: View) -> PendingSearch[Registered]:
    """``GET /subjects/{subject}/versions/{version}/fields``: empty for a type that is not served."""
    begin, most = offset(call.args), limit(call.args, FIELDS_MAX)

    def answer(view: View, found: Registered) -> Querying[Answer]:
        kind = entities.schema_type(found.row)
        source = Source(kind, entities.text(found.row))
        try:
            page = yield from querying.fields(source, begin, begin + most)
        except InvalidSchema as error:
            raise e.INVALID_SCHEMA(f"The fields of the stored schema cannot be read: {error}") from None
        tag = b'"%s"' % entities.version_tag(found.version, found.row).encode()
        place = {"subject": found.subject.qualified, "version": found.version, "id": found.row.schema_id}
        rows = [field_members(each) for each in page.fields]
        body: dict[str, Any] = {**place, "schemaType": kind, "total": page.total, "offset": begin}
        if call.args["entity"]:
            body["entity"] = orjson.Fragment(entities.schema_entity(found.row))
        return json_answer({**body, "fields": rows}, headers=((b"etag", tag),))

    return PendingSearch(_version(call), answer)


def get_graph(call: Call, view: View) -> PendingSearch[Graph]:
    """Return the versions that a version uses, directly or not, and those that use it, if known."""
    wanted, most = by_subject.parse_version(call.path["version"]), limit(call.args, NODES_MAX)

    def search(view: View) -> Search[Graph]:
        start = yield from by_subject.find_version(view, call.subject, wanted, deleted=True)
        return (yield from by_subject.graph(view, start, most, referrers=call.past is None))

    return PendingSearch(search, lambda _, found: json_answer(_entity(found)))


def _entity(found: Graph) -> dict[str, Any]:
    return {
        "nodes": [_node(each) for each in found.nodes],
        "edges": [{"from": user, "to": used, "name": name} for user, used, name in found.edges],
        "complete": found.complete,
    }


def _node(node: GraphNode) -> dict[str, Any]:
    place = {"subject": node.subject.qualified, "version": node.version, "depth": node.depth}
    if node.found is None:
        return {**place, "missing": True}
    row = node.found.row
    kind = entities.schema_type(row)
    return {**place, "id": row.schema_id, "schemaType": kind, "deleted": row.deleted}


OWN_OPERATIONS = (
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}/fields",
        tagged=True,
        summary="The fields of a version, and the types that it defines: names, types, defaults, docs, tags",
        permission=on_subject(Permission.READ),
        handler=list_fields,
        response_schema="Fields",
        parameters=(
            DELETED,
            OFFSET,
            number("limit", "Maximum number of fields, at most 5000", 1000),
            flag("entity", "Include the version as GET of the version returns it"),
            *PAST,
        ),
        errors=(*VERSION_MISSING, e.INVALID_SCHEMA, *PAST_ERRORS),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}/graph",
        summary="The direct and indirect references of a version, in both directions; as of the past without "
        "referrers",
        permission=on_subject(Permission.READ),
        handler=get_graph,
        response_schema="ReferenceGraph",
        parameters=(number("limit", "Maximum number of versions, at most 1000", 200), *PAST),
        errors=(*VERSION_MISSING, *PAST_ERRORS),
    ),
)
