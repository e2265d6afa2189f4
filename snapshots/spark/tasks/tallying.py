"""Differences between the row counts and the digest of a snapshot and those of its base."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_intdigest

from registry.domain.rows import digest
from snapshots.format.parts import KEY_BYTES_MAX

from .columns import Columns, first_bytes


class TallyMessage(msgspec.Struct, frozen=True):
    """A tally on its way between processes."""

    counts: dict[str, int]
    # In hexadecimal.
    digest: str

    @property
    def value(self) -> tuple[dict[str, int], int]:
        """The counts and the digest."""
        return self.counts, int(self.digest, 16)


_LENGTHS = pa.array([b"%d:" % length for length in range(KEY_BYTES_MAX + 1)], pa.binary())
_NOTHING = pa.scalar(b"", pa.binary())
_decode = msgspec.msgpack.Decoder(TallyMessage).decode
_encode = msgspec.msgpack.Encoder().encode


class Tally:
    """Counts rows that are added and removed, by the letter of their table, and sums their hashes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.digest = digest.EMPTY

    def put_all(self, rows: Columns) -> None:
        """Add rows."""
        tables = np.bincount(first_bytes(rows.keys), minlength=1)
        self.counts.update({chr(table): int(tables[table]) for table in np.flatnonzero(tables)})
        self.digest += _total(rows)

    def gone(self, key: bytes, value: bytes) -> None:
        """Remove a row."""
        self.counts[chr(key[0])] -= 1
        self.digest -= digest.row_hash(key, value)

    def message(self) -> TallyMessage:
        """Return the tally as it travels."""
        return TallyMessage(dict(self.counts), digest.text(self.digest % digest.MODULUS))

    def dumps(self) -> bytes:
        """Return the tally, for :func:`loads`."""
        return _encode(self.message())


def loads(raw: bytes) -> tuple[dict[str, int], int]:
    """Return the counts and the digest of a tally."""
    return _decode(raw).value


def _total(rows: Columns) -> int:
    """Return what :func:`registry.domain.rows.digest.total` returns, in half the time."""
    lengths = _LENGTHS.take(pc.binary_length(rows.keys))
    hashed = pc.binary_join_element_wise(lengths, rows.keys, rows.values, _NOTHING)
    return sum(map(xxh3_128_intdigest, hashed.to_pylist()))
