"""The header of a command's last record: the command's idempotency key and a summary of its reply.

Every node that follows the log learns from these headers which commands were done. So a new primary answers a
command that is sent again as the former primary would have, instead of executing it twice. Headers are not
part of the truth: rows come from keys and values alone, and a log without headers folds to the same rows.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.domain.commands import IDEMPOTENCY_KEY_BYTES

_WITH_BRIEF, _WITHOUT = b"\x01", b"\x00"
# Of a record header without a brief.
HEADER_BYTES_MIN = 1 + IDEMPOTENCY_KEY_BYTES


class CommandHeader(NamedTuple):
    """A command that was done."""

    # The idempotency key's id.
    idempotency_key: bytes
    # See :class:`.decide.Decision`; ``None`` where there was no room for it: the reply is lost.
    brief: bytes | None


def pack_header(idempotency_key: bytes, brief: bytes, bytes_max: int) -> bytes:
    """A record header as it stands in the log, without its brief where that takes more than ``bytes_max``."""
    header = b"%b%b%b" % (_WITH_BRIEF, idempotency_key, brief)
    return header if len(header) <= bytes_max else _WITHOUT + idempotency_key


def unpack_header(raw: bytes) -> CommandHeader | None:
    """Return the record header; ``None`` for what is none of this version's."""
    if len(raw) < HEADER_BYTES_MIN or raw[:1] not in (_WITH_BRIEF, _WITHOUT):
        return None
    idempotency_key = raw[1:HEADER_BYTES_MIN]
    return CommandHeader(idempotency_key, raw[HEADER_BYTES_MIN:] if raw[:1] == _WITH_BRIEF else None)
