"""Records with their owner and version, and rows of a base among them: what tasks fold.

Columns: ``owner`` (packed as in row keys), ``version`` (0 for records that are not of a version), ``offset``,
``ts``, ``key`` and ``value``. A version with a plain key has no ``key``: it follows from the others.

Owner and version of the keys of versions are found for whole batches, but for names with escapes or beyond
ASCII, and names that row keys cut. All other keys are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from registry.domain.fold.fast_path import CONTEXT
from registry.domain.fold.fold import owner_of
from registry.domain.log_format.records import SchemaKey, UnreadableKey, decode_key
from registry.domain.rows import layout

# Owner, version, offset, time, key and value of a record; or of a row, with the offset BASE_ROW.
OwnedRecord = tuple[bytes, int, int, int, bytes | None, bytes | None]
SCHEMA = pa.schema([
    ("owner", pa.binary()), ("version", pa.int32()), ("offset", pa.int64()), ("ts", pa.int64()),
    ("key", pa.binary()), ("value", pa.binary()),
])  # fmt: skip
# The offset that marks a row of the base among records: it comes before them.
BASE_ROW = -1
# In place of a version: what an owner has besides versions.
OTHER = 0
# What :func:`owners_of` returns to Spark.
OWNERS = "owner binary"
_HASH_BYTES = 16
_END = pa.scalar(b"\0", pa.binary())
_NOTHING = pa.scalar(b"", pa.binary())
# Keys of versions as this registry and Confluent write them, in RE2's syntax, and qualified names in them.
_VERSION = (
    r'^\{"keytype":"SCHEMA","subject":"(?P<name>[ !#-\[\]-~]+)"'
    r',"version":(?P<version>[1-9][0-9]{0,8}),"magic":1\}\z'
)
_QUALIFIED = r"^:(?P<context>\.[^:]+):(?P<name>.+)\z"


def with_owners(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records of the log (key, offset, ts, value) with owner and version."""
    keys = batch["key"]
    read = pc.extract_regex(keys, _VERSION)
    names = pc.struct_field(read, "name")
    qualified = pc.starts_with(names, ":.")
    plain = pc.and_(pc.invert(qualified), _fits(names)).fill_null(False)
    owners = pc.binary_join_element_wise(pa.scalar(CONTEXT, pa.binary()), names, _END, _NOTHING)
    versions = pc.struct_field(read, "version").cast(pa.string()).cast(pa.int32()).fill_null(OTHER)
    if plain.true_count < len(batch):
        odd = pc.invert(plain)
        found, numbers = _places(keys.filter(odd), names.filter(odd), versions.filter(odd))
        owners = pc.replace_with_mask(owners, odd, found)
        versions = pc.replace_with_mask(versions, odd, numbers)
    kept = pc.if_else(plain, pa.scalar(None, pa.binary()), keys)
    columns = [owners, versions, batch["offset"], batch["ts"], kept, batch["value"]]
    return pa.record_batch(columns, schema=SCHEMA)


def _places(
    keys: pa.BinaryArray, names: pa.BinaryArray, versions: pa.Int32Array
) -> tuple[pa.BinaryArray, pa.Int32Array]:
    """Return owners and versions of keys that are not plain."""
    read = pc.extract_regex(names, _QUALIFIED)
    context, name = (pc.struct_field(read, part) for part in ("context", "name"))
    known = pc.and_(_fits(context), _fits(name)).fill_null(False)
    owners = pc.binary_join_element_wise(context, _END, name, _END, _NOTHING)
    if known.true_count < len(keys):
        rest = pc.invert(known)
        places = [place_of(key) for key in keys.filter(rest).to_pylist()]
        owners = pc.replace_with_mask(owners, rest, pa.array([own for own, _ in places], pa.binary()))
        numbers = pa.array([version for _, version in places], pa.int32())
        versions = pc.replace_with_mask(versions, rest, numbers)
    return owners, versions


def _fits(names: pa.BinaryArray) -> pa.BooleanArray:
    return pc.less_equal(pc.binary_length(names), layout.PART_MAX)


def place_of(key: bytes | None) -> tuple[bytes, int]:
    """Return the owner and the version of a record's key."""
    try:
        read = decode_key(key)
    except UnreadableKey:
        return b"", OTHER
    return owner_of(read), read.version if isinstance(read, SchemaKey) else OTHER


def owners_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn records of the log into their owners, each at least once."""
    for batch in batches:
        owners = pc.unique(with_owners(batch)["owner"])
        yield pa.record_batch([owners], names=["owner"])


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
