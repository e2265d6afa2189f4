"""The JSON that the members of the group exchange.

Confluent 8.x: what a member says of itself is ``{"host":"sr1","port":8081,"master_eligibility":true,
"scheme":"http","version":1,"leader":false}``, what it is told is ``{"error":0,"master":"sr-1-3f…",
"master_identity":{…},"version":1}``, without ``master`` and ``master_identity`` where nobody was elected.
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

    id: str
    """As the group's coordinator named it."""
    identity: Identity
    claims: bool
    """Whether it says that it is the primary."""


@dataclass(frozen=True)
class Assignment:
    """What a member is told."""

    error: int
    primary: str
    """The member id of the primary; "": nobody."""
    identity: Identity | None
    refused: str = ""
    """Why the member that is told may not be the primary; a field of this project's."""


def written_member(identity: Identity, *, claims: bool, plain: bool = False) -> bytes:
    """What a member says of itself; only Confluent's fields when ``plain``."""
    return _json(_claiming(identity, claims=claims) | ({} if plain else own_fields(identity)))


def read_member(member_id: str, payload: bytes) -> Member:
    """The member that said ``payload``. Raises :class:`ValueError`."""
    fields = _object(payload)
    return Member(member_id, from_json(fields), fields.get("leader") is True)


def written_assignment(assignment: Assignment, *, plain: bool = False) -> bytes:
    """What a member is told; only Confluent's fields when ``plain``."""
    told: dict[str, Any] = {"error": assignment.error}
    if assignment.identity is not None:
        identity = _claiming(assignment.identity, claims=False)
        told["master"] = assignment.primary
        told["master_identity"] = identity | ({} if plain else own_fields(assignment.identity))
    told["version"] = VERSION
    if assignment.refused and not plain:
        told["registrar_refused"] = assignment.refused
    return _json(told)


def read_assignment(payload: bytes) -> Assignment:
    """What ``payload`` tells. Raises :class:`ValueError`."""
    fields = _object(payload)
    error, primary, refused = fields.get("error"), fields.get("master"), fields.get("registrar_refused")
    told = fields.get("master_identity")
    return Assignment(
        error=error if type(error) is int else OK,
        primary=primary if isinstance(primary, str) else "",
        identity=None if told is None else from_json(told),
        refused=refused if isinstance(refused, str) else "",
    )


def _claiming(identity: Identity, *, claims: bool) -> dict[str, Any]:
    return to_json(identity, plain=True) | {"leader": claims}


def _object(payload: bytes) -> dict[str, Any]:
    """The JSON object in ``payload``; :class:`ValueError` also for what is no UTF-8."""
    fields = json.loads(payload)
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  one kind of error for all that is wrong
    return fields


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
