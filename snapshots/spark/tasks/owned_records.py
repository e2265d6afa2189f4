"""Records with their owner and version, and rows of a base among them: what tasks fold.

Columns in Spark: ``owner`` (packed as in row keys), ``version`` (0 for records that are not of a version),
``offset``, ``ts``, ``key`` and ``value``. A version with a plain key has no ``key``: the others tell it.
"""

from __future__ import annotations

import struct

import pandas as pd

from registry.domain.fold.fold import owner_of
from registry.domain.log_format.records import SchemaKey, UnreadableKey, decode_key
from registry.domain.rows import layout

# Owner, version, offset, time, key and value of a record; or of a row, with the offset BASE_ROW.
OwnedRecord = tuple[bytes, int, int, int, bytes | None, bytes | None]
COLUMNS = "owner binary, version int, offset bigint, ts bigint, key binary, value binary"
# The offset that marks a row of the base among records: it comes before them.
BASE_ROW = -1
# In place of a version: what an owner has besides versions.
OTHER = 0
_HASH_BYTES = 16
_version = struct.Struct(">i")
VERSION_BYTES = _version.size


def place_of(key: bytes | None) -> bytes:
    """Return the version of a record's key in 4 bytes, followed by its owner."""
    try:
        read = decode_key(key)
    except UnreadableKey:
        return _version.pack(OTHER)
    return _version.pack(read.version if isinstance(read, SchemaKey) else OTHER) + owner_of(read)


def places_of(keys: pd.Series) -> pd.Series:
    """Return :func:`place_of` each key; ``None`` for none."""
    if not keys.notna().any():
        return keys
    return keys.map(lambda key: None if key is None else place_of(bytes(key)))


def plain_key(owner: bytes, version: int) -> bytes:
    """Return the key of a version in the default context that has no ``key``."""
    return b'{"keytype":"SCHEMA","subject":"%b","version":%d,"magic":1}' % (owner[2:-1], version)


def version_of_row(key: bytes) -> int:
    """Return the version that a row of a base belongs to, or :data:`OTHER`."""
    row = _stands_for(key)
    return layout.unnumber(row[-4:]) if row.startswith(layout.VERSION) else OTHER


def is_mark_row(key: bytes) -> bool:
    """Return true for the row of a mark of deletion, and for rows that stand for it."""
    return _stands_for(key).startswith(layout.DELETE_MARK)


def _stands_for(key: bytes) -> bytes:
    """Return the row that a row of quarantine or of foreign bytes stands for; other rows as they are."""
    if key.startswith(layout.QUARANTINE):
        return key[1:]
    return key[1:-_HASH_BYTES] if key.startswith(layout.FOREIGN) else key
