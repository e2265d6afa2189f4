"""A node's membership in the group: joins, elections while it rebalances, heartbeats, and rejoins."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from election.identity import Reachable, unreachable
from election.kafka import wire
from election.kafka.assignment import (
    Assignment,
    Member,
    assignments,
    decode_assignment,
    decode_member,
    elect,
    encode_assignment,
    hold_election,
)
from election.kafka.wire import Coordinator, JoinedMember, RequestFailed, error_for

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
        winner = elect(ballot, absent)
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


NOT_JOINED = JoinedMember("", -1)
BACKOFF_MIN_S = 0.05
# A first join that takes longer waits for a dead member, perhaps this node's own former life.
EVICT_AFTER_HEARTBEATS = 3
# Answers to a heartbeat that mean: still a member, and no other primary was elected.
STILL_MEMBER = frozenset({wire.OK, wire.REBALANCING})


class MembershipListener(Protocol):
    """Receives the events of a membership."""

    def own_metadata(self) -> bytes:
        """Return this member's metadata for the next join."""
        ...

    def on_assignment(self, assignment: Assignment | None, asked_at: float) -> None:
        """Called when the group still knew this member at some moment after ``asked_at`` (event-loop time).

        ``assignment`` was then in force; ``None``: there was none yet.
        """
        ...

    def on_removed(self) -> None:
        """Called when the group no longer knows this member."""
        ...


class Membership:
    """Survives the connection to the coordinator.

    ``client_id`` is unique to this node and stable over restarts; "": it has none.
    """

    def __init__(
        self, listener: MembershipListener, elector: Elector, heartbeat_s: float, client_id: str
    ) -> None:
        self._listener = listener
        self._elector = elector
        self._heartbeat_s = heartbeat_s
        self._client_id = client_id
        self._joining = False
        self._ever_assigned = False
        self._leave_first = False
        self._rejoin = asyncio.Event()
        self._heartbeat_now = asyncio.Event()
        self.member = NOT_JOINED
        # The result of the last rebalance; None if it is no longer in force.
        self.assignment: Assignment | None = None

    async def keep(self, coordinator: Coordinator) -> None:
        """Join and stay in the group. Raises :class:`~election.kafka.wire.RequestFailed`."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._heartbeats(coordinator))
                tasks.create_task(self._stay_joined(coordinator))
        except* RequestFailed as errors:
            raise RequestFailed(str(errors.exceptions[0])) from errors

    async def leave(self, coordinator: Coordinator) -> None:
        """Leave the group if the coordinator can be reached."""
        with contextlib.suppress(RequestFailed):
            if self.member.member_id:
                await coordinator.leave(self.member.member_id)
            else:
                await coordinator.leave_pending()

    def rejoin(self) -> None:
        """Join again with new metadata, as the same member."""
        self._rejoin.set()

    def leave_and_rejoin(self) -> None:
        """Leave, then join as a new member."""
        self._leave_first = True
        self._rejoin.set()

    def heartbeat_now(self) -> None:
        """Send the next heartbeat at once, because something has changed."""
        self._heartbeat_now.set()

    async def heartbeat(self, coordinator: Coordinator) -> int:
        """Send a heartbeat and act on the answer; return its error code."""
        member, asked_at = self.member, asyncio.get_running_loop().time()
        if member.generation_id < 0:
            return wire.UNKNOWN_MEMBER
        code = await coordinator.heartbeat(member)
        if member != self.member:
            return wire.OTHER_REBALANCE
        if code in STILL_MEMBER:
            self._listener.on_assignment(self.assignment, asked_at)
        if not self._joining:
            self._react(code)
        return code

    def _react(self, code: int) -> None:
        if code == wire.UNKNOWN_MEMBER:
            self._handle_removal()
        elif code in wire.REJOIN_CODES:
            self._rejoin.set()
        elif code != wire.OK:
            raise error_for(code)

    async def _heartbeats(self, coordinator: Coordinator) -> None:
        heartbeats = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._heartbeat_now.wait()
            self._heartbeat_now.clear()
            heartbeats += 1
            if self.member.generation_id >= 0:
                await self.heartbeat(coordinator)
            else:
                await coordinator.check_coordinator()
                if heartbeats == EVICT_AFTER_HEARTBEATS and self._client_id and not self._ever_assigned:
                    await self._evict_former_life(coordinator)

    async def _evict_former_life(self, coordinator: Coordinator) -> None:
        """Remove members with this node's client id: it was killed before it could leave.

        Only before this node's first assignment: two live nodes with one client id would evict each other
        forever.
        """
        for member in await coordinator.members():
            if member.client_id == self._client_id and member.id != self.member.member_id:
                await coordinator.leave(member.id)

    async def _stay_joined(self, coordinator: Coordinator) -> None:
        if await self._still_in_force(coordinator):
            await self._rejoin.wait()
        while True:
            if self._leave_first:
                await self.leave(coordinator)
                self._handle_removal()
            self._rejoin.clear()
            self._joining = True
            try:
                await self._join(coordinator)
            finally:
                self._joining = False
            await self._rejoin.wait()

    async def _still_in_force(self, coordinator: Coordinator) -> bool:
        """Return True if the last assignment still holds, as seen over a new connection."""
        assigned = self.assignment is not None and not self._rejoin.is_set()
        return assigned and await self.heartbeat(coordinator) == wire.OK

    async def _join(self, coordinator: Coordinator) -> None:
        """Take part in one rebalance. Its result counts once a heartbeat has confirmed it."""
        try:
            self.assignment = await rebalance(
                coordinator,
                self.member.member_id,
                self._listener.own_metadata(),
                self._elector,
                self._on_joined,
            )
            self._ever_assigned = True
            raise_for_code(await self.heartbeat(coordinator))
        except MemberRemoved:
            self._handle_removal()
        except RejoinNeeded:
            self._rejoin.set()
            await asyncio.sleep(BACKOFF_MIN_S)

    def _on_joined(self, member: JoinedMember) -> None:
        self.member, self.assignment = member, None

    def _handle_removal(self) -> None:
        self._on_joined(NOT_JOINED)
        self._leave_first = False
        self._listener.on_removed()
        self._rejoin.set()
