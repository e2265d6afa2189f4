"""A node's part in the election by ZooKeeper."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from election.announcer import Announcer
from election.contract import Event, Identity, Lost, NoPrimary, PrimaryIs, Reachable, Won
from election.probe import unreachable
from election.zookeeper import counter
from election.zookeeper.connection import PAUSE_S, Connection, Trouble
from election.zookeeper.roll import Roll
from election.zookeeper.tree import PRIMARY, Tree, meaning

LOG = logging.getLogger(__name__)
SESSION_TIMEOUT_S = 6.0
HOLD_BACK_S = 1.0
"""For how long a node that cannot reach its own address leaves the office to others."""


class ZooKeeperElection:
    """The first to create the primary's node is elected, and stays until its session ends.

    A connection that is lost ends a primaryship at once: ZooKeeper may say something else to others by now.
    A candidate whose own advertised address does not answer holds back for a second, so that one that can be
    reached comes first; a primary that some cannot reach is better than none.

    ``chroot`` is the path that Confluent calls ``/`` + ``schema.registry.zk.namespace``. ``auth`` is
    ``USER:PASSWORD`` for the scheme "digest", or "": then nodes are open to all.
    """

    def __init__(
        self,
        hosts: str,
        chroot: str,
        own: Identity,
        *,
        reachable: Reachable | None = None,
        session_timeout_s: float = SESSION_TIMEOUT_S,
        auth: str = "",
    ) -> None:
        self._hosts = hosts
        self._own = own
        self._reachable = reachable
        self._session_timeout_s = session_timeout_s
        self._announcer = Announcer()
        self._look_now = asyncio.Event()
        self._connection = Connection(hosts, chroot, session_timeout_s, auth, self._changed)
        self._roll = Roll(self._connection, own)
        self._tree: Tree | None = None
        self._held_back_at: float | None = None
        self._retired = False
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def events(self) -> AsyncIterator[Event]:
        """Connect, if that has not happened, and say what changes."""
        self._retired = False
        self._look_now.set()
        if self._task is None and self._closing is None:
            self._connection.start()
            self._task = asyncio.get_running_loop().create_task(self._take_part(), name="election")
        return self._announcer.events()

    async def confirm(self) -> bool:
        """Whether the ensemble, asked now, has this session's node as the primary's."""
        if not self._connection.connected:
            return False
        try:
            await self._connection.catch_up(PRIMARY)
            found = await self._roll.office()
        except Trouble:
            return False
        return found is not None and found.owner == self._connection.session and self._announcer.won

    async def resign(self) -> None:
        """Delete the primary's node, if it is this node's."""
        self._retired = True
        self._announcer.tell(Lost("this node resigned"))
        with contextlib.suppress(Trouble):
            await self._roll.vacate(self._connection.session)
        self._look_now.set()

    async def evict(self, identity: Identity) -> bool:
        """Delete the primary's node, if it is that of ``identity``; no need to wait for its session's end."""
        tree = self._tree
        if tree is None or tree.primary is None or tree.primary == tree.session:
            return False
        if tree.nodes.get(tree.primary) != identity:
            return False
        try:
            return await self._roll.vacate(tree.primary)
        except Trouble:
            return False

    async def advance(self, upto: int) -> int:
        """Let the counter of schema ids be at least ``upto``; the value found before.

        Raises :class:`~election.zookeeper.connection.Trouble`.
        """
        return await counter.advance(self._connection, upto)

    async def close(self) -> None:
        """End the session."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="election closes")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._announcer.tell(Lost("this node stops"))
        self._announcer.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            await self._connection.close()

    def _changed(self) -> None:
        if not self._connection.connected:
            self._announcer.tell(Lost("the connection to ZooKeeper is lost"))
        self._look_now.set()

    async def _take_part(self) -> None:
        while True:
            await self._news()
            try:
                if self._connection.connected:
                    await self._look()
            except Trouble as trouble:
                await self._after_trouble(str(trouble))
            except Exception as error:
                LOG.exception("the election goes on after an error that should not be")
                await self._after_trouble(f"the election failed: {error}")

    async def _news(self) -> None:
        """Wait for a reason to look; say so when there is no connection for long."""
        try:
            async with asyncio.timeout(self._session_timeout_s / 3):
                await self._look_now.wait()
        except TimeoutError:
            if not self._connection.connected:
                self._hear_trouble(f"ZooKeeper at {self._hosts} cannot be reached")
            elif self._held_back_at is None:
                await self._look_now.wait()
        self._look_now.clear()

    async def _after_trouble(self, reason: str) -> None:
        self._hear_trouble(reason)
        await asyncio.sleep(PAUSE_S)
        self._look_now.set()

    def _hear_trouble(self, reason: str) -> None:
        if not isinstance(self._announcer.standing, Won | PrimaryIs):
            self._announcer.tell(NoPrimary(reason))

    @property
    def _identity(self) -> Identity:
        return replace(self._own, eligible=self._own.eligible and not self._retired)

    async def _look(self) -> None:
        """See who is there, say it, and take the office if it is vacant."""
        self._tree = tree = await self._roll.call()
        verdict = meaning(tree, self._identity)
        if tree.primary != tree.session:
            self._announcer.tell(Lost("the primary's node is gone, or another's"))
        if tree.primary == tree.session and (self._retired or not isinstance(verdict, Won)):
            self._announcer.tell(
                verdict if isinstance(verdict, NoPrimary) else NoPrimary("this node resigned")
            )
            await self._roll.vacate(tree.session)
        elif verdict is None:
            await self._stand()
        elif self._connection.connected:
            self._held_back_at = None
            self._announcer.tell(verdict)

    async def _stand(self) -> None:
        """Take the office, unless this node should hold back; who was quicker is told by the watch."""
        now = asyncio.get_running_loop().time()
        if self._held_back_at is None:
            self._held_back_at = now
        reason = await unreachable(self._reachable, self._own)
        if reason and now - self._held_back_at < HOLD_BACK_S:
            asyncio.get_running_loop().call_later(HOLD_BACK_S, self._look_now.set)
            return
        if reason:
            LOG.warning("%s takes the office although it cannot be reached: %s", self._own.name, reason)
        if not self._retired:
            await self._roll.take_office()
        self._look_now.set()
