"""Record batches, Kafka's unit of storage: parsing their headers and records, and building new ones.

Kafka takes any bytes as the key of a header, and Java's clients replace what is not UTF-8. aiokafka refuses
the whole batch, and with it everything behind it, so such batches are parsed here. Nothing else differs.

The layout is Kafka's message format 2. Older formats, which old topics may still hold, can be read, too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

from registry.domain.log_format.records import Entry, Record
from registry.log.contract import NO_HEADERS, Claim, DamagedLog, LogError

Headers = Sequence[tuple[str, bytes | None]]

_LENGTH = struct.Struct(">qi")
_LENGTH_ENDS = _LENGTH.size
# Attributes, and after the delta of the last offset the times of the first record and the newest.
_ATTRIBUTES = struct.Struct(">hiqq")
_ATTRIBUTES_AT, _RECORDS_AT = 21, 61
_CODEC_MASK, _APPEND_TIME = 0x07, 0x08
_DECOMPRESS = {1: gzip_decode, 2: snappy_decode, 3: lz4_decode, 4: zstd_decode}


class ParsedRecord(NamedTuple):
    """A record with the attributes of aiokafka's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def records_of(batch: Any, data: bytes) -> Sequence[ParsedRecord]:
    """Return the records of a batch that aiokafka found in ``data``.

    What is no text in the key of a header is replaced.

    Raises the errors of aiokafka, of decompression, and for bytes that are missing.
    """
    try:
        return list(batch)
    except UnicodeDecodeError:
        return list(_parse(_raw(data, batch.base_offset)))


def _raw(data: bytes, offset: int) -> bytes:
    """Return the batch that begins with an offset."""
    at = 0
    while True:
        found, length = _LENGTH.unpack_from(data, at)
        end = at + _LENGTH_ENDS + length
        if found == offset:
            return data[at:end]
        at = end


def _parse(raw: bytes) -> Iterator[ParsedRecord]:
    base, _ = _LENGTH.unpack_from(raw)
    attributes, _, first_time, newest_time = _ATTRIBUTES.unpack_from(raw, _ATTRIBUTES_AT)
    decompress = _DECOMPRESS.get(attributes & _CODEC_MASK, bytes)
    records = bytearray(decompress(raw[_RECORDS_AT:]))
    at = 0
    while at < len(records):
        length, at = decode_varint(records, at)
        end = at + length
        at += 1  # attributes, of which there are none
        time_delta, at = decode_varint(records, at)
        offset_delta, at = decode_varint(records, at)
        key, at = _nullable(records, at)
        value, at = _nullable(records, at)
        headers, at = _headers(records, at)
        if at != end:
            raise CorruptRecordException(f"the record {offset_delta} of the batch at {base} is malformed")
        time = newest_time if attributes & _APPEND_TIME else first_time + time_delta
        yield ParsedRecord(base + offset_delta, time, key, value, headers)


def _headers(records: bytearray, at: int) -> tuple[Headers, int]:
    count, at = decode_varint(records, at)
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, at = _nullable(records, at)
        value, at = _nullable(records, at)
        found.append(((key or b"").decode("utf-8", "replace"), value))
    return found, at


def _nullable(records: bytearray, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(records, at)
    if length < 0:
        return None, at
    return bytes(records[at : at + length]), at + length


# The claim of batches without a producer id.
NO_PRODUCER = Claim(-1, -1)
# Sequence numbers wrap around to 0 at this value.
SEQUENCES = 1 << 31
BATCH_HEADER_BYTES = 61
# An upper bound for what a record takes besides its key, value and headers: lengths, deltas, attributes.
RECORD_OVERHEAD_BYTES = 40
# The keys of this project's record headers. Other readers of the log ignore headers.
RECORD_HEADER_NAME, PRINCIPAL_HEADER_NAME = "registrar", "registrar-principal"
# An upper bound for what a header takes besides its value: its key and lengths.
RECORD_HEADER_EXTRA_BYTES = len(RECORD_HEADER_NAME) + 6
PRINCIPAL_EXTRA_BYTES = len(PRINCIPAL_HEADER_NAME) + 6

_MAGIC = 2
_MAGIC_AT = 16
_OFFSET = struct.Struct(">q")
_PREFIX_BYTES = 12
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CONTROL = 0x20
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The header of one batch."""

    # The base offset, and the offset after the last record, even if compaction has removed those records.
    offset: int
    next: int
    # NO_PRODUCER for appends without a producer id.
    claim: Claim
    # The sequence number of its first record; -1 without a producer id.
    sequence: int
    # True for a transaction marker, which is not a record.
    control: bool
    # The leader epoch in which it was appended; -1: unknown.
    leader_epoch: int = -1


def batch_headers(data: bytes) -> Iterator[BatchHeader]:
    """Yield the headers of the complete batches in ``data``; a partial last batch is skipped."""
    at, size = 0, len(data)
    while at + BATCH_HEADER_BYTES <= size:
        offset, length = _LENGTH.unpack_from(data, at)
        if length < _MAGIC_AT - _PREFIX_BYTES or at + _PREFIX_BYTES + length > size:
            return
        if data[at + _MAGIC_AT] < _MAGIC:
            yield BatchHeader(offset, offset + 1, NO_PRODUCER, -1, False)
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
    """Return the last complete batch in ``data``; empty if there is none."""
    at, last, size = 0, -1, len(data)
    while at + BATCH_HEADER_BYTES <= size:
        length = _LENGTH.unpack_from(data, at)[1]
        if length < _MAGIC_AT - _PREFIX_BYTES or at + _PREFIX_BYTES + length > size:
            break
        last = at
        at += _PREFIX_BYTES + length
    return b"" if last < 0 else data[last:at]


def next_offset(data: bytes, offset: int) -> int:
    """Return the offset after the complete batches in ``data``, which was fetched from ``offset``."""
    last = last_batch(data)
    return max(offset, next(batch_headers(last)).next) if last else offset


def runs(data: bytes, offset: int, headers: list[tuple[int, bytes]] | None = None) -> Iterator[list[Record]]:
    """Yield the records in ``data`` from ``offset`` on, one list per batch, without transaction markers.

    Appends their headers to ``headers``, if given, each with its record's offset.

    Raises :class:`.contract.DamagedLog` if a batch's checksum is wrong or its records are malformed,
    :class:`.contract.LogError` if its compression is not supported.
    """
    batches = MemoryRecords(data)
    at = offset
    try:
        while (batch := batches.next_batch()) is not None:
            if not batch.validate_crc():
                raise DamagedLog(f"a batch at or after offset {at} has a wrong checksum")
            if batch.is_control_batch:
                continue
            # tuple.__new__ saves a third of the time that the named tuple's own constructor takes.
            found = records_of(batch, data)
            run = [
                _new(Record, (each.offset, each.timestamp, each.key, each.value, _principal_of(each.headers)))
                for each in found
            ]
            if run and run[0].offset < offset:
                run = [record for record in run if record.offset >= offset]
            if headers is not None:
                headers += [
                    (each.offset, header)
                    for each in found
                    if each.headers
                    and each.offset >= offset
                    and (header := _value_of(RECORD_HEADER_NAME, each.headers)) is not None
                ]
            if run:
                at = run[-1].offset + 1
                yield run
    except (NotImplementedError, UnsupportedCodecError) as error:
        raise LogError(
            f"the batch at or after offset {at} has an unsupported compression: {error}"
        ) from error
    except (CorruptRecordException, ValueError, IndexError, RuntimeError, OSError, EOFError) as error:
        raise DamagedLog(f"a batch at or after offset {at} cannot be read: {error!r}") from error


def _principal_of(headers: Headers) -> bytes:
    return (_value_of(PRINCIPAL_HEADER_NAME, headers) if headers else None) or b""


def _value_of(name: str, headers: Headers) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None


class Batch(NamedTuple):
    """One batch to append."""

    data: bytes
    # The sequence number of its first record.
    sequence: int


def build(
    entries: Sequence[Entry],
    claim: Claim,
    sequence: int,
    ts: int,
    headers: Mapping[int, bytes] = NO_HEADERS,
) -> Batch:
    """Build a batch of ``entries`` in the name of ``claim``, outside of transactions.

    ``ts`` is in ms since the epoch; ``headers`` are by index in ``entries``.
    """
    builder: Any = DefaultRecordBatchBuilder(
        magic=_MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=claim.producer,
        producer_epoch=claim.epoch,
        base_sequence=sequence,
        # The caller has checked sizes against the log's own limits.
        batch_size=1 << 30,
    )
    for delta, (key, value, principal) in enumerate(entries):
        header = headers.get(delta)
        with_record = [] if header is None else [(RECORD_HEADER_NAME, header)]
        if principal:
            with_record.append((PRINCIPAL_HEADER_NAME, principal))
        builder.append(delta, ts, key, value, with_record)
    return Batch(bytes(builder.build()), sequence)


def with_base_offset(data: bytes, offset: int) -> bytes:
    """Return the batch ``data`` as readers get it from ``offset``. The checksum does not cover the offset."""
    return _OFFSET.pack(offset) + data[_OFFSET.size :]


def entry_bytes(entry: Entry, header: bytes | None = None) -> int:
    """Return an upper bound for the size of ``entry`` in a batch."""
    size = RECORD_OVERHEAD_BYTES + len(entry.key) + len(entry.value or b"")
    if entry.principal:
        size += PRINCIPAL_EXTRA_BYTES + len(entry.principal)
    return size if header is None else size + RECORD_HEADER_EXTRA_BYTES + len(header)


def pieces(
    entries: Sequence[Entry], cuts: Sequence[int], bytes_max: int, headers: Mapping[int, bytes] = NO_HEADERS
) -> Iterator[Sequence[Entry]]:
    """Split ``entries`` into runs of at most ``bytes_max`` that end at ``cuts`` where possible.

    A single entry always fits.
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
