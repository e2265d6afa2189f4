"""The fold of version records and tombstones into the version row and its index rows.

Compaction compares the bytes of keys. If another writer spelled a key differently (older magic, other order
of members), that key needs its own tombstone: with one only under our bytes, the old record would stay, and
would count again once our tombstone has been compacted away. So the fold keeps such bytes in rows of their
own until the log's last record under them is a tombstone.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import orjson

from registry.domain.log_format import values
from registry.domain.log_format.jackson import dumps
from registry.domain.log_format.records import (
    AssociationKey,
    ConfigKey,
    ContextKey,
    Entry,
    Key,
    ModeKey,
    Record,
    SchemaKey,
    canonical_key,
)
from registry.domain.log_format.values import BadValue, SchemaContent
from registry.domain.model import Subject
from registry.domain.rows import layout, version_row
from registry.domain.rows.layout import ENCODED, GUID, ID, QUARANTINE, VERSION, number, part
from registry.domain.rows.version_row import VersionRow
from registry.domain.rows.view import Change, View, scan

# The kinds of keys for which this registry writes tombstones.
_ROW_KEYS: dict[type, Callable[[Any], bytes]] = {
    SchemaKey: lambda key: layout.version_key(key.subject, key.version),
    ConfigKey: lambda key: layout.scope_key(layout.CONFIG, key.subject),
    ModeKey: lambda key: layout.scope_key(layout.MODE, key.subject),
    ContextKey: lambda key: layout.context_key(layout.CONTEXT, key.context),
    AssociationKey: lambda key: layout.association_key(key.subject, canonical_key(key)),
}


def foreign_key_changes(view: View, key: Key, raw: bytes, *, gone: bool) -> list[Change]:
    """Return a record's changes to the rows that keep foreign bytes of its key; ``gone``: a tombstone."""
    row_key_of = _ROW_KEYS.get(type(key))
    if row_key_of is None or raw == canonical_key(key):
        return []
    row_key = layout.foreign_key(row_key_of(key), raw)
    if not gone:
        return [(row_key, raw)]
    return [] if view.get(row_key) is None else [(row_key, None)]


def tombstones(view: View, key: Key) -> list[Entry]:
    """Return the tombstones that delete what ``key`` holds, one for each spelling of it."""
    foreign = scan(view, layout.FOREIGN + _ROW_KEYS[type(key)](key))
    return [*(Entry(raw, None) for _, raw in foreign), Entry(canonical_key(key), None)]


def tombstones_of_versions(view: View, subject: Subject, numbers: Iterable[int]) -> list[Entry]:
    """Return the tombstones of versions of one subject, in their order."""
    keys = (SchemaKey(subject, number) for number in numbers)
    if next(scan(view, layout.FOREIGN + layout.scope_key(layout.VERSION, subject)), None) is None:
        return [Entry(canonical_key(key), None) for key in keys]
    return [null for key in keys for null in tombstones(view, key)]


# How much of a record's key a quarantine row shows, in bytes.
_KEY_SHOWN_MAX = 4096
_REFERENCES = len(b',"references":')


class _Kinds(dict[str, bytes]):
    """The piece of a version row after the guid, by type; those of the first types of a log are kept."""

    _MAX = 64

    def __missing__(self, kind: str) -> bytes:
        found = b'","schemaType":' + dumps(kind)
        if len(self) < self._MAX and len(kind) <= self._MAX:
            self[kind] = found
        return found


KINDS = _Kinds()


def deletes(view: View, *keys: bytes) -> list[Change]:
    """Return deletes of those rows that exist."""
    return [(key, None) for key in keys if view.get(key) is not None]


def quarantine_row(record: Record, reason: str) -> bytes:
    """Return the quarantine row of a record."""
    key = None if record.key is None else record.key[:_KEY_SHOWN_MAX].decode(errors="backslashreplace")
    return orjson.dumps({"offset": record.offset, "ts": record.ts, "reason": reason, "key": key})


class RowParts(NamedTuple):
    """The parts of keys and of the version row that depend on the version."""

    context_name: str
    # The packed context.
    context: bytes
    # The packed name and version number with which the keys of the version's rows end.
    end: bytes
    # The first piece of the version row.
    head: bytes


def schema_changes(view: View, key: SchemaKey, record: Record) -> list[Change]:
    """Return the changes of the record of a version under ``key``."""
    subject, version = key
    name = subject.qualified
    head = b'{"subject":%b,"version":%d' % (dumps(name), version) if name else b'{"version":%d' % version
    parts = RowParts(subject.context, part(subject.context), part(subject.name) + number(version), head)
    return version_changes(view, record, parts)


def version_changes(view: View, record: Record, parts: RowParts) -> list[Change]:
    """Return the changes of the record of a version, which replaces the version's former rows."""
    row_key = VERSION + parts.context + parts.end
    quarantine = QUARANTINE + row_key
    old, value = view.get(row_key), record.value
    if old is None:
        gone = deletes(view, quarantine)
    else:
        gone = [(row_key, None), *((key, None) for key, _ in _index_of(parts, VersionRow.unpack(old)))]
    if value is None:
        return _each_once(gone)
    try:
        content = values.read_schema(value)
    except BadValue as error:
        return _each_once([*gone, (quarantine, quarantine_row(record, error.reason))])
    referenced = [(each.subject, each.version) for each in content.references]
    metadata = _metadata(content)
    new = _index(parts, content.schema_id, content.md5, record.offset, referenced)
    if version_row.is_encoded(metadata, md5_stored=content.md5_stored):
        new.append((ENCODED + parts.context + parts.end, b""))
    new.append((row_key, _row(parts, content, record, metadata)))
    return _each_once(gone + new) if gone or referenced else new


def _each_once(changes: list[Change]) -> list[Change]:
    return list(dict(changes).items())


def _metadata(content: SchemaContent) -> bytes:
    metadata = content.metadata
    return b',"metadata":' + dumps(msgspec.to_builtins(metadata)) if metadata is not None else b""


def _row(parts: RowParts, content: SchemaContent, record: Record, metadata: bytes) -> bytes:
    schema_id, md5, md5_stored, kind, references, _, rule_set, schema, deleted = content
    guid = hexlify(md5, b"-", 2)
    return version_row.pack_version(
        schema_id, deleted, deleted, record.offset, record.ts, md5,
        parts.head,
        b',"guid":"%b%b%b%b%b' % (guid[:4], guid[5:29], guid[30:34], guid[35:], KINDS[kind]),
        b',"schema":' + dumps(schema),
        b',"references":' + dumps(msgspec.to_builtins(references)) if references else b"",
        metadata,
        b',"ruleSet":' + dumps(msgspec.to_builtins(rule_set)) if rule_set is not None else b"",
        md5_stored,
    )  # fmt: skip


def _index(
    parts: RowParts, schema_id: int, md5: bytes, offset: int, referenced: list[tuple[str, int]]
) -> list[Change]:
    """Return the index rows of a version: by content, by id, and one for each version that it refers to."""
    context_name, context, end, _ = parts
    packed = number(schema_id)
    index: list[Change] = [
        (b"".join((GUID, context, md5, end)), packed),
        (b"".join((ID, context, packed, offset.to_bytes(8, "big"), end)), b""),
    ]
    for subject, version in referenced:
        prefix = layout.referrer_prefix(Subject.within(context_name, subject), version)
        index.append((prefix + context + end, b""))
    return index


def index_rows(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """Return all rows that the fold has derived from a version row, which point to it."""
    row = VersionRow.unpack(value)
    context = key[1 : key.index(b"\0") + 1]
    name = layout.unpart(context[:-1])
    if name is None:
        name = Subject.parse(orjson.loads(row.head + b"}")["subject"]).context
    parts = RowParts(name, context, key[1 + len(context) :], row.head)
    return [(index, packed) for index, packed in _index_of(parts, row) if packed is not None]


def _index_of(parts: RowParts, row: VersionRow) -> list[Change]:
    listed = orjson.loads(row.references[_REFERENCES:]) if row.references else ()
    referenced = [(each["subject"], each["version"]) for each in listed]
    index = _index(parts, row.schema_id, row.md5, row.offset, referenced)
    if version_row.is_encoded(row.metadata, md5_stored=row.md5_stored):
        index.append((ENCODED + parts.context + parts.end, b""))
    return index
