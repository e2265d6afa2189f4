"""Record batches, Kafka's unit of storage: their batch headers, their records, and new ones to append.

The layout is that of Kafka's message format 2; older ones, which old brokers may still hold, are read too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from registry.domain.log_format.records import Entry, Record
from registry.log.contract import NO_HEADERS, Claim, DamagedLog, LogError

NOBODY = Claim(-1, -1)
"""The producer of batches that carry none."""
SEQUENCES = 1 << 31
"""Sequence numbers go from 0 up to here and begin again."""
BATCH_HEADER_BYTES = 61
RECORD_OVERHEAD_BYTES = 40
"""More than what a record needs beside its key, value and record header: lengths, deltas, attributes."""
RECORD_HEADER_NAME = "registrar"
"""The name of the header that is a record's header. Other readers of the log ignore headers."""
RECORD_HEADER_EXTRA_BYTES = len(RECORD_HEADER_NAME) + 6
"""More than what a record header needs beside itself: its name and lengths."""

_MAGIC = 2
_MAGIC_AT = 16
_OFFSET = struct.Struct(">q")
_LENGTH = struct.Struct(">qi")
_PREFIX_BYTES = 12
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CONTROL = 0x20
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """What a batch says of itself."""

    offset: int
    """Of its first record, also when compaction has taken it."""
    next: int
    """The offset after its last, also when compaction has taken it."""
    claim: Claim
    """Who appended it; :data:`NOBODY` for appends without a producer id."""
    sequence: int
    """Of its first record; -1 without a producer id."""
    control: bool
    """A transaction's marker, which is no record."""
    leader_epoch: int = -1
    """In which it was appended; -1: not known."""


def batch_headers(data: bytes) -> Iterator[BatchHeader]:
    """The batch headers of the whole batches in ``data``; a last one that was cut off is left out."""
    at, size = 0, len(data)
    while at + BATCH_HEADER_BYTES <= size:
        offset, length = _LENGTH.unpack_from(data, at)
        if length < _MAGIC_AT - _PREFIX_BYTES or at + _PREFIX_BYTES + length > size:
            return
        if data[at + _MAGIC_AT] < _MAGIC:
            yield BatchHeader(offset, offset + 1, NOBODY, -1, False)
        else:
            (
                _, _, leader_epoch, _, _, attributes, delta, _, _, producer, epoch, sequence, _,
            ) = _HEADER.unpack_from(data, at)  # fmt: skip
            control = bool(attributes & _CONTROL)
            yield BatchHeader(
                offset, offset + delta + 1, Claim(producer, epoch), sequence, control, leader_epoch
            )
        at += _PREFIX_BYTES + length


def last_batch(data: bytes) -> bytes:
    """Return the last whole batch in ``data``; empty where there is none."""
    at, last, size = 0, -1, len(data)
    while at + BATCH_HEADER_BYTES <= size:
        length = _LENGTH.unpack_from(data, at)[1]
        if length < _MAGIC_AT - _PREFIX_BYTES or at + _PREFIX_BYTES + length > size:
            break
        last = at
        at += _PREFIX_BYTES + length
    return b"" if last < 0 else data[last:at]


def next_offset(data: bytes, offset: int) -> int:
    """Where to go on after the whole batches in ``data``, which was fetched from ``offset``."""
    last = last_batch(data)
    return max(offset, next(batch_headers(last)).next) if last else offset


def runs(data: bytes, offset: int, headers: list[tuple[int, bytes]] | None = None) -> Iterator[list[Record]]:
    """The records in ``data`` from ``offset`` on, batch by batch, without transactions' markers.

    The record headers among them are added to ``headers``, if given, each with its record's offset.

    Raises :class:`.contract.DamagedLog` when a batch's checksum does not hold or its records cannot be
    read, :class:`.contract.LogError` when it is compressed in a way that is not known here.
    """
    batches = MemoryRecords(data)
    at = offset
    try:
        while (batch := batches.next_batch()) is not None:
            if not batch.validate_crc():
                raise DamagedLog(f"a batch at or after offset {at} does not have its checksum")
            if batch.is_control_batch:
                continue
            # Made past the named tuple's own constructor, which takes half as long again.
            found = list(batch)
            run = [_new(Record, (each.offset, each.timestamp, each.key, each.value)) for each in found]
            if run and run[0].offset < offset:
                run = [record for record in run if record.offset >= offset]
            if headers is not None:
                headers += [
                    (each.offset, header)
                    for each in found
                    if each.headers
                    and each.offset >= offset
                    and (header := _header_of(each.headers)) is not None
                ]
            if run:
                at = run[-1].offset + 1
                yield run
    except (NotImplementedError, UnsupportedCodecError) as error:
        raise LogError(
            f"the batch at or after offset {at} is compressed in an unknown way: {error}"
        ) from error
    except (CorruptRecordException, ValueError, IndexError, RuntimeError, OSError, EOFError) as error:
        raise DamagedLog(f"a batch at or after offset {at} cannot be read: {error!r}") from error


def _header_of(headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    return next((value for name, value in headers if name == RECORD_HEADER_NAME), None)


class Batch(NamedTuple):
    """One batch to append."""

    data: bytes
    sequence: int
    """Of its first record."""


def build(
    entries: Sequence[Entry],
    claim: Claim,
    sequence: int,
    ts: int,
    headers: Mapping[int, bytes] = NO_HEADERS,
) -> Batch:
    """``entries`` in the name of ``claim``, outside all transactions; ``ts`` in ms since the epoch.

    ``headers``: by their entry's index.
    """
    builder: Any = DefaultRecordBatchBuilder(
        magic=_MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=claim.producer,
        producer_epoch=claim.epoch,
        base_sequence=sequence,
        # What is too large is refused by then, with the log's own limits.
        batch_size=1 << 30,
    )
    for delta, (key, value) in enumerate(entries):
        header = headers.get(delta)
        builder.append(delta, ts, key, value, [] if header is None else [(RECORD_HEADER_NAME, header)])
    return Batch(bytes(builder.build()), sequence)


def placed(data: bytes, offset: int) -> bytes:
    """The batch ``data`` as it is read from ``offset``: that begins it, outside its checksum."""
    return _OFFSET.pack(offset) + data[_OFFSET.size :]


def entry_bytes(entry: Entry, header: bytes | None = None) -> int:
    """At most what ``entry`` takes in a batch."""
    size = RECORD_OVERHEAD_BYTES + len(entry.key) + len(entry.value or b"")
    return size if header is None else size + RECORD_HEADER_EXTRA_BYTES + len(header)


def pieces(
    entries: Sequence[Entry], cuts: Sequence[int], bytes_max: int, headers: Mapping[int, bytes] = NO_HEADERS
) -> Iterator[Sequence[Entry]]:
    """``entries`` in runs of at most ``bytes_max``, which end at ``cuts`` where that is possible.

    An entry alone always fits.
    """
    allowed = set(cuts)
    start = last_cut = size = since_cut = 0
    for at, entry in enumerate(entries):
        if at in allowed:
            last_cut, since_cut = at, 0
        more = entry_bytes(entry, headers.get(at))
        if size + more > bytes_max and at > start:
            end = last_cut if last_cut > start else at
            yield entries[start:end]
            start, size = end, (since_cut if end < at else 0)
            if size + more > bytes_max and at > start:
                yield entries[start:at]
                start, size = at, 0
        size += more
        since_cut += more
    if start < len(entries):
        yield entries[start:]
