"""A node's place in the group: it joins, says that it lives, and joins again when the group rebalances."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from election.kafka import wire
from election.kafka.payloads import Assignment
from election.kafka.rebalance import Again, Elector, Removed, check, rebalance
from election.kafka.wire import Coordinator, Place, Trouble, refusal

NOWHERE = Place("", -1)
PAUSE_S = 0.05
FORMER_AFTER_BEATS = 3
"""A first join that waits for longer waits for somebody dead: maybe for this node's own former life."""
MEMBER = frozenset({wire.OK, wire.REBALANCING})
"""Answers to a heartbeat that say: you are in the group, and nobody was elected since."""


class Hearer(Protocol):
    """Whom a membership tells what it hears."""

    def says(self) -> bytes:
        """What this member says of itself in the next join."""
        ...

    def hears(self, told: Assignment | None, asked_at: float) -> None:
        """The group knew this member at some moment after ``asked_at`` (the event loop's clock).

        What it was ``told`` last held then; ``None``: nothing yet.
        """
        ...

    def removed(self) -> None:
        """The group does not know this member any more."""
        ...


class Membership:
    """Lives on when the connection to the coordinator does not; ``hearer`` hears what comes of it.

    ``client_id`` is this node's alone, in this life and the next; "": it has none.
    """

    def __init__(self, hearer: Hearer, elector: Elector, heartbeat_s: float, client_id: str) -> None:
        self._hearer = hearer
        self._elector = elector
        self._heartbeat_s = heartbeat_s
        self._client_id = client_id
        self._joining = False
        self._ever_told = False
        self._starts_over = False
        self._rejoin = asyncio.Event()
        self._beat_now = asyncio.Event()
        self.place = NOWHERE
        self.told: Assignment | None = None
        """What the last rebalance said; ``None``: nothing that holds still."""

    async def keep(self, coordinator: Coordinator) -> None:
        """Join and stay until there is :class:`~election.kafka.wire.Trouble`, or the task is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._beat(coordinator))
                tasks.create_task(self._stay_joined(coordinator))
        except* Trouble as troubles:
            raise Trouble(str(troubles.exceptions[0])) from troubles

    async def leave(self, coordinator: Coordinator) -> None:
        """Leave, as far as the coordinator can be reached."""
        with contextlib.suppress(Trouble):
            if self.place.member_id:
                await coordinator.leave(self.place.member_id)
            else:
                await coordinator.leave_unnamed()

    def join_again(self) -> None:
        """Say anew what this member is; the place in the group stays."""
        self._rejoin.set()

    def start_over(self) -> None:
        """Leave, and join as a new member."""
        self._starts_over = True
        self._rejoin.set()

    def beat_now(self) -> None:
        """Do not wait for the next heartbeat's time: something has changed."""
        self._beat_now.set()

    async def heartbeat(self, coordinator: Coordinator) -> int:
        """Ask whether the place stands, and take in what the answer means; the answer's error code."""
        place, asked_at = self.place, asyncio.get_running_loop().time()
        if place.rebalance < 0:
            return wire.UNKNOWN_MEMBER
        code = await coordinator.heartbeat(place)
        if place != self.place:
            return wire.OTHER_REBALANCE
        if code in MEMBER:
            self._hearer.hears(self.told, asked_at)
        if not self._joining:
            self._react(code)
        return code

    def _react(self, code: int) -> None:
        if code == wire.UNKNOWN_MEMBER:
            self._removed()
        elif code in wire.AGAIN:
            self._rejoin.set()
        elif code != wire.OK:
            raise refusal(code)

    async def _beat(self, coordinator: Coordinator) -> None:
        beats = 0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._beat_now.wait()
            self._beat_now.clear()
            beats += 1
            if self.place.rebalance >= 0:
                await self.heartbeat(coordinator)
            else:
                await coordinator.ask_where()
                if beats == FORMER_AFTER_BEATS and self._client_id and not self._ever_told:
                    await self._evict_former(coordinator)

    async def _evict_former(self, coordinator: Coordinator) -> None:
        """Make members leave that have this node's name: it was killed before it could leave.

        Only before this node is first told anything: two that live with one name would evict each other for
        ever.
        """
        for member in await coordinator.members():
            if member.client_id == self._client_id and member.id != self.place.member_id:
                await coordinator.leave(member.id)

    async def _stay_joined(self, coordinator: Coordinator) -> None:
        if await self._stands(coordinator):
            await self._rejoin.wait()
        while True:
            if self._starts_over:
                await self.leave(coordinator)
                self._removed()
            self._rejoin.clear()
            self._joining = True
            try:
                await self._join(coordinator)
            finally:
                self._joining = False
            await self._rejoin.wait()

    async def _stands(self, coordinator: Coordinator) -> bool:
        """Over a new connection: whether the group is as it was told last."""
        told = self.told is not None and not self._rejoin.is_set()
        return told and await self.heartbeat(coordinator) == wire.OK

    async def _join(self, coordinator: Coordinator) -> None:
        """Take part in one rebalance; its result is heard once a heartbeat has confirmed it."""
        try:
            self.told = await rebalance(
                coordinator, self.place.member_id, self._hearer.says(), self._elector, self._place_is
            )
            self._ever_told = True
            check(await self.heartbeat(coordinator))
        except Removed:
            self._removed()
        except Again:
            self._rejoin.set()
            await asyncio.sleep(PAUSE_S)

    def _place_is(self, place: Place) -> None:
        self.place, self.told = place, None

    def _removed(self) -> None:
        self._place_is(NOWHERE)
        self._starts_over = False
        self._hearer.removed()
        self._rejoin.set()
