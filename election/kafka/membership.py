"""A node's membership in the group, from the first join to the last leave."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from election.announcer import Announcer
from election.contract import Event, Identity, Lost, NoPrimary, PrimaryIs, Reachable, Won
from election.kafka import wire
from election.kafka.assignment import meaning
from election.kafka.payloads import Assignment, written_member
from election.kafka.rebalance import Again, Elector, Removed, check, rebalance
from election.kafka.wire import Coordinator, Place, Timing, Trouble, refusal

LOG = logging.getLogger(__name__)
SESSION_TIMEOUT_S = 6.0
"""The shortest that a stock broker allows (``group.min.session.timeout.ms``)."""
HEARTBEAT_S = 0.3
"""How soon a member hears that the primary has left; what a broker answers costs it microseconds."""
REBALANCE_TIMEOUTS = 2
"""For how many sessions the group waits for a member that lives but does not join again."""
PATIENCE_SESSIONS = 3
"""For how many sessions the group may have no primary before a node joins it anew."""
PAUSE_S = 0.05
PAUSE_MAX_S = 1.0
"""Between tries to reach Kafka; the first, doubled each time up to the last."""
NOWHERE = Place("", -1)
MEMBER = frozenset({wire.OK, wire.REBALANCING})
"""Answers to a heartbeat that say: you are in the group, and nobody was elected since."""


class KafkaElection:
    """Elected by the group ``group``; sticky, so that a node that joins never displaces a primary.

    A rebalance does not end a primaryship: the primary goes on until another one is assigned, the group has
    removed it, or it has heard nothing from Kafka for the length of a session.

    ``security`` are aiokafka's settings for TLS and SASL. ``plain`` leaves this project's fields out of the
    payloads, for a group with Confluent's nodes older than 6.2; peers are then reached by their URL alone.
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
    ) -> None:
        self._servers = servers
        self._security = security
        self._group = group
        self._own = own
        self._plain = plain
        self._timing = Timing(session_timeout_s, session_timeout_s * REBALANCE_TIMEOUTS)
        self._heartbeat_s = heartbeat_s
        self._elector = Elector(reachable, plain=plain)
        self._announcer = Announcer()
        self._coordinator: Coordinator | None = None
        self._place = NOWHERE
        self._told: Assignment | None = None
        self._retired = False
        self._joining = False
        self._rejoin = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._expiry: asyncio.TimerHandle | None = None
        self._alone_since: float | None = None
        self._pause_s = PAUSE_S
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def events(self) -> AsyncIterator[Event]:
        """Join, if that has not happened, and say what changes."""
        if self._retired:
            self._retired = False
            self._rejoin.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._take_part(), name="election")
        return self._announcer.events()

    async def confirm(self) -> bool:
        """Whether a heartbeat says that this node is still in the group, and nobody was elected since."""
        if self._coordinator is None:
            return False
        try:
            return await self._heartbeat(self._coordinator) in MEMBER and self._announcer.won
        except Trouble:
            return False

    async def resign(self) -> None:
        """Join again as a member that is not eligible: the group elects another one."""
        self._retired = True
        self._announcer.tell(Lost("this node resigned"))
        self._rejoin.set()

    async def evict(self, identity: Identity) -> bool:
        """Make the primary's member leave the group, by the id that the assignment carries."""
        told = self._told
        if told is None or told.identity != identity or told.primary in ("", self._place.member_id):
            return False
        if self._coordinator is None:
            return False
        try:
            code = await self._coordinator.leave(told.primary)
        except Trouble:
            return False
        self._beat_now.set()
        return code in (wire.OK, wire.UNKNOWN_MEMBER)

    async def close(self) -> None:
        """Leave the group and end."""
        self._announcer.tell(Lost("this node stops"))
        self._announcer.close()
        if self._expiry is not None:
            self._expiry.cancel()
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _take_part(self) -> None:
        """Find the coordinator again and again, for as long as this task lives."""
        while True:
            try:
                self._coordinator = await Coordinator.find(
                    self._servers, self._security, self._group, self._timing
                )
                await self._be_member(self._coordinator)
            except Trouble as trouble:
                self._hear_trouble(str(trouble))
            except Exception as error:
                LOG.exception("the election goes on after an error that should not be")
                self._hear_trouble(f"the election failed: {error}")
            finally:
                if self._coordinator is not None:
                    self._coordinator.close()
                    self._coordinator = None
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)

    def _hear_trouble(self, reason: str) -> None:
        """Say it, unless there is a primary: then only its session's end, or Kafka, says otherwise."""
        if not isinstance(self._announcer.standing, Won | PrimaryIs):
            self._announcer.tell(NoPrimary(reason))

    async def _be_member(self, coordinator: Coordinator) -> None:
        """Join and stay until there is trouble; leave when the task is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat(coordinator))
                tasks.create_task(self._stay_joined(coordinator))
        except* Trouble as troubles:
            raise Trouble(str(troubles.exceptions[0])) from troubles
        finally:
            if self._closing and self._place.member_id:
                with contextlib.suppress(Trouble):
                    await coordinator.leave(self._place.member_id)

    async def _stay_joined(self, coordinator: Coordinator) -> None:
        if await self._place_stands(coordinator):
            await self._rejoin.wait()
        while True:
            self._rejoin.clear()
            self._joining = True
            try:
                await self._join(coordinator)
            finally:
                self._joining = False
            await self._rejoin.wait()

    async def _place_stands(self, coordinator: Coordinator) -> bool:
        """Over a new connection: whether the group is as it was told last."""
        told = self._told is not None and not self._rejoin.is_set()
        return told and await self._heartbeat(coordinator) == wire.OK

    async def _join(self, coordinator: Coordinator) -> None:
        """Take part in one rebalance; its result is heard once a heartbeat has confirmed it."""
        says = written_member(self._identity, claims=self._announcer.won, plain=self._plain)
        try:
            self._told = await rebalance(
                coordinator, self._place.member_id, says, self._elector, self._place_is
            )
            check(await self._heartbeat(coordinator))
        except Removed:
            self._removed()
        except Again:
            self._rejoin.set()
            await asyncio.sleep(PAUSE_S)

    @property
    def _identity(self) -> Identity:
        return replace(self._own, eligible=self._own.eligible and not self._retired)

    def _place_is(self, place: Place) -> None:
        self._place, self._told = place, None

    def _removed(self) -> None:
        self._place_is(NOWHERE)
        self._announcer.tell(Lost("the group has removed this node"))
        self._rejoin.set()

    async def _beat(self, coordinator: Coordinator) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._beat_now.wait()
            self._beat_now.clear()
            if self._place.rebalance < 0:
                await coordinator.ask_where()
            else:
                await self._heartbeat(coordinator)
            await self._look_for_primary(coordinator)

    async def _heartbeat(self, coordinator: Coordinator) -> int:
        """Ask whether this node's place stands, and take in what the answer means."""
        place, asked_at = self._place, asyncio.get_running_loop().time()
        if place.rebalance < 0:
            return wire.UNKNOWN_MEMBER
        code = await coordinator.heartbeat(place)
        if place != self._place:
            return wire.OTHER_REBALANCE
        if code in MEMBER:
            self._lives(asked_at)
        if self._joining:
            return code
        if code == wire.UNKNOWN_MEMBER:
            self._removed()
        elif code in wire.AGAIN:
            self._rejoin.set()
        elif code != wire.OK:
            raise refusal(code)
        return code

    def _lives(self, asked_at: float) -> None:
        """The group knew this node at some moment after ``asked_at``: what it was told holds until then."""
        loop = asyncio.get_running_loop()
        until = asked_at + self._timing.session_s
        if until <= loop.time():
            raise Trouble("Kafka's answer came when the session may have been over")
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = loop.call_at(until, self._expire)
        self._pause_s = PAUSE_S
        if self._told is not None:
            self._hear(self._told)

    def _expire(self) -> None:
        self._announcer.tell(Lost(f"Kafka has not answered for {self._timing.session_s:g} s"))

    def _hear(self, told: Assignment) -> None:
        event = meaning(told, self._place.member_id, self._identity, primary=self._announcer.won)
        if self._retired and isinstance(event, Won):
            event = NoPrimary("this node resigned")
        self._announcer.tell(event, "the group has elected another node")

    async def _look_for_primary(self, coordinator: Coordinator) -> None:
        """Leave, to join anew, when the group has had no primary for long: whatever keeps it from one."""
        now = asyncio.get_running_loop().time()
        settled = self._told is not None and self._identity.eligible
        if not (settled and isinstance(self._announcer.standing, NoPrimary)):
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > PATIENCE_SESSIONS * self._timing.session_s:
            self._alone_since = None
            await coordinator.leave(self._place.member_id)
            self._removed()
