"""Associations in the log's records: their values, and their GUIDs, which carry the time of creation.

The time of creation is that of the first record of a key, which compaction drops. So later records hold it
as ``createTs``, a member that Confluent's servers read and never write (8.3.1). The GUID, a UUID of version 7
(RFC 9562), holds it roughly: that outlasts updates by those servers, too, as they keep it.
"""

from __future__ import annotations

import re

from .jackson import dumps
from .records import TENANT, AssociationKey
from .values import one_of, optional_flag, optional_text, read_object

LIFECYCLES = ("STRONG", "WEAK")
# Ms from the making of a GUID until its first record is in the log; a later record is an update.
WRITTEN_WITHIN_MS = 30_000
_VERSION, _VARIANT = 7, 2
_TIMED = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def read_association(key: AssociationKey, raw: bytes, ts: int) -> bytes:
    """Return the association as JSON in Confluent's order, with the time of its record as ``updateTs``.

    Without ``createTs`` it was created at that time.
    """
    fields = read_object(raw)
    out = {
        "guid": optional_text(fields, "guid"),
        "tenant": TENANT,
        "resourceName": key.resource_name,
        "resourceNamespace": key.resource_namespace,
        "resourceId": optional_text(fields, "resourceId"),
        "resourceType": key.resource_type,
        "associationType": key.association_type,
        "subject": key.subject.qualified,
        "lifecycle": one_of(*LIFECYCLES)(fields, "lifecycle"),
        "frozen": optional_flag(fields, "frozen"),
        "createTs": ts if type(fields.get("createTs")) is not int else fields["createTs"],
        "updateTs": ts,
    }
    return dumps({name: value for name, value in out.items() if value is not None and value != ""})


def new_guid(ms: int, chance: bytes) -> str:
    """Return a GUID for a time in ms since the epoch; ``chance`` holds at least 10 random bytes."""
    low = int.from_bytes(chance[-10:], "big")
    low = (low & ~(0xF << 76) & ~(0x3 << 62)) | (_VERSION << 76) | (_VARIANT << 62)
    digits = f"{ms & (2**48 - 1):012x}{low:020x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def time_of_guid(guid: str) -> int | None:
    """Return the time in ms since the epoch that a GUID carries; ``None`` for GUIDs of other versions."""
    match = _TIMED.fullmatch(guid)
    return None if match is None else int(match[1] + match[2], 16)


def created(guid: str, first: int) -> int:
    """Return the time of creation in ms; ``first``: that of the oldest known record, or its ``createTs``."""
    from_guid = time_of_guid(guid)
    return first if from_guid is None or first - from_guid <= WRITTEN_WITHIN_MS else from_guid


def guid_with_time(guid: str, ms: int) -> str:
    """Return the GUID with its time replaced."""
    return new_guid(ms, bytes.fromhex(guid.replace("-", "")))
