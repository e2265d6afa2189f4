"""Differences between the row counts and the digest of a snapshot and those of its base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from registry.domain.rows import digest


class TallyMessage(msgspec.Struct, frozen=True):
    """A tally on its way between processes."""

    counts: dict[str, int]
    # In hexadecimal.
    digest: str

    @property
    def value(self) -> tuple[dict[str, int], int]:
        """The counts and the digest."""
        return self.counts, int(self.digest, 16)


_decode = msgspec.msgpack.Decoder(TallyMessage).decode
_encode = msgspec.msgpack.Encoder().encode


class Tally:
    """Counts rows that are added and removed, by the letter of their table, and sums their hashes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.digest = digest.EMPTY

    def put_all(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Add the rows that have a value."""
        puts = [key[0] for key, value in zip(keys, values, strict=True) if value is not None]
        self.counts.update({chr(table): count for table, count in Counter(puts).items()})
        self.digest += digest.total(zip(keys, values, strict=True))

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
