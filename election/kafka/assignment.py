"""The rules of the election among a group's members, and of reading its result. Pure.

Confluent 8.x: the group's leader elects and sends the result to all. Only eligible members may be elected;
with ``leader.election.sticky`` the one that claims to be the primary, otherwise the smallest URL by string
comparison. If two members have the same URL, the error is 1, and the elected one is still named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from election.contract import Event, NoPrimary, PrimaryIs, Won
from election.identity import Identity
from election.kafka.payloads import DUPLICATE_URLS, OK, Assignment, Member
from election.rejections import duplicates, rejections

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


def elected(ballot: Ballot, unreachable: Mapping[str, str]) -> Member | None:
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
