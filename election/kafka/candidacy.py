"""A node's part in the election by a Kafka group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial

from election.contract import (
    Announcer,
    ErrorLog,
    Event,
    Identity,
    Lost,
    NoPrimary,
    PrimaryIs,
    Reachable,
    Won,
)
from election.kafka import wire
from election.kafka.assignment import Assignment, encode_member, interpret
from election.kafka.membership import BACKOFF_MIN_S, STILL_MEMBER, Elector, Membership
from election.kafka.wire import Connect, Coordinator, RequestFailed, Timeouts

LOG = logging.getLogger(__name__)
# The minimum that a stock broker allows (group.min.session.timeout.ms).
SESSION_TIMEOUT_S = 6.0
# How soon a member learns that the primary has left. A heartbeat costs the broker microseconds.
HEARTBEAT_S = 0.2
# For how many sessions the group waits for a member that is alive but does not rejoin.
REBALANCE_SESSIONS = 2
# For how many sessions the group may have no primary before a node leaves and joins as a new member.
VACANCY_SESSIONS = 3
# Between attempts to reach Kafka, doubled each time up to this.
BACKOFF_MAX_S = 1.0


class KafkaElection:
    """Election by the members of ``group``; sticky, so a node that joins never displaces a primary.

    A rebalance does not end the primary role: the primary stays until another node is assigned, the group has
    removed it, or Kafka has not answered for a whole session timeout.

    ``connect`` makes connections with the login of the settings. ``plain`` omits this project's own fields
    from the payloads, for a group with Confluent's nodes older than 6.2; peers then know each other only by
    URL. The node's id is added to ``client_id``, so that after a kill a node finds its former member.
    ``alive`` is called whenever the group confirms this node's membership.
    """

    def __init__(
        self,
        servers: str,
        connect: Connect,
        group: str,
        own: Identity,
        *,
        reachable: Reachable | None = None,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        client_id: str = "registrar",
        plain: bool = False,
        alive: Callable[[], object] = lambda: None,
    ) -> None:
        self._alive = alive
        self._servers = servers
        client_id = f"{client_id}-{own.node}" if own.node else client_id
        self._connect = partial(connect, client_id=client_id)
        self._group = group
        self._own = own
        self._plain = plain
        self._timeouts = Timeouts(session_timeout_s, session_timeout_s * REBALANCE_SESSIONS)
        elector = Elector(reachable, plain=plain)
        self._membership = Membership(self, elector, HEARTBEAT_S, client_id if own.node else "")
        self._announcer = Announcer()
        self._errors = ErrorLog(LOG)
        self._coordinator: Coordinator | None = None
        self._resigned = False
        self._backoff_s = BACKOFF_MIN_S
        self._session_end: asyncio.TimerHandle | None = None
        self._vacancy_end: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def events(self) -> AsyncIterator[Event]:
        """Yield changes, see :meth:`.contract.Election.events`; join the group at the first call."""
        if self._resigned:
            self._resigned = False
            self._membership.rejoin()
        if self._task is None and self._closing is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="election")
        return self._announcer.events()

    async def confirm(self) -> bool:
        """Return True if a heartbeat confirms the membership and no other primary was elected since."""
        if self._coordinator is None:
            return False
        try:
            return (
                await self._membership.heartbeat(self._coordinator) in STILL_MEMBER
                and self._announcer.is_primary
            )
        except RequestFailed:
            return False

    async def resign(self) -> None:
        """Rejoin as a member that is not eligible, so that the group elects another one."""
        self._resigned = True
        self._announcer.announce(Lost("this node resigned"))
        self._membership.rejoin()

    async def evict(self, identity: Identity) -> bool:
        """Remove the primary's member from the group, by the member id in the assignment."""
        assignment, member = self._membership.assignment, self._membership.member
        if (
            assignment is None
            or assignment.identity != identity
            or assignment.primary in ("", member.member_id)
        ):
            return False
        if self._coordinator is None:
            return False
        try:
            code = await self._coordinator.leave(assignment.primary)
        except RequestFailed:
            return False
        self._membership.heartbeat_now()
        return code in (wire.OK, wire.UNKNOWN_MEMBER)

    async def close(self) -> None:
        """Leave the group and end."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="election closes")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._announcer.announce(Lost("this node stops"))
        self._announcer.close()
        for timer in (self._session_end, self._vacancy_end):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        """Find the coordinator and join the group, and start over after each error."""
        while True:
            try:
                await self._join_group()
            except RequestFailed as error:
                self._report_error(str(error))
            except Exception as error:
                self._errors.report()
                self._report_error(f"the election failed: {error}")
            await asyncio.sleep(self._backoff_s)
            self._backoff_s = min(BACKOFF_MAX_S, self._backoff_s * 2)

    async def _join_group(self) -> None:
        coordinator = await Coordinator.find(self._servers, self._connect, self._group, self._timeouts)
        self._coordinator = coordinator
        try:
            await self._membership.keep(coordinator)
        except asyncio.CancelledError:
            await self._membership.leave(coordinator)
            raise
        finally:
            self._coordinator = None
            coordinator.close()

    def _report_error(self, reason: str) -> None:
        """Announce the error, unless a primary is known: only Kafka or the session's end may change that."""
        if not isinstance(self._announcer.latest, Won | PrimaryIs):
            self._announcer.announce(NoPrimary(reason))

    @property
    def _identity(self) -> Identity:
        return replace(self._own, eligible=self._own.eligible and not self._resigned)

    def own_metadata(self) -> bytes:
        """Return this node's identity, and if it is the primary."""
        return encode_member(self._identity, claims=self._announcer.is_primary, plain=self._plain)

    def on_assignment(self, assignment: Assignment | None, asked_at: float) -> None:
        """Apply ``assignment``; it holds until the session that was alive at ``asked_at`` ends."""
        loop = asyncio.get_running_loop()
        end = asked_at + self._timeouts.session_s
        if end <= loop.time():
            raise RequestFailed("Kafka's answer came after the session may have ended")
        if self._session_end is not None:
            self._session_end.cancel()
        self._session_end = loop.call_at(end, self._session_ends)
        self._backoff_s = BACKOFF_MIN_S
        self._errors.clear()
        self._alive()
        if assignment is not None:
            self._apply(assignment)

    def on_removed(self) -> None:
        """Announce that this node is not the primary, because it is no longer a member."""
        self._announcer.announce(Lost("the group has removed this node"))

    def _session_ends(self) -> None:
        self._announcer.announce(Lost(f"Kafka has not answered for {self._timeouts.session_s:g} s"))

    def _apply(self, assignment: Assignment) -> None:
        member_id = self._membership.member.member_id
        event = interpret(assignment, member_id, self._identity, primary=self._announcer.is_primary)
        if self._resigned and isinstance(event, Won):
            event = NoPrimary("this node resigned")
        self._announcer.announce(event, "the group has elected another node")
        self._watch_vacancy(vacant=isinstance(event, NoPrimary))

    def _watch_vacancy(self, *, vacant: bool) -> None:
        """Leave and join as a new member if the group stays without a primary, whatever the cause."""
        if self._vacancy_end is not None and not vacant:
            self._vacancy_end.cancel()
            self._vacancy_end = None
        elif self._vacancy_end is None and vacant and self._identity.eligible:
            vacancy_s = VACANCY_SESSIONS * self._timeouts.session_s
            self._vacancy_end = asyncio.get_running_loop().call_later(vacancy_s, self._vacancy_too_long)

    def _vacancy_too_long(self) -> None:
        self._vacancy_end = None
        self._membership.leave_and_rejoin()
