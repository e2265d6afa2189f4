"""Kafka's record batches with content that no client library writes."""

from __future__ import annotations

import struct

from aiokafka.record.util import calc_crc32c

_LENGTH_AT, _CHECKSUM_AT, _CHECKED_FROM = 8, 17, 21


def with_header_key(batch: bytes, key: bytes, odd: bytes, cut: int = 0) -> bytes:
    """Return an uncompressed batch with another key of a header, of the same length.

    ``cut``: so many bytes are missing at the end. Length and checksum are right.
    """
    data = bytearray(batch.replace(key, odd))
    del data[len(data) - cut :]
    struct.pack_into(">i", data, _LENGTH_AT, len(data) - _LENGTH_AT - 4)
    struct.pack_into(">I", data, _CHECKSUM_AT, calc_crc32c(bytes(data[_CHECKED_FROM:])))
    return bytes(data)
