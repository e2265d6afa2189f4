"""A fast path for plain versions, which make up nearly all of a large log.

A version is plain if its key is canonical and its value holds nothing but an id, a type, a text and the flag
of deletion. The rows are the same as those of :mod:`.fold`, in less than half the time; a test compares them.
Keys, values and texts are read and printed together, because a call for each takes longer than the work.
Slicing the text out of the value instead of parsing it is slower: it has to look at each character too.
"""

from __future__ import annotations

import re
import struct
from binascii import hexlify
from collections.abc import Sequence
from hashlib import md5
from typing import NamedTuple

from registry.domain.log_format.jackson import dumps_texts
from registry.domain.log_format.values import SchemaValue, decode_schema, decode_schemas
from registry.domain.model import DEFAULT_CONTEXT, DEFAULT_TYPE
from registry.domain.rows import layout, version_row
from registry.domain.rows.layout import number
from registry.domain.rows.view import Change

from .versions import KINDS

CONTEXT = layout.part(DEFAULT_CONTEXT)
_GUIDS, _IDS, _VERSIONS = (table + CONTEXT for table in (layout.GUID, layout.ID, layout.VERSION))
# How the keys of nearly all versions end after the name.
_FIRST = {b"%d" % version: b"\0" + number(version) for version in range(1, 100)}
# Pack an id as rows.number does, and an id with an offset.
_number, _place, _SIGN = struct.Struct(">I").pack, struct.Struct(">IQ").pack, 1 << 31
_GUID_BYTES = len(b',"guid":"00000000-0000-0000-0000-000000000000')
_HEAD_BYTES = len(b'{"subject":"","version":')
_SCHEMA_BYTES = len(b',"schema":')
_DELETED = version_row.DELETED | version_row.OWN_DELETED
_header = version_row.pack_header
_NAME, _DIGITS = rb"((?!:\.)[ !#-\[\]-~]{1,120})", rb"([1-9][0-9]{0,8})"
_KEY = rb'\{"keytype":"SCHEMA","subject":"%b","version":%b,"magic":1\}' % (_NAME, _DIGITS)
_key = re.compile(_KEY).fullmatch
# Finds something in each line, with names only in those that are plain keys.
_keys = re.compile(rb"^(?:%b|.*)$" % _KEY, re.MULTILINE).findall
_new = tuple.__new__


class PlainKey(NamedTuple):
    """A version in the default context whose subject reads the same in rows as in the record's key."""

    name: bytes
    # The digits of the version's number.
    digits: bytes
    # The packed name and number with which the keys of the version's rows end.
    end: bytes

    @property
    def head(self) -> bytes:
        """The first piece of the version row."""
        return b'{"subject":"%b","version":%b' % (self.name, self.digits)


def plain_key(raw: bytes) -> PlainKey | None:
    """Return the version that a record's key names; ``None`` if the key is not plain."""
    match = _key(raw)
    if match is None:
        return None
    name, digits = match.groups()
    return PlainKey(name, digits, name + (_FIRST.get(digits) or b"\0" + number(int(digits))))


def plain_keys(raws: Sequence[bytes]) -> list[PlainKey | None]:
    """Return what :func:`plain_key` returns for each key."""
    found = _keys(b"\n".join(raws))
    if len(found) != len(raws):
        return [plain_key(raw) for raw in raws]  # One of them is of several lines.
    # tuple.__new__ saves most of the time that the named tuple's own constructor takes.
    return [
        _new(PlainKey, (name, digits, name + (_FIRST.get(digits) or b"\0" + number(int(digits)))))
        if name
        else None
        for name, digits in found
    ]


# Id, type, text, and whether it is deleted. A tuple: each record makes one.
PlainSchema = tuple[int, str, str, bool]
# By offset: what was parsed of records, for those who need it again.
PlainRecords = dict[int, tuple[PlainKey, PlainSchema]]
# A version with the offset and the time of its record.
PlainVersion = tuple[PlainKey, PlainSchema, int, int]


def plain_schema(value: bytes) -> PlainSchema | None:
    """Return the content of a record's value; ``None`` if it holds anything else, or nothing readable."""
    try:
        parsed = decode_schema(value)
    except (ValueError, RecursionError):
        return None
    return None if has_further_members(parsed) else content_of(parsed)


def content_of(value: SchemaValue) -> PlainSchema:
    """Return the content of a value without further members."""
    return value.id, value.schemaType or DEFAULT_TYPE, value.schema, value.deleted or False


def plain_values(values: Sequence[bytes]) -> list[SchemaValue | None]:
    """Return each value as it is read; ``None`` for one that :func:`plain_schema` has no content of."""
    return [None if each is None or has_further_members(each) else each for each in decode_schemas(values)]


def has_further_members(value: SchemaValue) -> bool:
    """Return true if a value holds more than the members of a plain version."""
    return bool(
        value.references or value.md5 is not None or value.metadata is not None or value.ruleSet is not None
    )


def plain_rows(versions: Sequence[PlainVersion]) -> list[list[Change]]:
    """Return the rows of each version, if it has none yet: those of its content and its id, and its own."""
    texts = dumps_texts([text for _, (_, _, text, _), _, _ in versions])
    found: list[list[Change]] = []
    tail_of, tail = (-1, False), b""
    for ((name, digits, end), (schema_id, schema_type, text, deleted), offset, ts), schema in zip(
        versions, texts, strict=True
    ):
        if (ts, deleted) != tail_of:  # Records that were written together have one time.
            tail_of = ts, deleted
            tail = (b',"ts":%d,"deleted":true}' if deleted else b',"ts":%d,"deleted":false}') % ts
        kind = KINDS[schema_type]
        content = md5(text.encode(), usedforsecurity=False).digest()
        guid = hexlify(content, b"-", 2)
        a = _HEAD_BYTES + len(name) + len(digits)
        b = a + _GUID_BYTES + len(kind)
        c = b + _SCHEMA_BYTES + len(schema)
        row = b"".join((
            _header(schema_id, _DELETED if deleted else 0, offset, ts, content, a, b, c, c, c, c),
            b'{"subject":"', name, b'","version":', digits,
            b',"guid":"', guid[:4], guid[5:29], guid[30:34], guid[35:], kind, b',"schema":', schema, tail,
        ))  # fmt: skip
        packed = schema_id | _SIGN
        found.append(
            [
                (_GUIDS + content + end, _number(packed)),
                (_IDS + _place(packed, offset) + end, b""),
                (_VERSIONS + end, row),
            ]
        )
    return found
