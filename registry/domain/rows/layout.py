"""The tables of the store, and the keys of their rows.

A row is a key and a value in a single ordered key space; the key begins with the letter of its table.

====== ==================================== ==================================================
table  key after the letter                 value
====== ==================================== ==================================================
``A``  context subject hash(record key)     association: the record's JSON
``B``  registrar name                       our cluster records (barrier …): JSON with offset, ts
``C``  context subject                      clear: offset of the scope's last ``CLEAR_SUBJECT``
``D``  context subject                      last delete mark: offset, version, time, see :mod:`.fold`
``E``  context subject version              empty; the version's sensitive metadata is encrypted
``F``  context subject                      config: the record's JSON
``G``  context md5 subject version          id
``H``  context id or guid, source part      how a source uses that schema: JSON
``I``  context id offset subject version    empty; the first row of an id is the one that reads see
``K``  key of the row it stands for         its record key, where others wrote it in other bytes than ours
``M``  context subject                      mode, upper case; where the key is cut, a blank and the full name
``N``  context                              highest reserved id
``N``  context tab last id                  highest reserved id of a free range, see :mod:`.id_space`
``P``  webhook's name                       its position in the log: JSON with offset, ts
``Q``  key of the row it stands for         quarantine: JSON with offset, ts, reason, key
``Q``  ``?`` hash(record key)               the same for a key that cannot be read
``R``  context subject version (referenced) empty; then context subject version of the referrer
``S``  resource's name, namespace           empty; then the rest of the key of the association's row
``T``  source part                          the usage of a source: JSON with source, part, offset, ts
``U``  resource's id                        empty; then the rest of the key of the association's row
``V``  context subject version              version row, see :mod:`.version_row`
``W``  webhook's name                       the webhook: JSON with name, offset, ts
``X``  context                              the context exists; its full name where the key is cut, else empty
====== ==================================== ==================================================

A key names its owner, so no two owners share a row. Text in keys keeps its order and ends with a zero byte.
A part longer than :data:`PART_MAX` bytes is cut and carries a hash, because LMDB's keys end at 511 bytes; the
full name is then read from the row's value. Ids and versions are packed by :func:`number`, offsets in 8
bytes, all big-endian.
"""

from __future__ import annotations

import hashlib
from struct import Struct

import orjson

from registry.domain.model import DEFAULT_CONTEXT, Subject

PART_MAX = 120
PART_CUT = 84  # how many bytes of a longer part are kept
CUT_MARK = b"\x01\xff"

ASSOCIATION, CLUSTER, CLEAR, DELETE_MARK, CONFIG = b"A", b"B", b"C", b"D", b"F"
GUID, ID, FOREIGN, MODE, RESERVATION, QUARANTINE = b"G", b"I", b"K", b"M", b"N", b"Q"
REFERRER, VERSION, CONTEXT, ENCODED = b"R", b"V", b"X", b"E"
RESOURCE_NAME, RESOURCE_ID = b"S", b"U"
WEBHOOK, POSITION = b"W", b"P"
SOURCE, USE = b"T", b"H"
_UNREADABLE = b"?"
_MARK, _FORMER_MARK = Struct(">qiq"), Struct(">qi")
# Later than any time: when a mark in a row of a former version of the fold was set.
UNKNOWN_TIME = 2**63 - 1


def after(prefix: bytes) -> bytes:
    """Return the least key greater than every key that begins with ``prefix``."""
    start = prefix.rstrip(b"\xff")
    return start[:-1] + bytes((start[-1] + 1,))


def together(key: bytes) -> bytes:
    """Return the beginning of a version row's key that its whole group has in common.

    A group is a subject, or the subjects whose keys begin alike as far as they are not cut: lists order those
    by their full names.
    """
    name = key.index(b"\0") + 1
    return key[: min(key.index(b"\0", name), name + PART_CUT)]


def together_end(key: bytes) -> bytes:
    """Return the least key greater than those of a version row's group."""
    name = key.index(b"\0") + 1
    end = key.index(b"\0", name)
    return key[:end] + b"\x01" if end - name < PART_CUT else after(key[: name + PART_CUT])


def is_version_key(boundary: bytes) -> bool:
    """Return true for the whole key of a version row, false for a beginning of one."""
    return boundary.find(b"\0", boundary.find(b"\0") + 1) > 0


def escape(raw: bytes) -> bytes:
    """Return bytes without the zero byte that ends key parts; their order is preserved."""
    return raw.replace(b"\x01", b"\x01\x02").replace(b"\0", b"\x01\x01")


def part(text: str) -> bytes:
    """Return ``text`` as a key part: order preserved, zero-terminated, at most ``PART_MAX`` + 1 bytes."""
    raw = text.encode()
    if b"\0" in raw or b"\x01" in raw:
        raw = escape(raw)
    if len(raw) > PART_MAX:
        raw = raw[:PART_CUT] + CUT_MARK + hashlib.blake2b(text.encode(), digest_size=16).hexdigest().encode()
    return raw + b"\0"


_DEFAULT_PART = part(DEFAULT_CONTEXT)


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
    context, name = subject
    return table + (_DEFAULT_PART if context == DEFAULT_CONTEXT else part(context)) + part(name)


def context_key(table: bytes, context: str) -> bytes:
    """Return the key of a context's row (tables N and X), or the prefix of its rows in any other table."""
    return table + part(context)


def cluster_key(registrar: str) -> bytes:
    """Return the key of one of our own records about the whole cluster."""
    return CLUSTER + part(registrar)


def webhook_key(table: bytes, name: str) -> bytes:
    """Return the key of a webhook's row in table W or P."""
    return table + part(name)


def source_key(source: str, number: int = 0) -> bytes:
    """Return the key of one part of the usage of a source."""
    return SOURCE + part(source) + number.to_bytes(4, "big")


def source_prefix(source: str) -> bytes:
    """Return the prefix of all parts of the usage of a source."""
    return SOURCE + part(source)


def use_prefix(context: str, reference: int | bytes) -> bytes:
    """Return the prefix of the rows of all sources that use an id, or the guid in 16 bytes, of a context."""
    named = b"i" + number(reference) if isinstance(reference, int) else b"g" + reference
    return USE + part(context) + named


def source_of(key: bytes) -> bytes:
    """Return the key of the source's row to which a row of table H points."""
    at = key.index(b"\0") + 1
    return SOURCE + key[at + (5 if key[at : at + 1] == b"i" else 17) :]


def context_row(context: str) -> bytes:
    """Return the value of a context's row."""
    return context.encode() if CUT_MARK in part(context) else b""


def version_key(subject: Subject, version: int) -> bytes:
    """Return the key of a version row."""
    return scope_key(VERSION, subject) + number(version)


def id_prefix(context: str, schema_id: int) -> bytes:
    """Return the prefix of all rows of one id."""
    return ID + (_DEFAULT_PART if context == DEFAULT_CONTEXT else part(context)) + number(schema_id)


def without_offset(key: bytes) -> bytes:
    """Return the key of an id row without the offset in it."""
    after_id = key.index(b"\0") + 5
    return key[:after_id] + key[after_id + 8 :]


def version_key_of_id(key: bytes, prefix: bytes) -> bytes:
    """Return the key of the version row to which an id row points; ``prefix``: that of its id."""
    return VERSION + prefix[1:-4] + key[len(prefix) + 8 :]


def guid_prefix(context: str, md5: bytes) -> bytes:
    """Return the prefix of all rows of one schema content in a context."""
    return GUID + (_DEFAULT_PART if context == DEFAULT_CONTEXT else part(context)) + md5


def referrer_prefix(subject: Subject, version: int) -> bytes:
    """Return the prefix of the rows of all versions that refer to one version."""
    return REFERRER + part(subject.context) + part(subject.name) + number(version)


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
    if table in (CLUSTER, WEBHOOK, POSITION, SOURCE, USE, _UNREADABLE):
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


def delete_mark(offset: int, upto: int, ts: int) -> bytes:
    """Return the value of the row of a delete mark: its offset, the highest version, and when it was set."""
    return _MARK.pack(offset, upto, ts)


def read_mark(value: bytes) -> tuple[int, int]:
    """Return the offset and the highest version in the row of a delete mark."""
    offset, upto = _FORMER_MARK.unpack_from(value)
    return offset, upto


def mark_time(value: bytes) -> int:
    """Return when a delete mark was set, in ms since the epoch; :data:`UNKNOWN_TIME` in former rows."""
    return _MARK.unpack(value)[2] if len(value) == _MARK.size else UNKNOWN_TIME


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
