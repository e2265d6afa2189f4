"""By how much the rows of a snapshot, and their digest, are others than those of its base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from registry.domain.rows import digest


class Told(msgspec.Struct, frozen=True):
    """A tally as it travels."""

    counts: dict[str, int]
    digest: str
    """Hexadecimal digits."""


_decode = msgspec.msgpack.Decoder(Told).decode
_encode = msgspec.msgpack.Encoder().encode


class Tally:
    """Counts rows that come and go, by the letter of their table, and adds up their hashes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.digest = digest.EMPTY

    def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Rows come, other than where there is no value."""
        self.counts.update([chr(key[0]) for key, value in rows.items() if value is not None])
        self.digest += digest.total(rows.items())

    def gone(self, key: bytes, value: bytes) -> None:
        """A row goes."""
        self.counts[chr(key[0])] -= 1
        self.digest -= digest.row_hash(key, value)

    def dumps(self) -> bytes:
        """The tally, for :func:`loads`."""
        return _encode(Told(dict(self.counts), digest.text(self.digest % digest.MODULUS)))


def loads(raw: bytes) -> tuple[dict[str, int], int]:
    """Counts and digest of a tally."""
    told = _decode(raw)
    return told.counts, int(told.digest, 16)
