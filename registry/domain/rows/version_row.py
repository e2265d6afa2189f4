"""Version rows: a fixed header and the ready body of ``GET /schemas/ids/{id}``, in pieces.

All other schema entities are spliced from the pieces without parsing.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import orjson

from .layout import VERSION
from .view import View

# The property that marks metadata with encrypted sensitive properties, and its form in records and rows.
ENCODED_PROPERTY = "__enc__"
ENCODED_MARK = b'"__enc__":"true"'
_METADATA = len(b',"metadata":')

_HEADER = struct.Struct(">iBqq16s6I")
# Offset of the ready body in a version row.
BODY = _HEADER.size

DELETED, OWN_DELETED, _MD5_STORED = 1, 2, 4
# Packs a version row's header: id, flags, offset, time, MD5, and the ends of the six pieces.
pack_header = _HEADER.pack
# Offset of the byte of flags in a version row, after the id.
_FLAGS = 4
# Offset of the MD5: after the id, the flags, the offset and the time.
_CONTENT = 21
_PLACES = struct.Struct(">4I")  # the first four of the six ends
_TYPE = len(b',"guid":"00000000-0000-0000-0000-000000000000","schemaType":')


def is_encoded(metadata: bytes, *, md5_stored: bool) -> bool:
    """Return true if the metadata of a version row is encrypted.

    Confluent's encoder always stores ``md5``; without that, ``__enc__`` is a property that a client sent.
    """
    if not md5_stored or ENCODED_MARK not in metadata:
        return False
    members = orjson.loads(metadata[_METADATA:])
    return bool(members.get("sensitive")) and members.get("properties", {}).get(ENCODED_PROPERTY) == "true"


def id_of(value: bytes) -> int:
    """Return the id in a version row without unpacking the rest."""
    return int.from_bytes(value[:_FLAGS], "big", signed=True)


def offset_of(value: bytes) -> int:
    """Return the offset of the record behind a version row without unpacking the rest."""
    return int.from_bytes(value[_FLAGS + 1 : _FLAGS + 9], "big")


def md5_of(value: bytes) -> bytes:
    """Return the MD5 of the content in a version row without unpacking the rest."""
    return value[_CONTENT : _CONTENT + 16]


def is_deleted(value: bytes) -> bool:
    """Return true if readers see the version row as soft-deleted, without unpacking the rest."""
    return value[_FLAGS] & DELETED != 0


def type_of(value: bytes) -> bytes:
    """Return the type in a version row, as JSON with its quotes, without unpacking the rest."""
    head, kind = _PLACES.unpack_from(value, _CONTENT + 16)[:2]
    return value[BODY + head + _TYPE : BODY + kind]


def plain_content_of(value: bytes) -> tuple[bytes, bytes] | None:
    """Return the type, as JSON, and the MD5 of a version row without unpacking the rest.

    Return None if the row has references or its record stored an MD5, which may then cover more than the
    text.
    """
    head, kind, schema, references = _PLACES.unpack_from(value, _CONTENT + 16)
    if value[_FLAGS] & _MD5_STORED or references > schema:
        return None
    return value[BODY + head + _TYPE : BODY + kind], value[_CONTENT : _CONTENT + 16]


def same_content(one: bytes, other: bytes) -> bool:
    """Return true if two version rows hold the same schema; ids, offsets and times do not count."""
    end = BODY + int.from_bytes(one[BODY - 4 : BODY], "big")
    return one[_CONTENT:end] == other[_CONTENT:end]


def state_of(value: bytes) -> int:
    """Return a 64-bit hash of a version row's content and its record's offset."""
    end = BODY + int.from_bytes(value[BODY - 4 : BODY], "big")
    return hash((value[_FLAGS + 1 : _FLAGS + 9], value[_CONTENT:end]))


def changes_revision(view: View, key: bytes, value: bytes | None, old: bytes | None) -> bool:
    """Return true if changing a row from ``old`` to ``value`` changes :meth:`View.revision`."""
    if value is None or not key.startswith(VERSION):
        return False
    if old is not None:
        return not same_content(old, value)
    following = view.seek(key + b"\0")
    return following is not None and following[0].startswith(key[:-4])


def with_deleted(value: bytes, deleted: bool) -> bytes:
    """Return a version row with the soft deletion that readers see set or removed."""
    flags = value[_FLAGS] | DELETED if deleted else value[_FLAGS] & ~DELETED
    ready, _, _ = value.rpartition(b":")
    end = b":true}" if deleted else b":false}"
    return b"".join((ready[:_FLAGS], bytes((flags,)), ready[_FLAGS + 1 :], end))


def is_own_deleted(value: bytes) -> bool:
    """Return true if a version row's own record marks it as soft-deleted."""
    return bool(value[_FLAGS] & OWN_DELETED)


def pack_version(
    schema_id: int,
    deleted: bool,
    own_deleted: bool,
    offset: int,
    ts: int,
    md5: bytes,
    head: bytes,
    kind: bytes,
    schema: bytes,
    references: bytes,
    metadata: bytes,
    rules: bytes,
    md5_stored: bool,
) -> bytes:
    """Return the value of a version row with the fields of :class:`VersionRow`."""
    a = len(head)
    b = a + len(kind)
    c = b + len(schema)
    d = c + len(references)
    e = d + len(metadata)
    f = e + len(rules)
    flags = deleted * DELETED | own_deleted * OWN_DELETED | md5_stored * _MD5_STORED
    return b'%b%b%b%b%b%b%b,"ts":%d,"deleted":%b}' % (
        pack_header(schema_id, flags, offset, ts, md5, a, b, c, d, e, f),
        head, kind, schema, references, metadata, rules, ts, b"true" if deleted else b"false",
    )  # fmt: skip


class VersionRow(NamedTuple):
    """A registered version. JSON pieces keep their leading comma and name, so entities are concatenations."""

    schema_id: int
    # As readers see it: set by the record itself or by a later delete mark.
    deleted: bool
    # As the version's own record has it.
    own_deleted: bool
    offset: int
    # Time of the record, in ms since the epoch.
    ts: int
    md5: bytes
    # ``{"subject":…,"version":…``
    head: bytes
    # ``,"guid":…,"schemaType":…``
    kind: bytes
    # ``,"schema":…``
    schema: bytes
    # ``,"references":[…]`` or empty.
    references: bytes
    # ``,"metadata":{…}`` or empty.
    metadata: bytes
    # ``,"ruleSet":{…}`` or empty.
    rules: bytes
    # True if the record stored its ``md5``; a record that repeats it must store it, too.
    md5_stored: bool = False

    def pack(self) -> bytes:
        """Return the row's value."""
        return pack_version(*self)

    @property
    def tail(self) -> bytes:
        """``,"ts":…,"deleted":…}``."""
        return b',"ts":%d,"deleted":%s}' % (self.ts, b"true" if self.deleted else b"false")

    @classmethod
    def unpack(cls, value: bytes) -> VersionRow:
        """Return the row whose value is ``value``."""
        schema_id, flags, offset, ts, md5, a, b, c, d, e, f = _HEADER.unpack_from(value)
        body = value[BODY:]
        return cls(
            schema_id, bool(flags & DELETED), bool(flags & OWN_DELETED), offset, ts, md5,
            body[:a], body[a:b], body[b:c], body[c:d], body[d:e], body[e:f],
            bool(flags & _MD5_STORED),
        )  # fmt: skip
