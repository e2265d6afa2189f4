"""Entries of the history: what the records of the log said of each owner, in the order of their offsets.

An entry stays when compaction removes its record. Its key is the owner, packed as in row keys, and the
offset. Its value begins with a hash of the record's key, and holds the event, without what its key says.
The cluster's own records have none, because each delivery of a webhook would leave one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_64_digest

from registry.domain.events import Event, Kind, event_about
from registry.domain.fold.fast_path import (
    CONTEXT,
    PlainKey,
    PlainRecords,
    PlainSchema,
    plain_key,
    plain_schema,
)
from registry.domain.fold.fold import owner_of
from registry.domain.log_format.headers import unpack_principal
from registry.domain.log_format.records import (
    NoopKey,
    Record,
    SchemaKey,
    UnreadableKey,
    canonical_key,
    decode_key,
)
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.rows.layout import part
from registry.domain.rows.view import Span, View

OFFSET_BYTES = 8
_HASH_BYTES = 6
# What is stored of an event, in this order and without absent members at the end. Stored entries outlive
# releases: members and kinds are only ever added, each at the end.
_MEMBERS = (
    "kind", "time", "version", "id", "type", "level", "mode",
    "resource_name", "resource_namespace", "resource_type", "association_type", "reason", "principal",
)  # fmt: skip
_KINDS = (
    Kind.VERSION_REGISTERED, Kind.VERSION_SOFT_DELETED, Kind.VERSION_DELETED,
    Kind.SUBJECT_SOFT_DELETED, Kind.SUBJECT_RESTORED, Kind.SUBJECT_CLEARED, Kind.SUBJECT_UNCLEARED,
    Kind.CONFIG_SET, Kind.CONFIG_DELETED, Kind.MODE_SET, Kind.MODE_DELETED,
    Kind.CONTEXT_CREATED, Kind.CONTEXT_DELETED, Kind.ASSOCIATION_SET, Kind.ASSOCIATION_DELETED,
    Kind.EPOCH_STARTED, Kind.SNAPSHOT_REQUESTED, Kind.LOG_RESEEDED, Kind.QUARANTINED,
)  # fmt: skip
_CODES = {kind: code for code, kind in enumerate(_KINDS)}
_REGISTERED, _SOFT_DELETED = _CODES[Kind.VERSION_REGISTERED], _CODES[Kind.VERSION_SOFT_DELETED]
_PRINCIPAL = _MEMBERS.index("principal")
# Between the members of versions and the principal.
_NOT_OF_VERSIONS = (None,) * (_PRINCIPAL - _MEMBERS.index("level"))
_members = attrgetter(*_MEMBERS)
_offset = struct.Struct(">Q").pack  # like entry_key, but faster
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode


class Slice(NamedTuple):
    """The entries of a stretch of the log."""

    span: Span
    # Keys and values.
    entries: list[tuple[bytes, bytes]]


class HistoryEntry(NamedTuple):
    """An entry as it is read."""

    offset: int
    # Equal for records of one key, however it is spelled.
    about: bytes
    # Without context and subject.
    event: Event


def slice_of(begin: int, records: Sequence[Record], end: int, parsed: PlainRecords | None = None) -> Slice:
    """Return the entries of the records that a log has from ``begin`` up to ``end``.

    ``parsed``: contents of some of them, which :func:`.fold.apply_all` has parsed.
    """
    since = end
    for record in reversed(records):
        if record.offset != since - 1:
            break
        since = record.offset
    known = parsed or {}
    packed = (
        _pack(each) if (plain := known.get(each.offset)) is None else _pack_plain(*plain, each)
        for each in records
    )
    return Slice(Span(begin, since, end), [each for each in packed if each is not None])


def _pack(record: Record) -> tuple[bytes, bytes] | None:
    """Return the entry of a record; ``None`` if it has none."""
    raw = record.key or b""
    plain = plain_key(raw)
    if plain is not None:
        # Nearly all records: their keys are canonical, and need not be parsed.
        schema = plain_schema(record.value or b"")
        if schema is not None:
            return _pack_plain(plain, schema, record)
        version = SchemaKey(Subject(DEFAULT_CONTEXT, plain.name.decode()), int(plain.digits))
        return _entry(CONTEXT + plain.name + b"\0", raw, event_about(version, record))
    try:
        key = decode_key(record.key)
    except UnreadableKey:
        return None
    if isinstance(key, NoopKey):
        return None
    return _entry(owner_of(key), canonical_key(key), event_about(key, record))


def _pack_plain(key: PlainKey, schema: PlainSchema, record: Record) -> tuple[bytes, bytes]:
    """Return the entry of a plain version without making its event."""
    offset, ts, raw, _, principal = record
    schema_id, schema_type, _, deleted = schema
    kind = _SOFT_DELETED if deleted else _REGISTERED
    members: list[Any] = [kind, ts, int(key.digits), schema_id, schema_type]
    if principal:
        members += [*_NOT_OF_VERSIONS, unpack_principal(principal)]
    return (
        b"%b%b\0%b" % (CONTEXT, key.name, _offset(offset)),
        xxh3_64_digest(raw or b"")[:_HASH_BYTES] + _encode(members),
    )


def _entry(owner: bytes, canonical: bytes, event: Event | None) -> tuple[bytes, bytes] | None:
    if event is None:
        return None
    return entry_key(owner, event.offset), xxh3_64_digest(canonical)[:_HASH_BYTES] + _encode_event(event)


def _encode_event(event: Event) -> bytes:
    """Return an event without its offset, context and subject, which the entry's key says."""
    members: list[Any] = list(_members(event))
    members[0] = _CODES[event.kind]
    while members[-1] is None:
        members.pop()
    return _encode(members)


def entry_key(owner_key: bytes, offset: int) -> bytes:
    """Return the key of an entry."""
    return owner_key + offset.to_bytes(OFFSET_BYTES, "big")


def packed_owner(subject: Subject) -> bytes:
    """Return a subject or a context as packed in keys."""
    return part(subject.context) + part(subject.name)


def unpack(key: bytes, value: bytes) -> HistoryEntry:
    """Return the entry of a key and a value."""
    offset = int.from_bytes(key[-OFFSET_BYTES:], "big")
    members = dict(zip(_MEMBERS, _decode(value[_HASH_BYTES:]), strict=False))
    event = Event(offset=offset, **members | {"kind": _KINDS[members["kind"]]})
    return HistoryEntry(offset, value[:_HASH_BYTES], event)


def principal_at(view: View, subject: Subject, offset: int) -> str:
    """Return who sent the record of a subject at an offset; empty if the history does not know."""
    history = view.history()
    if history is None:
        return ""
    key = entry_key(packed_owner(subject), offset)
    found = history.seek(key)
    if found is None or found[0] != key:
        return ""
    members = _decode(found[1][_HASH_BYTES:])
    return members[_PRINCIPAL] if len(members) > _PRINCIPAL else ""


def is_of(entry: HistoryEntry, record: Record) -> bool:
    """Return true unless ``record``, at the entry's offset, is another one, as in a log that was cut."""
    packed = _pack(record)
    return packed is not None and packed[1][:_HASH_BYTES] == entry.about and record.ts == entry.event.time


def event_for(entry: HistoryEntry, subject: Subject) -> Event:
    """Return the whole event of an entry of this subject or context."""
    name = None if subject.is_context else subject.qualified
    return replace(entry.event, context=subject.context, subject=name)
