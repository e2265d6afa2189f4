"""One rebalance of the group, as a member goes through it: join, elect if asked to, hear the result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from election.contract import Reachable
from election.kafka import wire
from election.kafka.assignment import assignments, elected, election
from election.kafka.payloads import Assignment, Member, read_assignment, read_member, written_assignment
from election.kafka.wire import Coordinator, Place, refusal
from election.probe import unreachable

LOG = logging.getLogger(__name__)


class Again(Exception):
    """The group rebalances anew; join again."""


class Removed(Exception):
    """The group does not know this member any more; join as a new one."""


class Elector:
    """Elects where the group asks this member to. ``plain``: without fields of this project's."""

    def __init__(self, reachable: Reachable | None, *, plain: bool) -> None:
        self._reachable = reachable
        self._plain = plain

    async def assign(self, said: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
        """What every member is told, from what each has ``said`` of itself."""
        members = _readable(said)
        held = election(members)
        ask = not held.sticky and len(held.candidates) > 1
        absent = await self._unreachable(held.candidates) if ask else {}
        winner = elected(held, absent)
        if winner and winner.id in absent:
            LOG.warning(
                "%s is elected although no candidate can be reached: %s",
                winner.identity.name,
                absent[winner.id],
            )
        told = assignments(members, held, winner)
        unread = Assignment(held.error, winner.id if winner else "", winner.identity if winner else None)
        return {name: written_assignment(told.get(name, unread), plain=self._plain) for name, _ in said}

    async def _unreachable(self, candidates: Sequence[Member]) -> dict[str, str]:
        """The reason for each candidate that cannot be reached from here, by member id."""
        reasons = await asyncio.gather(
            *(unreachable(self._reachable, member.identity) for member in candidates)
        )
        return {member.id: reason for member, reason in zip(candidates, reasons, strict=True) if reason}


def _readable(said: Sequence[tuple[str, bytes]]) -> list[Member]:
    members = []
    for member_id, payload in said:
        try:
            members.append(read_member(member_id, payload))
        except ValueError as error:
            LOG.warning("member %s of the group is left out of the election: %s", member_id, error)
    return members


async def rebalance(
    coordinator: Coordinator,
    member_id: str,
    payload: bytes,
    elector: Elector,
    place_is: Callable[[Place], None],
) -> Assignment:
    """Take part in one rebalance with ``payload``; what this member is told at its end.

    ``place_is`` hears each place as soon as it is known. Raises :class:`Again`, :class:`Removed`, and
    :class:`~election.kafka.wire.Trouble`.
    """
    joined = await coordinator.join(member_id, payload)
    if joined.code == wire.MEMBER_ID_REQUIRED:
        place_is(joined.place)
        joined = await coordinator.join(joined.place.member_id, payload)
    check(joined.code)
    place_is(joined.place)
    told = await elector.assign(joined.members) if joined.members else {}
    code, answer = await coordinator.sync(joined.place, told)
    check(code)
    try:
        return read_assignment(answer)
    except ValueError as error:
        raise wire.Trouble(f"the group's elector sent what cannot be read: {error}") from error


def check(code: int) -> None:
    """Raise what the error ``code`` of an answer means; nothing for success."""
    if code == wire.UNKNOWN_MEMBER:
        raise Removed
    if code in wire.AGAIN:
        raise Again
    if code != wire.OK:
        raise refusal(code)
