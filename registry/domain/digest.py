"""The digest of rows: equal rows have equal digests, in whatever order they were put.

It is the sum, modulo 2**128, of a hash of each row. So it is kept step by step with every change, and the
digests of parts add up to that of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

EMPTY = 0
_MASK = 2**128 - 1


def row_hash(key: bytes, value: bytes) -> int:
    """The hash of one row: BLAKE2b of 16 bytes over the key's length (4 bytes), the key and the value."""
    return int.from_bytes(blake2b(len(key).to_bytes(4, "big") + key + value, digest_size=16).digest(), "big")


def changed(digest: int, key: bytes, old: bytes | None, new: bytes | None) -> int:
    """The digest after a row changed from ``old`` to ``new``; ``None`` where there is no row."""
    if new is not None:
        digest += row_hash(key, new)
    if old is not None:
        digest -= row_hash(key, old)
    return digest & _MASK


def of_rows(rows: Iterable[tuple[bytes, bytes]]) -> int:
    """The digest of all these rows."""
    return sum(row_hash(key, value) for key, value in rows) & _MASK


def united(digests: Iterable[int]) -> int:
    """The digest of the rows of several disjoint parts."""
    return sum(digests) & _MASK


def text(digest: int) -> str:
    """The digest as 32 hexadecimal digits."""
    return f"{digest:032x}"
