"""Who is elected among the members of a group, and what an assignment means to its receiver. Pure.

Confluent 8.x: the group's own first member elects, and sends the result to all. Eligible members only; with
``leader.election.sticky`` the one that says it is the primary; else the smallest URL by string comparison.
Two members with one URL: error 1, with the elected one still named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from election.contract import Event, NoPrimary, PrimaryIs, Won
from election.identity import Identity
from election.kafka.payloads import DUPLICATE_URLS, OK, Assignment, Member
from election.rejections import duplicates, refusals

NOBODY_ELIGIBLE = "no node of the group is eligible"


@dataclass(frozen=True)
class Election:
    """The members that may be elected, the best first."""

    sticky: bool
    """Whether the first is the primary already, so that nobody need ask whether it can be reached."""
    candidates: Sequence[Member]
    refused: Mapping[str, str]
    """The reason for each member id that is refused."""
    error: int


def election(members: Sequence[Member]) -> Election:
    """Who may be elected among ``members``: sticky where one claims to be the primary."""
    nodes = {member.id: member.identity for member in members}
    by_url = sorted(members, key=lambda member: (member.identity.url, member.id))
    eligible = [member for member in by_url if member.identity.eligible]
    claiming = [member for member in eligible if member.claims]
    refused = refusals(nodes, claiming[0].id if claiming else None)
    return Election(
        sticky=any(member.id not in refused for member in claiming),
        candidates=[
            member
            for member in sorted(eligible, key=lambda member: not member.claims)
            if member.id not in refused
        ],
        refused=refused,
        error=DUPLICATE_URLS if duplicates(nodes) else OK,
    )


def elected(held: Election, unreachable: Mapping[str, str]) -> Member | None:
    """The winner: the first that is not ``unreachable`` (reasons by member id), or the first of all.

    A primary that some cannot reach is better than none.
    """
    reachable = [member for member in held.candidates if member.id not in unreachable]
    return next(iter(reachable or held.candidates), None)


def assignments(members: Sequence[Member], held: Election, winner: Member | None) -> dict[str, Assignment]:
    """What each of ``members`` is told, by member id."""
    return {
        member.id: Assignment(
            error=held.error,
            primary=winner.id if winner else "",
            identity=winner.identity if winner else None,
            refused=held.refused.get(member.id, ""),
        )
        for member in members
    }


def meaning(told: Assignment, member_id: str, own: Identity, *, primary: bool) -> Event:
    """What ``told`` says to the member ``member_id``, which is the ``primary`` by now or not.

    Confluent 8.x: it is elected if the identity is its own, whatever the member id says; and an error changes
    nothing. Here the member id decides, where it is given: it tells two nodes with one URL apart. A node of
    this project that elects (it passes our fields on) refuses the culprits by name, so that an error need not
    keep another one from winning.
    """
    if told.refused:
        return NoPrimary(told.refused, refused=True)
    if told.identity is None:
        return NoPrimary(NOBODY_ELIGIBLE)
    mine = told.primary == member_id if told.primary else told.identity.same(own)
    if mine and (primary or told.error == OK or told.identity.node):
        return Won()
    if told.identity.url == own.url:
        return NoPrimary(
            f"this node and another one advertise {own.url}:"
            " give each an address of its own with --advertise",
            refused=True,
        )
    return PrimaryIs(told.identity)
