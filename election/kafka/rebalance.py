"""One rebalance of the group, as a member sees it: join, elect if chosen as leader, sync."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from election.contract import Reachable
from election.kafka import wire
from election.kafka.assignment import (
    Assignment,
    Member,
    assignments,
    decode_assignment,
    decode_member,
    elected,
    encode_assignment,
    hold_election,
)
from election.kafka.wire import Coordinator, JoinedMember, error_for
from election.rejections import unreachable

LOG = logging.getLogger(__name__)


class RejoinNeeded(Exception):
    """The group rebalances again; the member must rejoin."""


class MemberRemoved(Exception):
    """The group no longer knows this member; it must join as a new one."""


class Elector:
    """Elects the primary if this member leads the group. ``plain``: without this project's own fields."""

    def __init__(self, reachable: Reachable | None, *, plain: bool) -> None:
        self._reachable = reachable
        self._plain = plain

    async def assign(self, metadata: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
        """Return every member's assignment, from each member's metadata."""
        members = _decode_all(metadata)
        ballot = hold_election(members)
        ask = not ballot.sticky and len(ballot.candidates) > 1
        absent = await self._unreachable(ballot.candidates) if ask else {}
        winner = elected(ballot, absent)
        # A primary that some nodes cannot reach is better than none.
        if winner and winner.id in absent:
            LOG.warning(
                "%s is elected although no candidate can be reached: %s",
                winner.identity.name,
                absent[winner.id],
            )
        assigned = assignments(members, ballot, winner)
        # For members whose metadata could not be decoded.
        default = Assignment(ballot.error, winner.id if winner else "", winner.identity if winner else None)
        return {
            name: encode_assignment(assigned.get(name, default), plain=self._plain) for name, _ in metadata
        }

    async def _unreachable(self, candidates: Sequence[Member]) -> dict[str, str]:
        """Return the reason for each candidate that cannot be reached from here, by member id."""
        reasons = await asyncio.gather(
            *(unreachable(self._reachable, member.identity) for member in candidates)
        )
        return {member.id: reason for member, reason in zip(candidates, reasons, strict=True) if reason}


def _decode_all(metadata: Sequence[tuple[str, bytes]]) -> list[Member]:
    members = []
    for member_id, payload in metadata:
        try:
            members.append(decode_member(member_id, payload))
        except ValueError as error:
            LOG.warning("ignoring member %s of the group in the election: %s", member_id, error)
    return members


async def rebalance(
    coordinator: Coordinator,
    member_id: str,
    payload: bytes,
    elector: Elector,
    on_joined: Callable[[JoinedMember], None],
) -> Assignment:
    """Take part in one rebalance with the metadata ``payload``; return this member's assignment.

    ``on_joined`` gets the member id and generation as soon as they are known. Raises :class:`RejoinNeeded`,
    :class:`MemberRemoved`, and :class:`~election.kafka.wire.RequestFailed`.
    """
    joined = await coordinator.join(member_id, payload)
    if joined.code == wire.MEMBER_ID_REQUIRED:
        on_joined(joined.member)
        joined = await coordinator.join(joined.member.member_id, payload)
    raise_for_code(joined.code)
    on_joined(joined.member)
    assigned = await elector.assign(joined.members) if joined.members else {}
    code, answer = await coordinator.sync(joined.member, assigned)
    raise_for_code(code)
    try:
        return decode_assignment(answer)
    except ValueError as error:
        raise wire.RequestFailed(f"cannot decode the assignment of the group's leader: {error}") from error


def raise_for_code(code: int) -> None:
    """Raise the exception for an answer's error code, unless it is success."""
    if code == wire.UNKNOWN_MEMBER:
        raise MemberRemoved
    if code in wire.REJOIN_CODES:
        raise RejoinNeeded
    if code != wire.OK:
        raise error_for(code)
