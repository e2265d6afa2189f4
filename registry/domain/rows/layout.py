"""Rows: the tables of the store, the order of their keys, and the bytes of a version row.

Every row is one key and one value in a single ordered key space; a key begins with the letter of its table.

====== ==================================== ==================================================
table  key after the letter                 value
====== ==================================== ==================================================
``A``  context subject hash(record key)     association: the record's JSON
``B``  registrar name                       our cluster records (barrier …): JSON with offset, ts
``C``  context subject                      clear: offset of the scope's last ``CLEAR_SUBJECT``
``D``  context subject                      last delete mark: offset and version, see :mod:`.fold`
``E``  context subject version              empty; the version's sensitive metadata is encrypted
``F``  context subject                      config: the record's JSON
``G``  context md5 subject version          id
``I``  context id offset subject version    empty; the first row of an id is the one that reads see
``K``  key of the row it stands for         its record key, where others wrote it in other bytes than ours
``M``  context subject                      mode, upper case; where the key is cut, a blank and the full name
``N``  context                              highest reserved id
``Q``  key of the row it stands for         quarantine: JSON with offset, ts, reason, key
``Q``  ``?`` hash(record key)               the same for a key that cannot be read
``R``  context subject version (referenced) empty; then context subject version of the referrer
``S``  resource's name, namespace           empty; then the rest of the key of the association's row
``U``  resource's id                        empty; then the rest of the key of the association's row
``V``  context subject version              version row, below
``X``  context                              the context exists; its full name where the key is cut, else empty
====== ==================================== ==================================================

A key names its owner, so no two owners share a row. Text in keys keeps its order and ends with a zero byte; a
part longer than :data:`PART_MAX` bytes is cut and carries a hash, because LMDB's keys end at 511 bytes, and
the full name is then read from the row's value. Ids and versions are packed by :func:`number`, offsets are 8
bytes, all big-endian.

A version row is a fixed header and the ready body of ``GET /schemas/ids/{id}``, cut into pieces from which
every other schema entity is spliced without parsing.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Hashable, Iterator
from typing import NamedTuple, Protocol

import orjson

from registry.domain.model import Subject

from .blocks import Block

# A put (key, value) or, with ``None``, a delete of one row.
Change = tuple[bytes, bytes | None]

PART_MAX = 120
PART_CUT = 84  # how many bytes of a longer part are kept
CUT_MARK = b"\x01\xff"

ASSOCIATION, CLUSTER, CLEAR, DELETE_MARK, CONFIG = b"A", b"B", b"C", b"D", b"F"
GUID, ID, FOREIGN, MODE, RESERVATION, QUARANTINE = b"G", b"I", b"K", b"M", b"N", b"Q"
REFERRER, VERSION, CONTEXT, ENCODED = b"R", b"V", b"X", b"E"
RESOURCE_NAME, RESOURCE_ID = b"S", b"U"
_UNREADABLE = b"?"
# The property that marks metadata with encrypted sensitive properties, and its form in records and rows.
ENCODED_PROPERTY = "__enc__"
ENCODED_MARK = b'"__enc__":"true"'
_METADATA = len(b',"metadata":')


class View(Protocol):
    """Read-only access to the rows at one moment."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        ...

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        ...

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last row whose key is less than ``key``."""
        ...

    def revision(self) -> Hashable | None:
        """Return a value that changes if a version is put below its subject's top or gets other content.

        While it stays the same, a subject whose version N is unchanged has the same versions below N as
        before.
        ``None``: unknown.
        """
        ...

    def block(self, key: bytes) -> Block | None:
        """Return the block of version rows that holds ``key``; ``None`` if versions are not counted."""
        ...


def scan(view: View, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, ascending, from ``start`` on."""
    row = view.seek(prefix if start is None else start)
    while row is not None and row[0].startswith(prefix):
        yield row
        row = view.seek(row[0] + b"\0")


def scan_back(view: View, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose key begins with ``prefix``, descending."""
    row = view.seek_back(after(prefix))
    while row is not None and row[0].startswith(prefix):
        yield row
        row = view.seek_back(row[0])


def after(prefix: bytes) -> bytes:
    """Return the least key greater than every key that begins with ``prefix``."""
    start = prefix.rstrip(b"\xff")
    return start[:-1] + bytes((start[-1] + 1,))


def together(key: bytes) -> bytes:
    """Return the prefix of a version row's key that is common to all rows which must share a block."""
    name = key.index(b"\0") + 1
    return key[: min(key.index(b"\0", name), name + PART_CUT)]


def part(text: str) -> bytes:
    """Return ``text`` as a key part: order preserved, zero-terminated, at most ``PART_MAX`` + 1 bytes."""
    raw = text.encode()
    if b"\0" in raw or b"\x01" in raw:
        raw = raw.replace(b"\x01", b"\x01\x02").replace(b"\0", b"\x01\x01")
    if len(raw) > PART_MAX:
        raw = raw[:PART_CUT] + CUT_MARK + hashlib.blake2b(text.encode(), digest_size=16).hexdigest().encode()
    return raw + b"\0"


def part_prefix(text: str) -> bytes:
    """Return a common prefix of the parts of all texts that begin with ``text``; others may share it."""
    return part(text)[:-1][:PART_CUT]


def is_cut(key: bytes) -> bool:
    """Return true if a key holds a cut part."""
    return CUT_MARK in key


def unpart(raw: bytes) -> str | None:
    """Return the text of a part without its terminator; ``None`` if it was cut."""
    if CUT_MARK in raw:
        return None
    return raw.replace(b"\x01\x01", b"\0").replace(b"\x01\x02", b"\x01").decode()


def number(value: int) -> bytes:
    """Return a signed 32-bit integer as four bytes with the same order."""
    return ((value + 0x80000000) & 0xFFFFFFFF).to_bytes(4, "big")


def unnumber(raw: bytes) -> int:
    """Return the integer that :func:`number` packed."""
    return int.from_bytes(raw, "big") - 0x80000000


def scope_key(table: bytes, subject: Subject) -> bytes:
    """Return the key of a row unique to a subject or context (tables C, D, F, M), or a prefix (A, V)."""
    return table + part(subject.context) + part(subject.name)


def context_key(table: bytes, context: str) -> bytes:
    """Return the key of a context's row (tables N and X), or the prefix of its rows in any other table."""
    return table + part(context)


def cluster_key(registrar: str) -> bytes:
    """Return the key of one of our own records about the whole cluster."""
    return CLUSTER + part(registrar)


def context_row(context: str) -> bytes:
    """Return the value of a context's row."""
    return context.encode() if CUT_MARK in part(context) else b""


def version_key(subject: Subject, version: int) -> bytes:
    """Return the key of a version row."""
    return scope_key(VERSION, subject) + number(version)


def id_prefix(context: str, schema_id: int) -> bytes:
    """Return the prefix of all rows of one id."""
    return ID + part(context) + number(schema_id)


def id_key(subject: Subject, version: int, schema_id: int, offset: int) -> bytes:
    """Return the key of an id row."""
    return (
        id_prefix(subject.context, schema_id)
        + offset.to_bytes(8, "big")
        + part(subject.name)
        + number(version)
    )


def without_offset(key: bytes) -> bytes:
    """Return the key of an id row without the offset in it."""
    after_id = key.index(b"\0") + 5
    return key[:after_id] + key[after_id + 8 :]


def version_key_of_id(key: bytes, prefix: bytes, context: bytes) -> bytes:
    """Return the key of the version row to which an id row points; ``context`` is the packed part."""
    return VERSION + context + key[len(prefix) + 8 :]


def guid_prefix(context: str, md5: bytes) -> bytes:
    """Return the prefix of all rows of one schema content in a context."""
    return GUID + part(context) + md5


def guid_key(subject: Subject, version: int, md5: bytes) -> bytes:
    """Return the key of a content row."""
    return guid_prefix(subject.context, md5) + part(subject.name) + number(version)


def referrer_prefix(subject: Subject, version: int) -> bytes:
    """Return the prefix of the rows of all versions that refer to one version."""
    return REFERRER + part(subject.context) + part(subject.name) + number(version)


def referrer_key(referenced: Subject, referenced_version: int, subject: Subject, version: int) -> bytes:
    """Return the key of a referrer row."""
    owner = part(subject.context) + part(subject.name) + number(version)
    return referrer_prefix(referenced, referenced_version) + owner


def quarantine_key(key: bytes) -> bytes:
    """Return the key of the quarantine row for the row ``key``, whose record has a bad value."""
    return QUARANTINE + key


def foreign_key(key: bytes, record_key: bytes) -> bytes:
    """Return the key of the row that keeps foreign bytes of a record key, which stand for the row ``key``."""
    return FOREIGN + key + hashlib.blake2b(record_key, digest_size=16).digest()


def unreadable_key(record_key: bytes | None) -> bytes:
    """Return the key of the quarantine row of a record whose key cannot be read."""
    if record_key is None:
        return QUARANTINE + _UNREADABLE
    return QUARANTINE + _UNREADABLE + hashlib.blake2b(record_key, digest_size=16).digest()


def association_key(subject: Subject, record_key: bytes) -> bytes:
    """Return the key of an association's row; ``record_key`` is canonical."""
    return scope_key(ASSOCIATION, subject) + hashlib.blake2b(record_key, digest_size=16).digest()


def resource_name_prefix(name: str, namespace: str | None = None) -> bytes:
    """Return the prefix of the association rows of a resource by name; in all namespaces if none is given."""
    return RESOURCE_NAME + part(name) + (b"" if namespace is None else part(namespace))


def resource_id_prefix(resource_id: str) -> bytes:
    """Return the prefix of the association rows of a resource by id."""
    return RESOURCE_ID + part(resource_id)


def namespace_of(key: bytes) -> bytes:
    """Return the packed namespace in a row of table S."""
    return key.split(b"\0", 2)[1] + b"\0"


def resource_of(key: bytes) -> bytes:
    """Return the prefix of all rows of table S with the same resource name and namespace."""
    name, namespace, _ = key.split(b"\0", 2)
    return name + b"\0" + namespace + b"\0"


def association_of(key: bytes) -> bytes:
    """Return the key of the association's row to which a row of table S or U points."""
    named = 2 if key.startswith(RESOURCE_NAME) else 1
    return ASSOCIATION + key.split(b"\0", named)[named]


def owner_of(key: bytes) -> bytes:
    """Return the packed subject or context that a row belongs to; ``b""`` for the cluster."""
    table, rest = key[:1], key[1:]
    if table in (QUARANTINE, FOREIGN):
        return owner_of(rest)
    if table in (CLUSTER, _UNREADABLE):
        return b""
    context, _, after_context = rest.partition(b"\0")
    if table in (RESERVATION, CONTEXT):
        return context + b"\0\0"
    if table in (ID, GUID):
        return context + b"\0" + after_context[12 if table == ID else 16 : -4]
    if table in (RESOURCE_NAME, RESOURCE_ID):
        return owner_of(association_of(key))
    name, _, after_name = after_context.partition(b"\0")
    return after_name[4:-4] if table == REFERRER else context + b"\0" + name + b"\0"


def mode_row(subject: Subject, mode: str) -> bytes:
    """Return the value of a mode row."""
    cut = CUT_MARK in scope_key(MODE, subject)
    return f"{mode} {subject.qualified}".encode() if cut else mode.encode()


def mode_of(value: bytes) -> str:
    """Return the mode that a mode row holds."""
    return value.partition(b" ")[0].decode()


def scope_of(key: bytes, value: bytes) -> Subject:
    """Return the subject or context whose config or mode row this is."""
    context, name = (unpart(each) for each in key[1:-1].split(b"\0"))
    if context is not None and name is not None:
        return Subject(context, name)
    if key.startswith(MODE):
        return Subject.parse(value.partition(b" ")[2].decode())
    return Subject.parse(orjson.loads(value).get("subject", ""))


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
    said = orjson.loads(metadata[_METADATA:])
    return bool(said.get("sensitive")) and said.get("properties", {}).get(ENCODED_PROPERTY) == "true"


def id_of(value: bytes) -> int:
    """Return the id in a version row without unpacking the rest."""
    return int.from_bytes(value[:_FLAGS], "big", signed=True)


def offset_of(value: bytes) -> int:
    """Return the offset of the record behind a version row without unpacking the rest."""
    return int.from_bytes(value[_FLAGS + 1 : _FLAGS + 9], "big")


def is_deleted(value: bytes) -> bool:
    """Return true if readers see the version row as soft-deleted, without unpacking the rest."""
    return bool(value[_FLAGS] & DELETED)


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


def disturbs(view: View, key: bytes, value: bytes | None, old: bytes | None) -> bool:
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
        schema_id, flags, offset, ts, md5, *ends = _HEADER.unpack_from(value)
        a, b, c, d, e, f = (BODY + end for end in ends)
        return cls(
            schema_id, bool(flags & DELETED), bool(flags & OWN_DELETED), offset, ts, md5,
            value[BODY:a], value[a:b], value[b:c], value[c:d], value[d:e], value[e:f],
            bool(flags & _MD5_STORED),
        )  # fmt: skip
