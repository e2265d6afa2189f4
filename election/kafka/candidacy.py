"""A node's part in the election by a Kafka group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from election.announcer import Announcer
from election.contract import Event, Identity, Lost, NoPrimary, PrimaryIs, Reachable, Won
from election.kafka import wire
from election.kafka.assignment import meaning
from election.kafka.membership import MEMBER, PAUSE_S, Membership
from election.kafka.payloads import Assignment, written_member
from election.kafka.rebalance import Elector
from election.kafka.wire import Coordinator, Timing, Trouble

LOG = logging.getLogger(__name__)
SESSION_TIMEOUT_S = 6.0
"""The shortest that a stock broker allows (``group.min.session.timeout.ms``)."""
HEARTBEAT_S = 0.2
"""How soon a member hears that the primary has left; what a broker answers costs it microseconds."""
REBALANCE_SESSIONS = 2
"""For how many sessions the group waits for a member that lives but does not join again."""
PATIENCE_SESSIONS = 3
"""For how many sessions the group may have no primary before a node joins it anew."""
PAUSE_MAX_S = 1.0
"""Between tries to reach Kafka, doubled each time up to this."""


class KafkaElection:
    """Elected by the group ``group``; sticky, so that a node that joins never displaces a primary.

    A rebalance does not end a primaryship: the primary goes on until another one is assigned, the group has
    removed it, or it has heard nothing from Kafka for the length of a session.

    ``security`` are aiokafka's settings for TLS and SASL. ``plain`` leaves this project's fields out of the
    payloads, for a group with Confluent's nodes older than 6.2; peers are then reached by their URL alone.
    ``alive`` is called whenever the group says that this node belongs to it.
    """

    def __init__(
        self,
        servers: str,
        security: Mapping[str, Any],
        group: str,
        own: Identity,
        *,
        reachable: Reachable | None = None,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        heartbeat_s: float = HEARTBEAT_S,
        plain: bool = False,
        alive: Callable[[], object] = lambda: None,
    ) -> None:
        self._alive = alive
        self._servers = servers
        client_id = _client_id(security, own)
        self._security = {**security, "client_id": client_id}
        self._group = group
        self._own = own
        self._plain = plain
        self._timing = Timing(session_timeout_s, session_timeout_s * REBALANCE_SESSIONS)
        elector = Elector(reachable, plain=plain)
        self._membership = Membership(self, elector, heartbeat_s, client_id if own.node else "")
        self._announcer = Announcer()
        self._coordinator: Coordinator | None = None
        self._retired = False
        self._pause_s = PAUSE_S
        self._session_end: asyncio.TimerHandle | None = None
        self._patience_end: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def events(self) -> AsyncIterator[Event]:
        """Join, if that has not happened, and say what changes."""
        if self._retired:
            self._retired = False
            self._membership.join_again()
        if self._task is None and self._closing is None:
            self._task = asyncio.get_running_loop().create_task(self._take_part(), name="election")
        return self._announcer.events()

    async def confirm(self) -> bool:
        """Whether a heartbeat says that this node is still in the group, and nobody was elected since."""
        if self._coordinator is None:
            return False
        try:
            return await self._membership.heartbeat(self._coordinator) in MEMBER and self._announcer.won
        except Trouble:
            return False

    async def resign(self) -> None:
        """Join again as a member that is not eligible: the group elects another one."""
        self._retired = True
        self._announcer.tell(Lost("this node resigned"))
        self._membership.join_again()

    async def evict(self, identity: Identity) -> bool:
        """Make the primary's member leave the group, by the id that the assignment carries."""
        told, place = self._membership.told, self._membership.place
        if told is None or told.identity != identity or told.primary in ("", place.member_id):
            return False
        if self._coordinator is None:
            return False
        try:
            code = await self._coordinator.leave(told.primary)
        except Trouble:
            return False
        self._membership.beat_now()
        return code in (wire.OK, wire.UNKNOWN_MEMBER)

    async def close(self) -> None:
        """Leave the group and end."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="election closes")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._announcer.tell(Lost("this node stops"))
        self._announcer.close()
        for timer in (self._session_end, self._patience_end):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _take_part(self) -> None:
        """Find the coordinator and be a member, again and again, for as long as this task lives."""
        while True:
            try:
                await self._be_member()
            except Trouble as trouble:
                self._hear_trouble(str(trouble))
            except Exception as error:
                LOG.exception("the election goes on after an error that should not be")
                self._hear_trouble(f"the election failed: {error}")
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)

    async def _be_member(self) -> None:
        coordinator = await Coordinator.find(self._servers, self._security, self._group, self._timing)
        self._coordinator = coordinator
        try:
            await self._membership.keep(coordinator)
        except asyncio.CancelledError:
            await self._membership.leave(coordinator)
            raise
        finally:
            self._coordinator = None
            coordinator.close()

    def _hear_trouble(self, reason: str) -> None:
        """Say it, unless there is a primary: then only its session's end, or Kafka, says otherwise."""
        if not isinstance(self._announcer.standing, Won | PrimaryIs):
            self._announcer.tell(NoPrimary(reason))

    @property
    def _identity(self) -> Identity:
        return replace(self._own, eligible=self._own.eligible and not self._retired)

    def says(self) -> bytes:
        """Who this node is, and whether it is the primary."""
        return written_member(self._identity, claims=self._announcer.won, plain=self._plain)

    def hears(self, told: Assignment | None, asked_at: float) -> None:
        """Take ``told`` to hold until the session that was alive at ``asked_at`` ends."""
        loop = asyncio.get_running_loop()
        end = asked_at + self._timing.session_s
        if end <= loop.time():
            raise Trouble("Kafka's answer came when the session may have been over")
        if self._session_end is not None:
            self._session_end.cancel()
        self._session_end = loop.call_at(end, self._session_ends)
        self._pause_s = PAUSE_S
        self._alive()
        if told is not None:
            self._understand(told)

    def removed(self) -> None:
        """Not a member any more, so not the primary."""
        self._announcer.tell(Lost("the group has removed this node"))

    def _session_ends(self) -> None:
        self._announcer.tell(Lost(f"Kafka has not answered for {self._timing.session_s:g} s"))

    def _understand(self, told: Assignment) -> None:
        member_id = self._membership.place.member_id
        event = meaning(told, member_id, self._identity, primary=self._announcer.won)
        if self._retired and isinstance(event, Won):
            event = NoPrimary("this node resigned")
        self._announcer.tell(event, "the group has elected another node")
        self._be_patient(vacant=isinstance(event, NoPrimary))

    def _be_patient(self, *, vacant: bool) -> None:
        """When the group has had no primary for long, join it anew, whatever keeps it from one."""
        if self._patience_end is not None and not vacant:
            self._patience_end.cancel()
            self._patience_end = None
        elif self._patience_end is None and vacant and self._identity.eligible:
            patience_s = PATIENCE_SESSIONS * self._timing.session_s
            self._patience_end = asyncio.get_running_loop().call_later(patience_s, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience_end = None
        self._membership.start_over()


def _client_id(security: Mapping[str, Any], own: Identity) -> str:
    """Names the node, so that its next life finds what a killed one has left in the group."""
    client_id = str(security.get("client_id") or "registrar")
    return f"{client_id}-{own.node}" if own.node else client_id
