"""Decisions on tags: registrations that change them, and versions registered again (Confluent 8.x)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from registry.domain import errors
from registry.domain.commands import Register, TagsOf, TagVersion
from registry.domain.lookup.metadata import (
    merge_rules,
    tidy_metadata,
    tidy_rules,
    with_version,
    without_rules,
)
from registry.domain.model import LATEST, RuleSet, Subject
from registry.domain.parsing import querying, stored
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.parsing.stored import source_of
from registry.domain.queries import by_subject, entities, versions
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import View
from registry.domain.schemas import Entity, InvalidSchema, Tagged

_BOTH = "ruleSet cannot be combined with rulesToMerge or rulesToRemove"


def with_tags(view: View, subject: Subject, command: Register) -> Querying[Register]:
    """Return the registration with its tags written into the text, marked as a version. Raises 42201."""
    changed = msgspec.structs.replace(
        command,
        tags_to_add=None,
        tags_to_remove=None,
        propagate_tags=False,
        canonical=False,
        version=command.version or LATEST,
    )
    if not command.schema.strip():
        return changed
    schema_type = command.type_name
    try:
        _, used = stored.resolve(view, subject, command.references or (), deleted=False)
        source = Source(schema_type, command.schema, tuple(used))
        also = (yield from _of_latest(view, subject, schema_type)) if command.propagate_tags else ()
        add, remove = tagged(command.tags_to_add), tagged(command.tags_to_remove)
        text = yield from querying.retag(source, add, remove, also)
    except InvalidSchema as error:
        raise errors.INVALID_SCHEMA(str(error)) from None
    return msgspec.structs.replace(changed, schema=text)


def registration(view: View, command: TagVersion) -> Querying[Register]:
    """Return the registration that implements tagging. Raises 42202, 40401, 40402, 42210, 42201."""
    if command.rule_set is not None and (command.rules_to_merge or command.rules_to_remove):
        raise errors.INVALID_RULE_SET(_BOTH)
    found = by_subject.version_of(view, Subject.parse(command.subject), command.version)
    try:
        add, remove = tagged(command.tags_to_add), tagged(command.tags_to_remove)
        text = yield from querying.retag(source_of(view, found), add, remove)
    except InvalidSchema as error:
        raise errors.INVALID_SCHEMA(str(error)) from None
    row = found.row
    meta = command.metadata if command.metadata is not None else entities.metadata(row)
    return Register(
        command.subject,
        text,
        entities.schema_type(row),
        references=entities.references(row) or None,
        metadata=with_version(tidy_metadata(meta), command.new_version),
        rule_set=_rules(found, command),
        version=command.new_version,
    )


def tagged(listed: Sequence[TagsOf] | None) -> list[Tagged]:
    """Return the tags in the form that schema formats take."""
    return [(Entity(each.path, each.kind), tuple(each.tags)) for each in listed or ()]


def _of_latest(view: View, subject: Subject, schema_type: str) -> Querying[Sequence[Tagged]]:
    latest = versions.latest(view, subject)
    if latest is None or entities.schema_type(latest.row) != schema_type:
        return ()
    try:
        return (yield from querying.tags(source_of(view, latest)))
    except InvalidSchema:
        return ()


def _rules(found: Registered, command: TagVersion) -> RuleSet | None:
    if command.rule_set is not None:
        return command.rule_set
    merged = merge_rules(entities.rule_set(found.row), tidy_rules(command.rules_to_merge))
    return without_rules(merged, command.rules_to_remove or ())
