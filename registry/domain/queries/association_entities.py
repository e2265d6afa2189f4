"""JSON bodies of the API about associations (Confluent 8.x)."""

from __future__ import annotations

from typing import Any

import msgspec

from registry.domain.log_format.jackson import dumps

from .association_rules import AssociationRules
from .associations import STRONG, WEAK, Association


def entity(found: Association, rules: AssociationRules) -> dict[str, Any]:
    """Return the ``Association`` as the API shows it."""
    implied = rules.omits_implied_frozen and found.is_frozen == found.strong
    shown = msgspec.structs.replace(
        found,
        lifecycle=STRONG if found.strong else WEAK,
        frozen=None if implied else found.is_frozen,
        create_ts=found.created,
    )
    return {"subject": shown.subject, **msgspec.to_builtins(shown)}


def tail_of(found: list[Association], rules: AssociationRules) -> bytes:
    """Return the member of ``ExtendedSchema`` for associations after a comma; empty if there are none."""
    return b',"associations":' + dumps([entity(each, rules) for each in found]) if found else b""


def info(found: Association, schema: bytes | None = None) -> dict[str, Any]:
    """Return an association as the answer about its resource has it; ``schema``: JSON of its ``Schema``."""
    members = {
        "subject": found.subject,
        "associationType": found.association_type,
        "lifecycle": STRONG if found.strong else WEAK,
        "frozen": found.is_frozen,
        "schema": None if schema is None else msgspec.Raw(schema),
    }
    return {name: value for name, value in members.items() if value is not None}


def response(
    name: str | None,
    namespace: str | None,
    resource_id: str | None,
    resource_type: str | None,
    infos: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return ``AssociationResponse`` without absent and empty members (Confluent 8.x)."""
    members = {
        "resourceName": name,
        "resourceNamespace": namespace,
        "resourceId": resource_id,
        "resourceType": resource_type,
        "associations": infos,
    }
    return {name: value for name, value in members.items() if value}
