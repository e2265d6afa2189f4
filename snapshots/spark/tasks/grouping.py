"""To whom a record belongs, where the JVM cannot tell, and whether its key's last record says it all."""

from __future__ import annotations

from registry.domain.fold.fold import owner
from registry.domain.log_format.records import DeleteSubjectKey, UnreadableKey, decode_key

LAST, EVERY = b"\0", b"\1"


def group_of(key: bytes | None) -> bytes | None:
    """``LAST`` or ``EVERY``, and the owner; ``None`` stays so.

    ``EVERY`` marks soft deletes of subjects: a mark of a lower version after one of a higher takes nothing
    back, so that here more than the key's last record counts, as far as the log still has it.
    """
    if key is None:
        return None
    key = bytes(key)
    try:
        every = isinstance(decode_key(key), DeleteSubjectKey)
    except UnreadableKey:
        every = False
    return (EVERY if every else LAST) + owner(key)
