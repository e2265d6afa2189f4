"""The JSON that the members of the group exchange.

Confluent 8.x: a member's metadata is ``{"host":"sr1","port":8081,"master_eligibility":true,"scheme":"http",
"version":1,"leader":false}``. Its assignment is ``{"error":0,"master":"sr-1-3f…","master_identity":{…},
"version":1}``, without ``master`` and ``master_identity`` if no member was elected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from election.identity import VERSION, Identity, from_json, own_fields, to_json

OK = 0
DUPLICATE_URLS = 1


@dataclass(frozen=True)
class Member:
    """One member of the group."""

    # The member id that the coordinator assigned.
    id: str
    identity: Identity
    # True if it claims to be the primary.
    claims: bool


@dataclass(frozen=True)
class Assignment:
    """The result of the election, as one member gets it."""

    error: int
    # The member id of the primary; "": none.
    primary: str
    identity: Identity | None
    # Why the receiving member may not be the primary. One of this project's own fields.
    rejected: str = ""


def encode_member(identity: Identity, *, claims: bool, plain: bool = False) -> bytes:
    """Encode a member's metadata; only Confluent's fields if ``plain``."""
    return _json(_claiming(identity, claims=claims) | ({} if plain else own_fields(identity)))


def decode_member(member_id: str, payload: bytes) -> Member:
    """Decode a member's metadata. Raises :class:`ValueError`."""
    fields = _object(payload)
    return Member(member_id, from_json(fields), fields.get("leader") is True)


def encode_assignment(assignment: Assignment, *, plain: bool = False) -> bytes:
    """Encode a member's assignment; only Confluent's fields if ``plain``."""
    fields: dict[str, Any] = {"error": assignment.error}
    if assignment.identity is not None:
        identity = _claiming(assignment.identity, claims=False)
        fields["master"] = assignment.primary
        fields["master_identity"] = identity | ({} if plain else own_fields(assignment.identity))
    fields["version"] = VERSION
    if assignment.rejected and not plain:
        fields["registrar_refused"] = assignment.rejected
    return _json(fields)


def decode_assignment(payload: bytes) -> Assignment:
    """Decode a member's assignment. Raises :class:`ValueError`."""
    fields = _object(payload)
    error, primary, rejected = fields.get("error"), fields.get("master"), fields.get("registrar_refused")
    identity = fields.get("master_identity")
    return Assignment(
        error=error if type(error) is int else OK,
        primary=primary if isinstance(primary, str) else "",
        identity=None if identity is None else from_json(identity),
        rejected=rejected if isinstance(rejected, str) else "",
    )


def _claiming(identity: Identity, *, claims: bool) -> dict[str, Any]:
    return to_json(identity, plain=True) | {"leader": claims}


def _object(payload: bytes) -> dict[str, Any]:
    """Decode a JSON object. Raises :class:`ValueError`, also for bytes that are not UTF-8."""
    fields = json.loads(payload)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  one kind of error for all that is wrong
    return fields


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
