"""Inline tags in schemas (Confluent 8.x): listing and changing them."""

from __future__ import annotations

from typing import Any

import orjson

from registry.domain.commands import TagVersion
from registry.domain.decide.decision import check_subject
from registry.domain.errors import INVALID_SCHEMA, SUBJECT_NOT_FOUND
from registry.domain.lookup.metadata import tidy_rules
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.stored import source_of
from registry.domain.queries import by_subject, entities
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import View
from registry.domain.schemas import InvalidSchema
from registry.security.access import Permission

from .bodies import metadata, rule_set, tags_of
from .json_input import document, integer, listing, text
from .operations import REGISTER_ERRORS, VERSION_MISSING, Call, Freshness, Operation, PendingSearch
from .permissions import on_subject, require, require_references

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
        tagged = yield from querying.tags(source_of(view, found))
    except InvalidSchema as error:
        raise INVALID_SCHEMA(str(error)) from None
    listed = [
        {"schemaEntity": {"entityPath": entity.path, "entityType": entity.kind}, "tags": tags}
        for entity, tags in tagged
        if _ALL in wanted or not wanted.isdisjoint(tags)
    ]
    return b',"schemaTags":' + orjson.dumps(listed) if listed else b""


OPERATIONS = (
    Operation(
        method="POST",
        path="/subjects/{subject}/versions/{version}/tags",
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
