"""The headers of records: the idempotency key of a command, and the principal whose request wrote the record.

All nodes that follow the log learn from these headers which commands were executed. So when a command is sent
again, a new primary answers as the former one did instead of executing it twice. Headers are not part of the
truth: rows come from keys and values alone, and a log without headers folds to the same rows.

It is no part of the truth: rows come from keys and values alone, and a log without principals folds to the
same rows. It stays with its record, for as long as the log keeps that: in Kafka in a record header of its own
(``registry/log/kafka/DESIGN.md``), in the embedded log in a table of its own. Records that a node writes by
itself have none, and neither have those of clients that need not authenticate, or of other writers.

The bytes are the name in UTF-8. Other writers of the topic may have written anything there, so every value
can be read, and no reading depends on it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from registry.domain.commands import IDEMPOTENCY_KEY_BYTES

from .records import Entry

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


# A longer name, such as a certificate's subject, is cut.
PRINCIPAL_BYTES_MAX = 256
# What a record with a principal leaves free of the log's limit: for the name, and what surrounds it there.
PRINCIPAL_ROOM_BYTES = PRINCIPAL_BYTES_MAX + 32
_CUT = "…".encode()
# What neither one line of text nor an attribute of a CloudEvent may hold, and what reorders text on screens.
_NONCHARACTERS = "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17))
_UNFIT = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufdd0-\ufdef{_NONCHARACTERS}]")
_REPLACEMENT = "\ufffd"


def pack_principal(name: str) -> bytes:
    """Return a name as it is stored; empty for the empty name."""
    return _cut(name.encode("utf-8", "replace"))


def unpack_principal(raw: bytes) -> str:
    """Return the name; whatever is no text is replaced, and what is too long is cut."""
    name = _cut(raw).decode("utf-8", "replace")
    return name if name.isprintable() else _UNFIT.sub(_REPLACEMENT, name)


def requested_by(name: str, entries: list[Entry], bytes_max: int) -> list[Entry]:
    """Return the entries with the principal whose request they are; an empty name leaves them as they are.

    ``bytes_max``: of a key and value. The largest records have no room for a name, and none is refused for
    it.
    """
    if not name:
        return entries
    principal = pack_principal(name)
    most = bytes_max - PRINCIPAL_ROOM_BYTES
    return [
        each._replace(principal=principal) if len(each.key) + len(each.value or b"") <= most else each
        for each in entries
    ]


def _cut(raw: bytes) -> bytes:
    """Return at most as many bytes as allowed, with an ellipsis if some are missing."""
    if len(raw) <= PRINCIPAL_BYTES_MAX:
        return raw
    end = PRINCIPAL_BYTES_MAX - len(_CUT)
    while raw[end] & 0xC0 == 0x80 and end > PRINCIPAL_BYTES_MAX - 8:
        end -= 1  # never within a character
    return raw[:end] + _CUT
