"""Values of configs, modes and associations in the log's records, written and read.

The time of creation of an association is that of the first record of its key, which compaction drops. So
later records hold it as ``createTs``, a member that Confluent's servers read and never write (8.3.1). The
GUID, a UUID of version 7 (RFC 9562), holds it roughly: that outlasts updates by those servers, too, as they
keep it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from registry.domain import model
from registry.domain.model import Subject

from .jackson import dumps
from .records import TENANT, AssociationKey
from .values import BadValue, convert, one_of, optional_flag, optional_text, read_object, subject_member

LEVELS = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
)  # fmt: skip
# Levels that compare with the versions in use by the newest census, and the level that a log keeps for each,
# with ``compatibilityUsed``: other programs know only that level. They ignore the member.
USED_LEVELS = {f"{way}_USED": f"{way}_TRANSITIVE" for way in ("BACKWARD", "FORWARD", "FULL")}
POLICIES = ("STRICT", "LENIENT", "LOGICAL")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")


def config_value(subject: Subject, members: Mapping[str, Any]) -> bytes:
    """Return the value of a config; ``members`` are named as in the log, plain or :mod:`.model` structs."""
    out = subject_member(subject)
    for name in _CONFIG:
        value = members.get(name)
        if isinstance(value, msgspec.Struct):
            out[name] = msgspec.to_builtins(value)
        elif value is not None and value != "":
            out[name] = value
    return dumps(out)


def mode_value(subject: Subject, mode: str) -> bytes:
    """Return the value of a mode."""
    return dumps(subject_member(subject) | {"mode": mode})


def read_mode(raw: bytes) -> str:
    """Return the mode."""
    mode = read_object(raw).get("mode")
    if type(mode) is not str or mode not in MODES:
        raise BadValue("mode is unknown")
    return mode


def read_config(subject: Subject, raw: bytes) -> bytes:
    """Return the config as this registry writes it: only known members, and the subject of its key."""
    fields = read_object(raw)
    return config_value(subject, {name: read(fields, name) for name, read in _CONFIG.items()})


def _metadata(fields: dict[str, Any], name: str) -> Any:
    value = fields.get(name)
    return None if value is None else convert(name, value, model.metadata)


def _rule_set(fields: dict[str, Any], name: str) -> Any:
    value = fields.get(name)
    return None if value is None else convert(name, value, model.rule_set)


# The members of a config in the log's order, and how to read each.
_CONFIG: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "alias": optional_text,
    "aliasForDeks": optional_text,
    "normalize": optional_flag,
    "validateFields": optional_flag,
    "validateNewSchemas": optional_flag,
    "validateRules": optional_flag,
    "compatibilityLevel": one_of(*LEVELS),
    "compatibilityPolicy": one_of(*POLICIES),
    "compatibilityGroup": optional_text,
    "defaultMetadata": _metadata,
    "overrideMetadata": _metadata,
    "defaultRuleSet": _rule_set,
    "overrideRuleSet": _rule_set,
    "compatibilityUsed": optional_flag,
}


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


def creation_time(guid: str, first: int) -> int:
    """Return the time of creation in ms; ``first``: that of the oldest known record, or its ``createTs``."""
    from_guid = time_of_guid(guid)
    return first if from_guid is None or first - from_guid <= WRITTEN_WITHIN_MS else from_guid


def guid_with_time(guid: str, ms: int) -> str:
    """Return the GUID with its time replaced."""
    return new_guid(ms, bytes.fromhex(guid.replace("-", "")))
