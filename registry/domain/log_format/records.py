"""Keys of the log's records, byte for byte as Confluent's Schema Registry writes them.

Keys are here, values in :mod:`.values`. Both are compact JSON with a fixed order of members. A key holds no
nulls or empty texts, so an empty subject is left out. Compaction compares the bytes of keys. Keys with the
same meaning but other bytes (other order, older magic) are read alike; *canonical* bytes are those written
here.

Our own records are ``NOOP`` keys with an additional member. Other readers skip every ``NOOP`` of magic 0.
They write a bare one at each start, which must not replace ours in compaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from registry.domain.model import TOP, VERSION_MAX, Subject

from .jackson import dumps


class Record(NamedTuple):
    """A record of the log as it was read."""

    offset: int
    # When it was appended, in ms since the epoch.
    ts: int
    key: bytes | None
    value: bytes | None
    # Whose request wrote it, see :mod:`.headers`; empty if unknown.
    principal: bytes = b""


class Entry(NamedTuple):
    """A key and value to append; a value of ``None`` is a tombstone."""

    key: bytes
    value: bytes | None
    # Whose request it is, see :mod:`.headers`; empty: nobody's, or unknown.
    principal: bytes = b""


class AppendedBatch(NamedTuple):
    """An append, for other processes that follow the same log."""

    packed: bytes
    # In which leader epoch the log took it; -1: unknown. Within one, a log loses no records.
    epoch: int


class SchemaKey(NamedTuple):
    """The key of a version of a subject."""

    subject: Subject
    version: int


class ConfigKey(NamedTuple):
    """The key of the config of a subject, a context or the top level."""

    subject: Subject


class ModeKey(NamedTuple):
    """The key of the mode of a subject, a context or the top level."""

    subject: Subject


class DeleteSubjectKey(NamedTuple):
    """The key of the soft delete of all versions of a subject up to a given one."""

    subject: Subject


class ClearSubjectKey(NamedTuple):
    """The key of a clear, which makes the registry forget earlier soft-deleted versions in its scope."""

    subject: Subject


class ContextKey(NamedTuple):
    """The key of a context, whose record shows that the context exists."""

    context: str


class AssociationKey(NamedTuple):
    """The key of the association of a resource with a subject; ``None`` for absent members."""

    subject: Subject
    resource_name: str | None
    resource_namespace: str | None
    resource_type: str | None
    association_type: str | None


class NoopKey(NamedTuple):
    """The key of a no-op: bare, or our own and named by ``registrar``."""

    registrar: str | None
    # Only for ``ids``.
    context: str | None
    # Only for a webhook and its position, and for the usage of a source.
    name: str | None = None
    # Only for the usage of a source: which part of it; the first is 0.
    part: int = 0


Key = (
    SchemaKey
    | ConfigKey
    | ModeKey
    | DeleteSubjectKey
    | ClearSubjectKey
    | ContextKey
    | AssociationKey
    | NoopKey
)


class UnreadableKey(Exception):
    """Raised for a key that is broken, or of an unknown type or magic."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# Our own records: start of an epoch, reservation of ids in a context, marker of a snapshot, and the end of
# the records that continue another log (:mod:`.reseed`).
BARRIER, IDS, SNAPSHOT, RESEED = "barrier", "ids", "snapshot", "reseed"
# A webhook, and its position in the log: two records, because the position changes with every delivery.
WEBHOOK, POSITION = "webhook", "webhook-position"
# What messages of a source of data use (in parts, because records are limited in size), and the census that
# counted it. Releases before fold version 5 skip both.
USAGE, CENSUS = "usage", "census"
USAGE_PARTS_MAX = 1_000

# The only tenant of the open-source server; records of other tenants are ignored.
TENANT = "default"


def decode_key(raw: bytes | None) -> Key:
    """Return the key that ``raw`` stands for, in any order of members; unknown members are ignored.

    An absent subject is the top level. Raises only :class:`UnreadableKey`, for all other bytes.
    """
    fields = _members(raw)
    keytype = fields.get("keytype")
    if type(keytype) is not str:
        raise UnreadableKey("the key has no keytype")
    read = _READERS.get(keytype)
    if read is None:
        raise UnreadableKey(f"unknown keytype {keytype[:60]!r}")
    magic = fields.get("magic", 0)
    if type(magic) is not int or (magic != 0 and not (magic == 1 and keytype == "SCHEMA")):
        raise UnreadableKey(f"unknown magic of a {keytype} key")
    return read(fields)


def _members(raw: bytes | None) -> dict[str, Any]:
    if raw is None:
        raise UnreadableKey("no key")
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise UnreadableKey("the key is not JSON") from None
    if type(fields) is not dict:
        raise UnreadableKey("the key is not a JSON object")
    return fields


def _text(fields: dict[str, Any], name: str) -> str | None:
    """Return a member's text; ``None`` if it is absent or empty, which mean the same in a key."""
    value = fields.get(name)
    if value is None or type(value) is str:
        return value or None
    raise UnreadableKey(f"the key's {name} is not a string")


def _subject(fields: dict[str, Any]) -> Subject:
    text = _text(fields, "subject")
    return TOP if text is None else Subject.parse(text)


def _read_schema(fields: dict[str, Any]) -> Key:
    version = fields.get("version")
    if type(version) is not int or not 1 <= version <= VERSION_MAX:
        raise UnreadableKey("the key's version is not a version number")
    return SchemaKey(_subject(fields), version)


def _read_context(fields: dict[str, Any]) -> Key:
    return ContextKey(_context_name(_of_our_tenant(fields)))


def _context_name(fields: dict[str, Any]) -> str:
    context = _text(fields, "context")
    if context is None or not context.startswith(".") or ":" in context:
        raise UnreadableKey("the key's context is not a context's name")
    return context


def _of_our_tenant(fields: dict[str, Any]) -> dict[str, Any]:
    if (_text(fields, "tenant") or TENANT) != TENANT:
        raise UnreadableKey("the key belongs to another tenant")
    return fields


def _read_association(fields: dict[str, Any]) -> Key:
    names = ("resourceName", "resourceNamespace", "resourceType", "associationType")
    name, namespace, kind, association = (_text(_of_our_tenant(fields), each) for each in names)
    return AssociationKey(_subject(fields), name, namespace, kind, association)


def _read_noop(fields: dict[str, Any]) -> Key:
    registrar = _text(fields, "registrar")
    if registrar in (WEBHOOK, POSITION):
        name = _text(fields, "name")
        if name is None:
            raise UnreadableKey("the key has no webhook's name")
        return NoopKey(registrar, None, name)
    if registrar == USAGE:
        name, number = _text(fields, "name"), fields.get("part", 0)
        if name is None or type(number) is not int or not 0 <= number < USAGE_PARTS_MAX:
            raise UnreadableKey("the key has no source's name, or not the number of a part")
        return NoopKey(registrar, None, name, number)
    return NoopKey(registrar, _context_name(fields) if registrar == IDS else None)


_READERS: dict[str, Callable[[dict[str, Any]], Key]] = {
    "SCHEMA": _read_schema,
    "CONFIG": lambda fields: ConfigKey(_subject(fields)),
    "MODE": lambda fields: ModeKey(_subject(fields)),
    "DELETE_SUBJECT": lambda fields: DeleteSubjectKey(_subject(fields)),
    "CLEAR_SUBJECT": lambda fields: ClearSubjectKey(_subject(fields)),
    "CONTEXT": _read_context,
    "ASSOC": _read_association,
    "NOOP": _read_noop,
}


def schema_key(subject: Subject, version: int) -> bytes:
    """Return the key of a version."""
    return b'{"keytype":"SCHEMA"%s,"version":%d,"magic":1}' % (_subject_member(subject), version)


def config_key(subject: Subject) -> bytes:
    """Return the key of a config."""
    return b'{"keytype":"CONFIG"%s,"magic":0}' % _subject_member(subject)


def mode_key(subject: Subject) -> bytes:
    """Return the key of a mode."""
    return b'{"keytype":"MODE"%s,"magic":0}' % _subject_member(subject)


def delete_subject_key(subject: Subject) -> bytes:
    """Return the key of a subject's soft delete."""
    return b'{"keytype":"DELETE_SUBJECT"%s,"magic":0}' % _subject_member(subject)


def clear_subject_key(subject: Subject) -> bytes:
    """Return the key of a clear."""
    return b'{"keytype":"CLEAR_SUBJECT"%s,"magic":0}' % _subject_member(subject)


def context_key(context: str) -> bytes:
    """Return the key of a context's existence."""
    return b'{"keytype":"CONTEXT","tenant":"default","context":%s,"magic":0}' % dumps(context)


def association_key(key: AssociationKey) -> bytes:
    """Return the key of an association."""
    members = {
        "keytype": "ASSOC",
        "tenant": TENANT,
        "resourceName": key.resource_name,
        "resourceNamespace": key.resource_namespace,
        "resourceType": key.resource_type,
        "associationType": key.association_type,
        "subject": key.subject.qualified,
    }
    return dumps({name: value for name, value in members.items() if value} | {"magic": 0})


NOOP_KEY = b'{"keytype":"NOOP","magic":0}'
BARRIER_KEY = b'{"keytype":"NOOP","magic":0,"registrar":"barrier"}'
SNAPSHOT_KEY = b'{"keytype":"NOOP","magic":0,"registrar":"snapshot"}'
RESEED_KEY = b'{"keytype":"NOOP","magic":0,"registrar":"reseed"}'
CENSUS_KEY = b'{"keytype":"NOOP","magic":0,"registrar":"census"}'


def reservation_key(context: str) -> bytes:
    """Return the key of the highest reserved id of a context."""
    return b'{"keytype":"NOOP","magic":0,"registrar":"ids","context":%s}' % dumps(context)


# Stands between a context and the last id of a free range.
FREE_RANGE_MARK = "\t"


def free_range_name(context: str, last: int) -> str:
    """Return what a reservation names in place of its context if it is about the free range up to ``last``.

    No context is created with a control character in its name. So all releases fold these records alike, and
    those that do not know free ranges never use them.
    """
    return f"{context}{FREE_RANGE_MARK}{last:010}"


def webhook_key(name: str) -> bytes:
    """Return the key of a webhook."""
    return noop_key(NoopKey(WEBHOOK, None, name))


def position_key(name: str) -> bytes:
    """Return the key of a webhook's position."""
    return noop_key(NoopKey(POSITION, None, name))


def usage_key(source: str, number: int = 0) -> bytes:
    """Return the key of one part of the usage of a source."""
    return noop_key(NoopKey(USAGE, None, source, number))


def noop_key(key: NoopKey) -> bytes:
    """Return the key of a no-op, bare or of our own."""
    if key.registrar is None:
        return NOOP_KEY
    if key.context is not None:
        return reservation_key(key.context)
    name = b"" if key.name is None else b',"name":' + dumps(key.name)
    number = b',"part":%d' % key.part if key.part else b""
    return b'{"keytype":"NOOP","magic":0,"registrar":%s%s%s}' % (dumps(key.registrar), name, number)


def canonical_key(key: Key) -> bytes:
    """Return the bytes under which this registry writes ``key``, such that :func:`decode_key` reverses it."""
    return _WRITERS[type(key)](key)


def _subject_member(subject: Subject) -> bytes:
    text = subject.qualified
    return b',"subject":' + dumps(text) if text else b""


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    SchemaKey: lambda key: schema_key(key.subject, key.version),
    ConfigKey: lambda key: config_key(key.subject),
    ModeKey: lambda key: mode_key(key.subject),
    DeleteSubjectKey: lambda key: delete_subject_key(key.subject),
    ClearSubjectKey: lambda key: clear_subject_key(key.subject),
    ContextKey: lambda key: context_key(key.context),
    AssociationKey: association_key,
    NoopKey: noop_key,
}
