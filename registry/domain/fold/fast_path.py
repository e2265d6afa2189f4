"""A fast path for plain versions, which make up nearly all of a large log.

A version is plain if its key is canonical and its value holds nothing but an id, a type, a text and the flag
of deletion. The rows are the same as those of :mod:`.fold`, in half the time; a test compares them.
Slicing the text out of the value instead of parsing it is slower: it has to look at each character too.
"""

from __future__ import annotations

import re
import struct
from binascii import hexlify
from collections.abc import Sequence
from hashlib import md5
from typing import NamedTuple

from registry.domain.log_format.jackson import dumps
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
_number, _offset, _SIGN = (
    struct.Struct(">I").pack,
    struct.Struct(">Q").pack,
    1 << 31,
)  # like rows.number, but faster
_GUID_BYTES = len(b',"guid":"00000000-0000-0000-0000-000000000000')
_HEAD_BYTES = len(b'{"subject":"","version":')
_SCHEMA_BYTES = len(b',"schema":')
_DELETED = version_row.DELETED | version_row.OWN_DELETED
_key = re.compile(
    rb'\{"keytype":"SCHEMA","subject":"((?!:\.)[ !#-\[\]-~]{1,120})","version":([1-9][0-9]{0,8}),"magic":1\}'
).fullmatch


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


# Id, type, text, and whether it is deleted. A tuple: each record makes one.
PlainSchema = tuple[int, str, str, bool]
# By offset: what was parsed of records, for those who need it again.
PlainRecords = dict[int, tuple[PlainKey, PlainSchema]]


def plain_schema(value: bytes) -> PlainSchema | None:
    """Return the content of a record's value; ``None`` if it holds anything else, or nothing readable."""
    try:
        parsed = decode_schema(value)
    except (ValueError, RecursionError):
        return None
    if has_further_members(parsed):
        return None
    return parsed.id, parsed.schemaType or DEFAULT_TYPE, parsed.schema, parsed.deleted or False


def plain_values(values: Sequence[bytes]) -> list[SchemaValue | None]:
    """Return each value as it is read; ``None`` for one that :func:`plain_schema` has no content of."""
    return [None if each is None or has_further_members(each) else each for each in decode_schemas(values)]


def has_further_members(value: SchemaValue) -> bool:
    """Return true if a value holds more than the members of a plain version."""
    return bool(
        value.references or value.md5 is not None or value.metadata is not None or value.ruleSet is not None
    )


def plain_rows(key: PlainKey, plain: PlainSchema, offset: int, ts: int) -> list[Change]:
    """Return the rows of a version that has none yet."""
    name, digits, end = key
    schema_id, schema_type, text, deleted = plain
    kind = KINDS[schema_type]
    content = md5(text.encode(), usedforsecurity=False).digest()
    guid, schema = hexlify(content, b"-", 2), dumps(text)
    a = _HEAD_BYTES + len(name) + len(digits)
    b = a + _GUID_BYTES + len(kind)
    c = b + _SCHEMA_BYTES + len(schema)
    row = b"".join((
        version_row.pack_header(schema_id, _DELETED if deleted else 0, offset, ts, content, a, b, c, c, c, c),
        b'{"subject":"', name, b'","version":', digits,
        b',"guid":"', guid[:4], guid[5:29], guid[30:34], guid[35:], kind, b',"schema":', schema,
        (b',"ts":%d,"deleted":true}' if deleted else b',"ts":%d,"deleted":false}') % ts,
    ))  # fmt: skip
    packed_id = _number(schema_id | _SIGN)
    return [
        (_GUIDS + content + end, packed_id),
        (_IDS + packed_id + _offset(offset) + end, b""),
        (_VERSIONS + end, row),
    ]
