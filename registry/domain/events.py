"""Events: the entries of the change feed, each derived from one record, and the filter of a listener.

It follows the fold (:mod:`registry.domain.fold.fold`): a record is quarantined here if it is there, and an
empty value and JSON's ``null`` mean the same as a tombstone. It does not know if a record changed any row: a
tombstone of what never existed is an event, too.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import orjson

from registry.domain.log_format import subject_values, usage, values, webhooks
from registry.domain.log_format.headers import unpack_principal
from registry.domain.log_format.records import (
    BARRIER,
    CENSUS,
    POSITION,
    RESEED,
    SNAPSHOT,
    USAGE,
    WEBHOOK,
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
from registry.domain.model import Subject
from registry.domain.queries.subject_order import Prefix


class Kind(StrEnum):
    """The kinds of events, by what the record says; a kind never changes its name."""

    # A version is registered, or its record is written again: restored, or with other tags.
    VERSION_REGISTERED = "version_registered"
    VERSION_SOFT_DELETED = "version_soft_deleted"
    VERSION_DELETED = "version_deleted"
    # All versions up to ``version`` are soft-deleted.
    SUBJECT_SOFT_DELETED = "subject_soft_deleted"
    # The mark of such a delete is removed; only other registries do that.
    SUBJECT_RESTORED = "subject_restored"
    # Versions that were soft-deleted before are forgotten; and the removal of that mark.
    SUBJECT_CLEARED = "subject_cleared"
    SUBJECT_UNCLEARED = "subject_uncleared"
    CONFIG_SET = "config_set"
    CONFIG_DELETED = "config_deleted"
    MODE_SET = "mode_set"
    MODE_DELETED = "mode_deleted"
    CONTEXT_CREATED = "context_created"
    CONTEXT_DELETED = "context_deleted"
    ASSOCIATION_SET = "association_set"
    ASSOCIATION_DELETED = "association_deleted"
    # A node became primary; the offset is its epoch.
    EPOCH_STARTED = "epoch_started"
    SNAPSHOT_REQUESTED = "snapshot_requested"
    # The end of the records that continue another log.
    LOG_RESEEDED = "log_reseeded"
    # The record makes no sense, and what its key held before is gone.
    QUARANTINED = "quarantined"


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the change feed. Members unknown for a record are absent.

    A record with a context and no subject is about the context itself, in the default context also about the
    top level; one with neither is about the cluster.
    """

    offset: int
    # When the record was appended, in ms since the epoch.
    time: int
    kind: Kind
    context: str | None = None
    # The qualified name; absent for the context itself.
    subject: str | None = None
    version: int | None = None
    id: int | None = None
    # The schema's type.
    type: str | None = None
    # The compatibility level that a config sets.
    level: str | None = None
    mode: str | None = None
    resource_name: str | None = msgspec.field(default=None, name="resourceName")
    resource_namespace: str | None = msgspec.field(default=None, name="resourceNamespace")
    resource_type: str | None = msgspec.field(default=None, name="resourceType")
    association_type: str | None = msgspec.field(default=None, name="associationType")
    # Why the record is quarantined.
    reason: str | None = None
    # The name of the user or service whose request wrote the record.
    principal: str | None = None

    @property
    def owner(self) -> Subject | None:
        """The subject or context that the event is about; ``None``: the cluster."""
        if self.subject is not None:
            return Subject.parse(self.subject)
        return None if self.context is None else Subject(self.context, "")


# Prints an event as JSON, without absent members; and reads it again.
encode_event = msgspec.json.Encoder().encode
decode_event = msgspec.json.Decoder(Event).decode


class Filter(NamedTuple):
    """The events that a listener wants: of some kinds, and of the subjects under a prefix.

    Hashable, so that listeners with the same filter share what is made for it.
    """

    # ``None``: all kinds.
    kinds: frozenset[Kind] | None = None
    # ``None``: all subjects, contexts and the cluster. A context has the empty name: a prefix matches it if
    # it matches all of its subjects.
    subjects: Prefix | None = None

    def admits(self, event: Event) -> bool:
        """Return true if the listener wants the event."""
        if self.kinds is not None and event.kind not in self.kinds:
            return False
        if self.subjects is None:
            return True
        owner = event.owner
        return owner is not None and self.subjects.admits(owner)


def parse_kinds(names: list[str]) -> frozenset[Kind]:
    """Return the kinds of these names. Raises :class:`ValueError` for a name that is none."""
    return frozenset(map(Kind, names))


EVERYTHING = Filter()


_DELETES = (None, b"", b"null")
# The members of an event, by name.
_Members = dict[str, Any]


def event_of(record: Record) -> Event | None:
    """Return the event of a record; ``None`` if it says nothing to users.

    These are reservations of ids, webhooks and their positions, usage and the census, no-ops of other
    writers, and deletes of keys that cannot be read.
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
    config = orjson.loads(subject_values.read_config(key.subject, _value(record)))
    return {"kind": Kind.CONFIG_SET, "level": config.get("compatibilityLevel")}


def _mode(key: ModeKey, record: Record) -> _Members:
    return {"kind": Kind.MODE_SET, "mode": subject_values.read_mode(_value(record))}


def _context(key: ContextKey, record: Record) -> _Members:
    values.read_object(_value(record))
    return {"kind": Kind.CONTEXT_CREATED}


def _association(key: AssociationKey, record: Record) -> _Members:
    subject_values.read_association(key, _value(record), record.ts)
    return {"kind": Kind.ASSOCIATION_SET}


def _noop(key: NoopKey, record: Record) -> _Members:
    if key.context is not None:
        values.read_reservation(_value(record))
    check = _CHECKS.get(key.registrar or "")
    if check is not None:
        check(key, _value(record))
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

# Our own no-ops whose values have a form, and need no event unless they break it.
_CHECKS: dict[str, Callable[[NoopKey, bytes], None]] = {
    WEBHOOK: webhooks.check,
    POSITION: webhooks.check,
    USAGE: usage.check,
    CENSUS: usage.check,
}

# Our own no-ops that have events.
_MARKERS = {
    BARRIER: Kind.EPOCH_STARTED,
    SNAPSHOT: Kind.SNAPSHOT_REQUESTED,
    RESEED: Kind.LOG_RESEEDED,
}
