"""The digest of rows: equal rows have equal digests, in whatever order they were written.

It is the sum, modulo 2**128, of a hash of each row. So it can be updated with every change, and the digests
of parts add up to the digest of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh3_128_intdigest

EMPTY = 0
MODULUS = 2**128
# The maximum length of hashed keys; LMDB's keys end at 511 bytes.
_LENGTHS = [b"%d:" % length for length in range(512)]


def row_hash(key: bytes, value: bytes) -> int:
    """Return the XXH3 hash (128 bits) of the key's length (decimal), a colon, the key and the value.

    It detects damage and bugs, not forgery; a cryptographic hash would take a quarter of the fold's time.
    """
    return xxh3_128_intdigest(b"%d:%b%b" % (len(key), key, value))


def total(rows: Iterable[tuple[bytes, bytes | None]]) -> int:
    """Return the sum of the hashes of many rows, not reduced; rows with the value ``None`` do not count."""
    lengths = _LENGTHS
    return sum(
        [xxh3_128_intdigest(lengths[len(key)] + key + value) for key, value in rows if value is not None]
    )


def digest_after_change(digest: int, key: bytes, old: bytes | None, new: bytes | None) -> int:
    """Return the digest after a row changed from ``old`` to ``new``; ``None`` for an absent row."""
    if new is not None:
        digest += row_hash(key, new)
    if old is not None:
        digest -= row_hash(key, old)
    return digest % MODULUS


def of_rows(rows: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the digest of all these rows."""
    return total(rows) % MODULUS


def combine(digests: Iterable[int]) -> int:
    """Return the digest of several disjoint parts together."""
    return sum(digests) % MODULUS


def text(digest: int) -> str:
    """Return the digest as 32 hexadecimal digits."""
    return f"{digest:032x}"
