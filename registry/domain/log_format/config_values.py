"""Values of configs and modes in the log's records, written and read; by the rules of :mod:`.values`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from registry.domain import model
from registry.domain.model import Subject

from .jackson import dumps
from .values import BadValue, convert, one_of, optional_flag, optional_text, read_object, subject_member

LEVELS = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
)  # fmt: skip
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
}
