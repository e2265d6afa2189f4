"""The records of a registered version and the reply to its registration, and versions with other tags."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from registry.domain import errors
from registry.domain.commands import Register, TagsOf, TagVersion
from registry.domain.fold.versions import tombstones
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry, SchemaKey
from registry.domain.lookup.metadata import (
    merge_rules,
    tidy_metadata,
    tidy_rules,
    with_version,
    without_rules,
)
from registry.domain.lookup.registration import Content
from registry.domain.model import DEFAULT_CONTEXT, LATEST, RuleSet, Subject
from registry.domain.parsing import querying, stored
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.parsing.stored import format_version, referrers, source_of
from registry.domain.queries import by_subject, entities, versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
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
        add, remove = tags_of(command.tags_to_add), tags_of(command.tags_to_remove)
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
        add, remove = tags_of(command.tags_to_add), tags_of(command.tags_to_remove)
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


def tags_of(listed: Sequence[TagsOf] | None) -> list[Tagged]:
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


def version_entries(
    view: View, subject: Subject, content: Content, own: Sequence[Registered], schema_id: int, version: int
) -> list[Entry]:
    """Return the records of a new version; ``own``: the versions of the subject with the same content."""
    return [
        *_context_entries(view, subject.context),
        *(_tombstones_of_superseded(view, subject, own, schema_id, version) if own else ()),
        _version_entry(subject, content, schema_id, version),
    ]


def _context_entries(view: View, context: str) -> list[Entry]:
    if context == DEFAULT_CONTEXT or view.get(layout.context_key(layout.CONTEXT, context)) is not None:
        return []
    return [Entry(records.context_key(context), values.context_value(context))]


def _tombstones_of_superseded(
    view: View, subject: Subject, own: Sequence[Registered], schema_id: int, version: int
) -> list[Entry]:
    """Return tombstones of older soft-deleted versions with this id, unless something refers to them."""
    return [
        null
        for each in sorted(own, key=lambda each: each.version)
        if each.row.deleted
        and each.row.schema_id == schema_id
        and each.version < version
        and next(referrers(view, subject, each.version), None) is None
        for null in tombstones(view, SchemaKey(subject, each.version))
    ]


def _version_entry(subject: Subject, content: Content, schema_id: int, version: int) -> Entry:
    value = values.schema_value(
        subject,
        version,
        schema_id,
        content.text,
        schema_type=content.schema_type,
        references=content.references,
        metadata=content.metadata,
        rule_set=content.rules,
    )
    return Entry(records.schema_key(subject, version), value)


def reply(content: Content, schema_id: int, version: int, format: str) -> Querying[bytes]:
    """Return the reply to the registration of a new version, with its text in a ``format`` of the API."""
    text = content.text
    if format.lower() not in ("", "default"):
        text = yield from querying.format_text(content.source, format)
    return entities.registered_unstored(
        schema_id,
        version,
        content.md5,
        content.schema_type,
        text,
        content.references,
        content.metadata,
        content.rules,
    )


def summary(schema_id: int, version: int) -> bytes:
    """Return the summary of a reply, from which :func:`registered_before` restores it."""
    return _encode(_Brief(schema_id, version))


def registered_before(view: View, subject: Subject, format: str, brief: bytes) -> Querying[bytes | None]:
    """Return the reply of an earlier registration; by now its version may be deleted or replaced.

    ``None`` if another program had just taken its id: its writer decides it again before it answers, but may
    have been killed or replaced before that.
    """
    try:
        known = _decode(brief)
    except msgspec.MsgspecError:
        return brief
    row = versions.get(view, subject, known.version)
    if row is None or row.schema_id != known.id:
        return brief
    found = Registered(subject, known.version, row)
    if not versions.owns_id(view, found):
        return None
    row = yield from format_version(view, found, format)
    return entities.registration_response(row, known.version)


class _Brief(msgspec.Struct):
    """The reply without what the version's row holds."""

    id: int
    version: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Brief).decode
