"""The event of a record: a function of that record alone, so that every node and every reading give the same.

It follows the fold (:mod:`registry.domain.fold.fold`): a record is quarantined here if it is there, and an
empty value and JSON's ``null`` mean the same as a tombstone. It does not know if a record changed any row: a
tombstone of what never existed is an event, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from registry.domain.log_format import association_values, config_values, values, webhook_values
from registry.domain.log_format.headers import unpack_principal
from registry.domain.log_format.records import (
    BARRIER,
    RESEED,
    SNAPSHOT,
    AssociationKey,
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    Key,
    ModeKey,
    NoopKey,
    Record,
    SchemaKey,
    UnreadableKey,
    decode_key,
)
from registry.domain.log_format.values import BadValue

from .event import Event, Kind

_DELETES = (None, b"", b"null")
# The members of an event, by name.
_Members = dict[str, Any]


def event_of(record: Record) -> Event | None:
    """Return the event of a record; ``None`` if it says nothing to users.

    These are reservations of ids, webhooks and their positions, no-ops of other writers, and deletes of keys
    that cannot be read.
    """
    try:
        key = decode_key(record.key)
    except UnreadableKey as error:
        if record.value in _DELETES:
            return None
        return _event(record, {"kind": Kind.QUARANTINED, "reason": error.reason})
    return event_about(key, record)


def event_about(key: Key, record: Record) -> Event | None:
    """Return the event of a record whose key was read."""
    if record.value in _DELETES:
        kind = _DELETED.get(type(key))
        return None if kind is None else _event(record, {"kind": kind, **_members_of_key(key)})
    try:
        members = _PUT[type(key)](key, record)
    except BadValue as error:
        members = {"kind": Kind.QUARANTINED, "reason": error.reason}
    return _event(record, {**_members_of_key(key), **members}) if members else None


def _event(record: Record, members: _Members) -> Event:
    if record.principal:
        members["principal"] = unpack_principal(record.principal)
    return Event(record.offset, record.ts, **members)


def _members_of_key(key: Key) -> _Members:
    """Return the members that follow from a key."""
    if isinstance(key, NoopKey):
        return {}
    if isinstance(key, ContextKey):
        return {"context": key.context}
    members: _Members = {"context": key.subject.context, "subject": key.subject.qualified}
    if key.subject.is_context:
        del members["subject"]
    if isinstance(key, SchemaKey):
        members["version"] = key.version
    if isinstance(key, AssociationKey):
        members |= {name: getattr(key, name) for name in key._fields[1:]}
    return members


def _version(key: SchemaKey, record: Record) -> _Members:
    head = values.read_schema_head(_value(record))
    kind = Kind.VERSION_SOFT_DELETED if head.deleted else Kind.VERSION_REGISTERED
    return {"kind": kind, "id": head.schema_id, "type": head.schema_type}


def _delete_mark(key: DeleteSubjectKey, record: Record) -> _Members:
    return {"kind": Kind.SUBJECT_SOFT_DELETED, "version": values.read_delete_mark(_value(record))}


def _clear(key: ClearSubjectKey, record: Record) -> _Members:
    values.read_object(_value(record))
    return {"kind": Kind.SUBJECT_CLEARED}


def _config(key: ConfigKey, record: Record) -> _Members:
    config = orjson.loads(config_values.read_config(key.subject, _value(record)))
    return {"kind": Kind.CONFIG_SET, "level": config.get("compatibilityLevel")}


def _mode(key: ModeKey, record: Record) -> _Members:
    return {"kind": Kind.MODE_SET, "mode": config_values.read_mode(_value(record))}


def _context(key: ContextKey, record: Record) -> _Members:
    values.read_object(_value(record))
    return {"kind": Kind.CONTEXT_CREATED}


def _association(key: AssociationKey, record: Record) -> _Members:
    association_values.read_association(key, _value(record), record.ts)
    return {"kind": Kind.ASSOCIATION_SET}


def _noop(key: NoopKey, record: Record) -> _Members:
    if key.context is not None:
        values.read_reservation(_value(record))
    if key.name is not None:
        webhook_values.check(key, _value(record))
    kind = _MARKERS.get(key.registrar or "")
    if kind is None:
        return {}
    values.read_object(_value(record))
    return {"kind": kind}


def _value(record: Record) -> bytes:
    assert record.value is not None, "a tombstone is not read"
    return record.value


_PUT: dict[type, Callable[[Any, Record], _Members]] = {
    SchemaKey: _version,
    DeleteSubjectKey: _delete_mark,
    ClearSubjectKey: _clear,
    ConfigKey: _config,
    ModeKey: _mode,
    ContextKey: _context,
    AssociationKey: _association,
    NoopKey: _noop,
}

_DELETED: dict[type, Kind] = {
    SchemaKey: Kind.VERSION_DELETED,
    DeleteSubjectKey: Kind.SUBJECT_RESTORED,
    ClearSubjectKey: Kind.SUBJECT_UNCLEARED,
    ConfigKey: Kind.CONFIG_DELETED,
    ModeKey: Kind.MODE_DELETED,
    ContextKey: Kind.CONTEXT_DELETED,
    AssociationKey: Kind.ASSOCIATION_DELETED,
}

# Our own no-ops that have events.
_MARKERS = {
    BARRIER: Kind.EPOCH_STARTED,
    SNAPSHOT: Kind.SNAPSHOT_REQUESTED,
    RESEED: Kind.LOG_RESEEDED,
}
