"""The JSON that members of the group exchange, and the rules of the election among them. Pure.

Confluent 8.x: a member's metadata is ``{"host":"sr1","port":8081,"master_eligibility":true,"scheme":"http",
"version":1,"leader":false}``. Its assignment is ``{"error":0,"master":"sr-1-3f…","master_identity":{…},
"version":1}``, without ``master`` and ``master_identity`` if no member was elected.

Confluent 8.x: the group's leader elects and sends the result to all. Only eligible members may be elected;
with ``leader.election.sticky`` the one that claims to be the primary, otherwise the smallest URL by string
comparison. If two members have the same URL, the error is 1, and the elected one is still named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from election.contract import Event, NoPrimary, PrimaryIs, Won
from election.identity import VERSION, Identity, duplicates, from_json, own_fields, rejections, to_json

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


NOBODY_ELIGIBLE = "no node of the group is eligible"


@dataclass(frozen=True)
class Ballot:
    """The members that may be elected."""

    # True if the first candidate is the primary already, so that no candidate has to be probed.
    sticky: bool
    # In order of preference.
    candidates: Sequence[Member]
    # The reason for each rejected member, by member id.
    rejected: Mapping[str, str]
    error: int


def hold_election(members: Sequence[Member]) -> Ballot:
    """Return who may be elected among ``members``."""
    nodes = {member.id: member.identity for member in members}
    by_url = sorted(members, key=lambda member: (member.identity.url, member.id))
    eligible = [member for member in by_url if member.identity.eligible]
    claiming = [member for member in eligible if member.claims]
    rejected = rejections(nodes, claiming[0].id if claiming else None)
    return Ballot(
        sticky=any(member.id not in rejected for member in claiming),
        candidates=[
            member
            for member in sorted(eligible, key=lambda member: not member.claims)
            if member.id not in rejected
        ],
        rejected=rejected,
        error=DUPLICATE_URLS if duplicates(nodes) else OK,
    )


def elect(ballot: Ballot, unreachable: Mapping[str, str]) -> Member | None:
    """Return the winner: the first candidate not in ``unreachable`` (by member id), else the first of all.

    A primary that some nodes cannot reach is better than none.
    """
    reachable = [member for member in ballot.candidates if member.id not in unreachable]
    return next(iter(reachable or ballot.candidates), None)


def assignments(members: Sequence[Member], ballot: Ballot, winner: Member | None) -> dict[str, Assignment]:
    """Return the assignment of each of ``members``, by member id."""
    return {
        member.id: Assignment(
            error=ballot.error,
            primary=winner.id if winner else "",
            identity=winner.identity if winner else None,
            rejected=ballot.rejected.get(member.id, ""),
        )
        for member in members
    }


def interpret(assignment: Assignment, member_id: str, own: Identity, *, primary: bool) -> Event:
    """Return what ``assignment`` means to the member ``member_id``; ``primary``: it is the primary now.

    Confluent 8.x: a member is elected if the identity equals its own, regardless of the member id; an error
    changes nothing. Here the member id decides if it is given, because it distinguishes two nodes with one
    URL. If the group's leader is a node of this project (it passes our fields on), it rejects the offending
    nodes by name, so its error need not keep another node from winning.
    """
    if assignment.rejected:
        return NoPrimary(assignment.rejected, rejected=True)
    if assignment.identity is None:
        return NoPrimary(NOBODY_ELIGIBLE)
    mine = assignment.primary == member_id if assignment.primary else assignment.identity.same(own)
    if mine and (primary or assignment.error == OK or assignment.identity.node):
        return Won()
    if assignment.identity.url == own.url:
        return NoPrimary(
            f"this node and another one advertise {own.url}:"
            " give each an address of its own with --advertise",
            rejected=True,
        )
    return PrimaryIs(assignment.identity)
