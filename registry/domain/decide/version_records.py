"""The records of a registered version, and the reply to its registration."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from registry.domain.fold.versions import tombstones
from registry.domain.log_format import records, values
from registry.domain.log_format.records import Entry, SchemaKey
from registry.domain.lookup.registration import Content
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.parsing import querying
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.stored import formatted, referrers
from registry.domain.queries import entities, versions
from registry.domain.queries.versions import Registered
from registry.domain.rows import layout
from registry.domain.rows.view import View


def version_entries(
    view: View, subject: Subject, content: Content, own: Sequence[Registered], schema_id: int, version: int
) -> list[Entry]:
    """Return the records of a new version; ``own``: the versions of the subject with the same content."""
    return [
        *_context_entries(view, subject.context),
        *_tombstones_of_superseded(view, subject, own, schema_id, version),
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
        text = yield from querying.formatted(content.source, format)
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


def registered_before(view: View, subject: Subject, format: str, brief: bytes) -> Querying[bytes]:
    """Return the reply of an earlier registration; by now its version may be deleted or replaced."""
    try:
        known = _decode(brief)
    except msgspec.MsgspecError:
        return brief
    row = versions.get(view, subject, known.version)
    if row is None or row.schema_id != known.id:
        return brief
    row = yield from formatted(view, Registered(subject, known.version, row), format)
    return entities.registered(row, known.version)


class _Brief(msgspec.Struct):
    """The reply without what the version's row holds."""

    id: int
    version: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Brief).decode
