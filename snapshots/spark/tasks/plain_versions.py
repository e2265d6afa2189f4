"""Taking plain versions out of a stream of records and making their rows, a batch at once.

They are those of :func:`registry.domain.fold.fast_path.plain_rows`; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.domain.fold.fast_path import CONTEXT, plain_values
from registry.domain.fold.versions import KINDS
from registry.domain.log_format.jackson import dumps, text_lines
from registry.domain.model import DEFAULT_TYPE
from registry.domain.rows import layout, version_row

from .columns import Columns, concatenate, to_binary
from .owned_records import OTHER, OwnedRecord, plain_key

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
# From this byte on, UTF-8 begins a character beyond U+FFFF.
_BEYOND = 0xF0


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
    read = plain_values(records.values)
    plain = [each for each in read if each is not None]
    odd = [at for at, each in enumerate(read) if each is None] if len(plain) < len(read) else []
    if not plain:
        return None, odd
    owners, versions, offsets, times, _ = records
    if odd:
        there = np.array([each is not None for each in read])
        owners = owners.filter(pa.array(there))
        versions, offsets, times = versions[there], offsets[there], times[there]
    ids = np.array([each.id for each in plain], np.int64)
    texts = [each.schema for each in plain]
    contents = [md5(text.encode(), usedforsecurity=False).digest() for text in texts]
    content = np.frombuffer(b"".join(contents), np.uint8).reshape(len(contents), 16)
    names = pc.binary_slice(owners, len(CONTEXT), -1)
    packed = to_binary((versions.astype(np.int64) + _SIGN).astype(">u4"))
    ends = pc.binary_join_element_wise(names, _scalar(b"\0"), packed, _scalar(b""))
    number = (ids + _SIGN).astype(">u4")
    by_id = np.dtype([("id", ">u4"), ("offset", ">i8")])
    places = np.empty(len(ids), by_id)
    places["id"], places["offset"] = number, offsets
    kinds = [KINDS[each.schemaType or DEFAULT_TYPE] for each in plain]
    deleted = np.array([each.deleted is True for each in plain])
    values = _values(names, versions, offsets, times, content, ids, kinds, deleted, _json_texts(texts))
    return concatenate([
        Columns(_join(layout.GUID + CONTEXT, to_binary(content), ends), to_binary(number)),
        Columns(_join(layout.ID + CONTEXT, to_binary(places), ends), _empty(len(ids))),
        Columns(_join(layout.VERSION + CONTEXT, ends), values),
    ]), odd  # fmt: skip


def _json_texts(texts: list[str]) -> pa.BinaryArray:
    """Return each text as :func:`registry.domain.log_format.jackson.dumps` prints it."""
    lines = text_lines(texts)
    codes = np.frombuffer(lines, np.uint8)
    escapes = codes[np.flatnonzero(codes == ord("u")) - 1] == ord("\\")
    if np.max(codes) >= _BEYOND or escapes.any():
        return pa.array([dumps(text) for text in texts], pa.binary())
    ends = np.zeros(len(texts) + 1, np.int32)
    ends[1:] = np.flatnonzero(codes == ord("\n")) + 1
    return pc.binary_slice(_column(ends, lines), 0, -1)


def _column(ends: Any, content: bytes) -> pa.BinaryArray:
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )


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
        to_binary(header), _scalar(_HEAD), names, _scalar(_MIDDLE), digits,
        _scalar(_GUID), to_binary(guids), kind, _scalar(_SCHEMA), schemas,
        _scalar(_TS), _decimal(times), tails, _scalar(b""),
    )  # fmt: skip


def _join(prefix: bytes, *columns: pa.BinaryArray) -> pa.BinaryArray:
    return pc.binary_join_element_wise(_scalar(prefix), *columns, _scalar(b""))


def _scalar(raw: bytes) -> pa.BinaryScalar:
    return pa.scalar(raw, pa.binary())


def _decimal(numbers: Any) -> pa.BinaryArray:
    return pa.array(numbers).cast(pa.string()).cast(pa.binary())


def _empty(count: int) -> pa.BinaryArray:
    return _column(np.zeros(count + 1, np.int32), b"")


def _lengths(column: pa.BinaryArray) -> Any:
    return pc.binary_length(column).to_numpy()


# Stands for no record, with an owner that no record has.
PAUSE: OwnedRecord = (b"\xff", OTHER, 0, 0, None, None)


class PlainBatches:
    """Splits a stream: rows of plain versions by whole batches, and all other records one by one.

    A version is taken out if all its records have a plain key, so that only the last one counts, and if its
    owner has nothing but versions: no mark of deletion and no row of a base can then change its rows.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self._taken: list[Columns] = []
        # The last owner that was seen, and whether it has something besides versions.
        self._owner, self._mixed = None, False

    def take(self) -> list[Columns]:
        """Return the rows that were made since the last call."""
        taken, self._taken = self._taken, []
        return taken

    def others(self) -> Iterator[OwnedRecord]:
        """Yield all other records, in the stream's order, and :data:`PAUSE` for each batch that has none.

        A pause may be within an owner, but only between versions of one that has nothing else.
        """
        for batch in _whole_versions(self._batches):
            yield from self._split(batch)

    def _split(self, batch: pa.RecordBatch) -> Iterator[OwnedRecord]:
        owners, versions = batch["owner"], batch["version"].to_numpy()
        offsets, times = batch["offset"].to_numpy(), batch["ts"].to_numpy()
        of_owner = np.flatnonzero(_begins(owners))
        of_version = np.flatnonzero(_begins(owners, versions))
        mixed = self._mixed_owners(owners, versions, of_owner)
        plain = np.asarray(pc.is_null(batch["key"])) & (versions != OTHER) & ~mixed
        # Whole versions: those of which every record is plain. The last one counts.
        plain = np.logical_and.reduceat(plain, of_version)
        lengths = np.diff([*of_version, len(batch)])
        last = (of_version + lengths - 1)[plain]
        values = batch["value"].take(pa.array(last))
        there = np.asarray(pc.is_valid(values))
        last, values = last[there], values.filter(pa.array(there))
        odd = self._take(owners, versions, offsets, times, last, values)
        rest = np.union1d(np.flatnonzero(np.repeat(~plain, lengths)), odd)
        if not len(rest):
            yield PAUSE
            return
        columns = (batch.take(pa.array(rest)) if len(rest) < len(batch) else batch).columns
        for owner, version, offset, ts, key, value in zip(
            *(each.to_pylist() for each in columns), strict=True
        ):
            # The rows of a base all have keys, and records without one belong to no version.
            named = plain_key(owner, version) if key is None and version != OTHER else key
            yield owner, version, offset, ts, named, value

    def _take(self, owners: Any, versions: Any, offsets: Any, times: Any, places: Any, values: Any) -> Any:
        """Make the rows of the records at these places; return the places of those that are not plain."""
        if not len(places):
            return places
        records = PlainVersions(
            owners.take(pa.array(places)),
            versions[places],
            offsets[places],
            times[places],
            values.to_pylist(),
        )
        rows, odd = rows_of(records)
        if rows is not None:
            self._taken.append(rows)
        return places[odd]

    def _mixed_owners(self, owners: pa.BinaryArray, versions: Any, begins: Any) -> Any:
        """Return for each record whether its owner has something besides versions, which comes first."""
        mixed = versions[begins] == OTHER
        if owners[0].as_py() == self._owner:
            mixed[0] |= self._mixed
        self._owner, self._mixed = owners[len(owners) - 1].as_py(), bool(mixed[-1])
        return np.repeat(mixed, np.diff([*begins, len(owners)]))


def _begins(owners: pa.BinaryArray, versions: Any = None) -> Any:
    """Return for each record whether it has another owner, or another version, than the one before."""
    begins = np.ones(len(owners), bool)
    begins[1:] = np.asarray(pc.not_equal(owners.slice(1), owners.slice(0, len(owners) - 1)))
    if versions is not None:
        begins[1:] |= versions[1:] != versions[:-1]
    return begins


def _whole_versions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records in batches that do not end within a version."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not len(batch):
            continue
        if held and not _goes_on(held[-1], batch):
            yield _unite(held)
            held = []
        versions = batch["version"].to_numpy()
        at = int(np.flatnonzero(_begins(batch["owner"], versions))[-1])
        if versions[-1] == OTHER:
            at = len(batch)  # Records of no version need not be together.
        if at:
            yield _unite([*held, batch.slice(0, at)])
            held = []
        if at < len(batch):
            held.append(_last_of_key(batch.slice(at)))
    if held:
        yield _unite(held)


def _last_of_key(version: pa.RecordBatch) -> pa.RecordBatch:
    """Return the records of a version without those that do not count, if all have its plain key."""
    return version if version["key"].null_count < len(version) else version.slice(len(version) - 1)


def _goes_on(before: pa.RecordBatch, after: pa.RecordBatch) -> bool:
    """Return whether a batch begins with the version with which the one before ends."""
    last, first = before.slice(len(before) - 1), after.slice(0, 1)
    return all(last[name][0] == first[name][0] for name in ("owner", "version"))


def _unite(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
