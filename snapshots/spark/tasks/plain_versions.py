"""The rows of plain versions, made for a whole batch of records at once.

They are those of :func:`registry.domain.fold.fast_path.plain_rows`; a test compares them.
"""

from __future__ import annotations

from hashlib import md5
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.domain.fold.fast_path import CONTEXT, plain_schema
from registry.domain.log_format.jackson import dumps
from registry.domain.rows import layout, version_row

from .columns import Columns, fixed, united

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
# Where the hexadecimal digits of a guid stand, among its dashes.
_DIGITS = np.array([at for at in range(36) if at not in (8, 13, 18, 23)])
# The header of a version row, as `version_row.pack_header` packs it.
_HEADER = np.dtype([
    ("id", ">i4"), ("flags", "u1"), ("offset", ">i8"), ("ts", ">i8"), ("md5", "u1", 16), ("ends", ">u4", 6),
])  # fmt: skip
_HEAD, _MIDDLE = b'{"subject":"', b'","version":'
_GUID = b',"guid":"'
_SCHEMA, _TS = b',"schema":', b',"ts":'
_TAILS = (b',"deleted":false}', b',"deleted":true}')
_SIGN = 1 << 31


class PlainVersions(NamedTuple):
    """Records of versions with plain keys, as columns."""

    # Packed owners, all in the default context.
    owners: pa.BinaryArray
    # Numbers of versions, offsets and times as arrays of numpy.
    versions: Any
    offsets: Any
    times: Any
    values: list[bytes]


def rows_of(records: PlainVersions) -> tuple[Columns | None, list[int]]:
    """Return the rows of versions that have none yet, and the places of records with other values."""
    read = [plain_schema(value) for value in records.values]
    plain = [each for each in read if each is not None]
    odd = [at for at, each in enumerate(read) if each is None] if len(plain) < len(read) else []
    if not plain:
        return None, odd
    owners, versions, offsets, times, _ = records
    if odd:
        there = np.array([each is not None for each in read])
        owners = owners.filter(pa.array(there))
        versions, offsets, times = versions[there], offsets[there], times[there]
    ids, kinds, texts, deleted = (list(each) for each in zip(*plain, strict=True))
    contents = [md5(text.encode(), usedforsecurity=False).digest() for text in texts]
    content = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), 16)
    names = pc.binary_slice(owners, len(CONTEXT), -1)
    packed = fixed((versions.astype(np.int64) + _SIGN).astype(">u4"))
    ends = pc.binary_join_element_wise(names, _scalar(b"\0"), packed, _scalar(b""))
    number = (np.array(ids, np.int64) + _SIGN).astype(">u4")
    by_id = np.dtype([("id", ">u4"), ("offset", ">i8")])
    places = np.empty(len(ids), by_id)
    places["id"], places["offset"] = number, offsets
    schemas = pa.array([dumps(text) for text in texts], pa.binary())
    values = _values(
        names, versions, offsets, times, content, np.array(ids), kinds, np.array(deleted), schemas
    )
    return united([
        Columns(_join(layout.GUID + CONTEXT, fixed(content), ends), fixed(number)),
        Columns(_join(layout.ID + CONTEXT, fixed(places), ends), _empty(len(ids))),
        Columns(_join(layout.VERSION + CONTEXT, ends), values),
    ]), odd  # fmt: skip


def _values(
    names: pa.BinaryArray,
    versions: Any,
    offsets: Any,
    times: Any,
    content: Any,
    ids: Any,
    kinds: list[bytes],
    deleted: Any,
    schemas: pa.BinaryArray,
) -> pa.BinaryArray:
    """Return the version rows."""
    digits, kind = _decimal(versions), pa.array(kinds, pa.binary())
    header = np.zeros(len(ids), _HEADER)
    header["id"], header["offset"], header["ts"], header["md5"] = ids, offsets, times, content
    header["flags"] = np.where(deleted, version_row.DELETED | version_row.OWN_DELETED, 0)
    head = len(_HEAD) + _lengths(names) + len(_MIDDLE) + _lengths(digits)
    after_kind = head + len(_GUID) + 36 + _lengths(kind)
    header["ends"] = (after_kind + len(_SCHEMA) + _lengths(schemas))[:, None]
    header["ends"][:, 0], header["ends"][:, 1] = head, after_kind
    guids = np.full((len(ids), 36), ord("-"), np.uint8)
    guids[:, _DIGITS] = _HEX[content].reshape(len(ids), 32)
    tails = pa.array(_TAILS, pa.binary()).take(pa.array(deleted.astype(np.int32)))
    return pc.binary_join_element_wise(
        fixed(header), _scalar(_HEAD), names, _scalar(_MIDDLE), digits,
        _scalar(_GUID), fixed(guids), kind, _scalar(_SCHEMA), schemas,
        _scalar(_TS), _decimal(times), tails, _scalar(b""),
    )  # fmt: skip


def _join(prefix: bytes, *columns: pa.BinaryArray) -> pa.BinaryArray:
    return pc.binary_join_element_wise(_scalar(prefix), *columns, _scalar(b""))


def _scalar(raw: bytes) -> pa.BinaryScalar:
    return pa.scalar(raw, pa.binary())


def _decimal(numbers: Any) -> pa.BinaryArray:
    return pa.array(numbers).cast(pa.string()).cast(pa.binary())


def _empty(count: int) -> pa.BinaryArray:
    ends = pa.py_buffer(np.zeros(count + 1, np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(b"")])


def _lengths(column: pa.BinaryArray) -> Any:
    return pc.binary_length(column).to_numpy()
