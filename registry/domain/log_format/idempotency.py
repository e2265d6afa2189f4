"""The record header of a command: its idempotency key and a summary of its reply, on the last of its records.

All nodes that follow the log learn from these headers which commands were executed. So when a command is sent
again, a new primary answers as the former one did instead of executing it twice. Headers are not part of the
truth: rows come from keys and values alone, and a log without headers folds to the same rows.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.commands import IDEMPOTENCY_KEY_BYTES

_WITH_BRIEF, _WITHOUT = b"\x01", b"\x00"
# The size of a record header without a brief.
HEADER_BYTES_MIN = 1 + IDEMPOTENCY_KEY_BYTES


class CommandHeader(NamedTuple):
    """The record header of an executed command."""

    # The id of the idempotency key.
    idempotency_key: bytes
    # See :class:`.decide.Decision`; ``None`` if it did not fit: the reply is lost.
    brief: bytes | None


def pack_header(idempotency_key: bytes, brief: bytes, bytes_max: int) -> bytes:
    """Return a record header; the brief is left out if it would take more than ``bytes_max``."""
    header = b"%b%b%b" % (_WITH_BRIEF, idempotency_key, brief)
    return header if len(header) <= bytes_max else _WITHOUT + idempotency_key


def unpack_header(raw: bytes) -> CommandHeader | None:
    """Return the record header; ``None`` if it is not of this format."""
    if len(raw) < HEADER_BYTES_MIN or raw[:1] not in (_WITH_BRIEF, _WITHOUT):
        return None
    idempotency_key = raw[1:HEADER_BYTES_MIN]
    return CommandHeader(idempotency_key, raw[HEADER_BYTES_MIN:] if raw[:1] == _WITH_BRIEF else None)
