"""Lineage: evidence that a log still has the records that rows were folded from.

A log can lose its tail and grow past the point of the cut: brokers elect a leader that lacks records, or a
disk or a folder is restored from an older copy. The log's identity and end then look as before. So the newest
records are remembered, and compared whenever the log is opened or reached again:

* The newest record of each of the last few keys. Compaction keeps the last record of a key, so most of them
  are still there at the next check; a missing one proves nothing.
* The leader epoch of the newest batch, if the log has epochs: brokers say where the records of an epoch end,
  no matter what compaction removed (KIP-320).

What such a comparison finds is a :class:`Mismatch`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec
from xxhash import xxh3_64_intdigest, xxh3_128_intdigest

from .records import Record

# How many keys' newest records are remembered.
TRACES_MAX = 8
# How many records are searched for them; an idle primary writes the same key over and over.
_LOOKED_AT_MAX = 64
_HEAD = struct.Struct(">iQ")
_TRACE = struct.Struct(">QQ16s")
_CHECKSUM_BYTES = 4
_TIME = struct.Struct(">q")


class EpochEnd(NamedTuple):
    """A log's answer to the question where the records of a leader epoch end."""

    # The largest epoch with records that is not above the one asked for; -1: unknown.
    epoch: int
    # The offset at which the first larger epoch begins, or the end of the log; -1: unknown.
    end: int


class Trace(NamedTuple):
    """A remembered record."""

    offset: int
    # Hash of the key.
    key: int
    # Hash of the time, the key and the value.
    content: int

    @classmethod
    def of(cls, record: Record) -> Trace:
        """Remember ``record``."""
        key, value = record.key or b"", record.value
        hashed = b"%b%d:%b%b" % (
            _TIME.pack(record.ts),
            len(key),
            key,
            b"-" if value is None else b"+" + value,
        )
        return cls(record.offset, xxh3_64_intdigest(key), xxh3_128_intdigest(hashed))


class Lineage(NamedTuple):
    """The remembered, newest part of a log's history."""

    # Ordered by offset; each is the newest of its key.
    traces: tuple[Trace, ...] = ()
    # The leader epoch of the batch that ended at ``epoch_end``; -1: unknown.
    epoch: int = -1
    epoch_end: int = 0

    @property
    def end(self) -> int:
        """The offset up to which the log is remembered."""
        return max(self.epoch_end, self.traces[-1].offset + 1 if self.traces else 0)

    def with_records(self, records: Sequence[Record], epoch: int = -1, epoch_end: int = 0) -> Lineage:
        """Return the lineage extended by ``records``, which come next in the log.

        ``epoch``: the leader epoch of the batch that ends at ``epoch_end``, if known.
        """
        newest: dict[int, Trace] = {}
        for record in reversed(records[-_LOOKED_AT_MAX:]):
            trace = Trace.of(record)
            newest.setdefault(trace.key, trace)
            if len(newest) == TRACES_MAX:
                break
        for trace in reversed(self.traces):
            newest.setdefault(trace.key, trace)
        traces = tuple(sorted(newest.values())[-TRACES_MAX:])
        if epoch < 0 or epoch_end < self.epoch_end:
            epoch, epoch_end = self.epoch, self.epoch_end
        return Lineage(traces, epoch, epoch_end)

    def divergence(self, found: Record | None, end: int, epoch_end: EpochEnd | None) -> int | None:
        """Return an offset at or before which a log diverges from this one; ``None`` if nothing shows that.

        ``found``: the log's record at the newest remembered offset that it still has. ``end``: where the log
        ends.
        ``epoch_end``: its answer for :attr:`epoch`, if it was asked.
        """
        if end < self.end:
            return end
        proven = 0
        if found is not None:
            if Trace.of(found) not in self.traces:
                return found.offset
            proven = found.offset + 1
        if epoch_end is None or epoch_end.end < 0 or self.epoch_end <= proven:
            return None
        if epoch_end.end < self.epoch_end or epoch_end.epoch < self.epoch:
            return min(epoch_end.end, self.epoch_end)
        return None

    def pack(self) -> bytes:
        """Return the lineage as bytes."""
        parts = [_HEAD.pack(self.epoch, self.epoch_end)]
        parts += [
            _TRACE.pack(offset, key, content.to_bytes(16, "big")) for offset, key, content in self.traces
        ]
        raw = b"".join(parts)
        return raw + crc32(raw).to_bytes(_CHECKSUM_BYTES, "big")

    @classmethod
    def unpack(cls, raw: bytes) -> Lineage:
        """Return the lineage in ``raw``; empty bytes are an empty lineage. Raises :class:`ValueError`."""
        if not raw:
            return NOTHING
        body = raw[:-_CHECKSUM_BYTES]
        if crc32(body) != int.from_bytes(raw[-_CHECKSUM_BYTES:], "big"):
            raise ValueError("the lineage is damaged")
        try:
            epoch, epoch_end = _HEAD.unpack_from(body)
            traces = tuple(
                Trace(offset, key, int.from_bytes(content, "big"))
                for offset, key, content in _TRACE.iter_unpack(body[_HEAD.size :])
            )
        except struct.error as error:
            raise ValueError("the lineage is inconsistent") from error
        return cls(traces, epoch, epoch_end)


NOTHING = Lineage()


class Mismatch(msgspec.Struct, frozen=True):
    """The finding that a log is not, or no longer, the one from whose records rows were folded.

    An id means a schema within one log only, so rows count as far as the log is proven to hold their records.
    """

    # A full sentence for people.
    reason: str
    # The log is proven to hold the records before this offset.
    common: int = 0
    # False: the rows are of another cluster, so nothing of them is of use here.
    served: bool = True

    def pack(self) -> bytes:
        """Return the finding as bytes."""
        return msgspec.json.encode(self)

    @classmethod
    def unpack(cls, raw: bytes | None) -> Mismatch | None:
        """Return the finding in ``raw``; ``None`` if that is empty. Unreadable bytes prove no record."""
        if not raw:
            return None
        try:
            return msgspec.json.decode(raw, type=cls)
        except msgspec.MsgspecError:
            return cls("the store has a finding about its log that this release cannot read")


# The value of ``Mismatch.common`` if there is no log at all that could differ.
ALL_RECORDS = 1 << 62


def too_long(at_end_ms: int, now_ms: int, retention_ms: int | None, margin_ms: int) -> str:
    """Return why rows last at the log's end at ``at_end_ms`` cannot be continued; empty if they can.

    A log keeps the record of a deletion only for a time. Rows that were last at the log's end before that may
    hold what such a record deleted, and would hold it forever, so they are rebuilt. This applies to a store
    that was offline, to a snapshot that is loaded, and to the base of a newer snapshot.

    Times are ms since the epoch, perhaps from the clocks of two hosts; ``margin_ms`` is how much these may
    differ.
    ``retention_ms``: how long the log keeps deletions at least; ``None``: forever, as far as these rows go. A
    time in the future means that a clock was set back, so the real age is unknown.
    """
    if retention_ms is None:
        return ""
    away_ms = now_ms - at_end_ms
    if away_ms < -margin_ms:
        return "it was last at the log's end at a time in the future, so the clock was set back"
    if away_ms <= max(0, retention_ms - margin_ms):
        return ""
    away_s, kept_s = away_ms // 1000, retention_ms // 1000
    return f"it was last at the log's end {away_s} s ago, and the log keeps deletions for {kept_s} s"
