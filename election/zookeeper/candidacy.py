"""A node's part in the election by ZooKeeper, and its znodes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from election.contract import Announcer, ErrorLog, Event, Lost, NoPrimary, PrimaryIs, Reachable, Won
from election.identity import Identity, unreachable
from election.zookeeper.connection import BACKOFF_MIN_S, Connection, Tls, ZNode, ZooKeeperError
from election.zookeeper.connection import unreachable as servers_unreachable
from election.zookeeper.tree import COUNTER, MEMBERS, PRIMARY, Tree, decode, encode, stale_sessions, verdict

LOG = logging.getLogger(__name__)
# Znodes that outlive sessions: the root, and two below it.
LASTING = ("", MEMBERS, COUNTER)


class Members:
    """Keeps ``own`` registered. Methods raise :class:`~election.zookeeper.connection.ZooKeeperError`."""

    def __init__(self, connection: Connection, own: Identity) -> None:
        self._connection = connection
        self._own = own
        self._enrolled = False

    async def refresh(self) -> Tree:
        """Return the members, with this node registered; a watch reports every later change.

        The first call removes the znodes of this node's former life: it was killed, and its session would
        stay primary, or keep its address, for a while. Later calls do not, because two live nodes with one
        name would remove each other forever.
        """
        tree = await self._read()
        if tree.session in tree.members:
            return tree
        if not self._enrolled:
            for session in stale_sessions(tree, self._own):
                await self._remove(session)
            await self._renew_access()
        await self._connection.create(f"{MEMBERS}/n-", encode(self._own), ephemeral=True, sequence=True)
        self._enrolled = True
        return await self._read()

    async def create_primary(self) -> bool:
        """Create the primary's znode; return False if another node was faster."""
        return (
            await self._connection.create(PRIMARY, encode(self._own, plain=True), ephemeral=True) is not None
        )

    async def delete_primary(self, session: int) -> bool:
        """Delete the primary's znode if it belongs to ``session``; return True if so."""
        found = await self.primary_node()
        if found is None or found.owner != session:
            return False
        return await self._connection.delete(PRIMARY, found.version)

    async def primary_node(self) -> ZNode | None:
        """Return the primary's znode."""
        return await self._connection.get(PRIMARY)

    async def _read(self) -> Tree:
        members = {owner: identity for _, owner, identity in await self._list()}
        found = await self._connection.get(PRIMARY, watch=True)
        return Tree(
            self._connection.session,
            members,
            found.owner if found else None,
            decode(found.data) if found else None,
        )

    async def _list(self) -> list[tuple[str, int, Identity]]:
        """Return path, session and identity of every member."""
        await self._connection.create(MEMBERS, b"")
        members = []
        for name in await self._connection.children(MEMBERS):
            path = f"{MEMBERS}/{name}"
            found = await self._connection.get(path)
            identity = decode(found.data) if found else None
            if found and identity:
                members.append((path, found.owner, identity))
        return members

    async def _renew_access(self) -> None:
        for path in LASTING:
            try:
                await self._connection.renew_access(path)
            except ZooKeeperError as error:
                LOG.warning(
                    "cannot change the access to the znode %s of the election: %s", path or "/", error
                )

    async def _remove(self, session: int) -> None:
        await self.delete_primary(session)
        for path, owner, _ in await self._list():
            if owner == session:
                await self._connection.delete(path)


SESSION_TIMEOUT_S = 6.0
# How long a node that cannot reach its own address lets other nodes go first.
HOLD_BACK_S = 1.0
# After which a first connection that is still not there is reported; others take part of the session's time.
ANNOUNCE_AFTER_S = 0.7


class ZooKeeperElection:
    """The first node to create the primary's znode is elected, and stays primary until its session ends.

    A lost connection ends the primary role at once, because ZooKeeper may have elected another node
    meanwhile. A candidate whose own advertised address does not answer holds back for a second, so that a
    reachable one goes first; a primary that some nodes cannot reach is better than none.

    ``chroot`` is ``/`` + Confluent's ``schema.registry.zk.namespace``. ``auth`` has ``USER:PASSWORD`` for the
    scheme "digest" on each line; if it is "", znodes are open to all. ``tls`` is ``None`` for connections
    without TLS.
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
        tls: Tls | None = None,
    ) -> None:
        self._hosts = hosts
        self._tls = tls
        self._own = own
        self._reachable = reachable
        self._session_timeout_s = session_timeout_s
        self._announcer = Announcer()
        self._errors = ErrorLog(LOG)
        self._check_now = asyncio.Event()
        self._connection = Connection(hosts, chroot, session_timeout_s, auth, self._handle_change, tls)
        self._members = Members(self._connection, own)
        self._tree: Tree | None = None
        self._holding_back_since: float | None = None
        self._resigned = self._reported = False
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        # Changes of the counter happen in the order in which they were asked for.
        self._counting = asyncio.Lock()

    def events(self) -> AsyncIterator[Event]:
        """Yield changes, see :meth:`.contract.Election.events`; connect at the first call."""
        self._resigned = False
        self._check_now.set()
        if self._task is None and self._closing is None:
            self._connection.start()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="election")
        return self._announcer.events()

    async def confirm(self) -> bool:
        """Return True if the ensemble says now that the primary's znode belongs to this session."""
        if not self._connection.is_connected:
            return False
        try:
            await self._connection.catch_up(PRIMARY)
            found = await self._members.primary_node()
        except ZooKeeperError:
            return False
        return found is not None and found.owner == self._connection.session and self._announcer.is_primary

    async def resign(self) -> None:
        """Delete the primary's znode if it is this node's."""
        self._resigned = True
        self._announcer.announce(Lost("this node resigned"))
        with contextlib.suppress(ZooKeeperError):
            await self._members.delete_primary(self._connection.session)
        self._check_now.set()

    async def evict(self, identity: Identity) -> bool:
        """Delete the primary's znode if it is that of ``identity``, without waiting for its session's end."""
        tree = self._tree
        if tree is None or tree.primary is None or tree.primary == tree.session:
            return False
        if tree.nodes.get(tree.primary) != identity:
            return False
        try:
            return await self._members.delete_primary(tree.primary)
        except ZooKeeperError:
            return False

    async def advance(self, upto: int) -> int:
        """Raise the schema id counter to at least ``upto``; return its former value.

        Raises :class:`~election.zookeeper.connection.ZooKeeperError`.
        """
        async with self._counting:
            return await advance(self._connection, upto)

    async def lower(self, since: int, to: int) -> bool:
        """Lower the schema id counter to ``to`` if it is still ``since``; return True if so.

        Raises :class:`~election.zookeeper.connection.ZooKeeperError`.
        """
        async with self._counting:
            found = await self._connection.get(COUNTER)
            if found is None or _number(found.data) != since:
                return False
            return await self._connection.put(COUNTER, str(to).encode(), found.version)

    async def close(self) -> None:
        """End the session."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(), name="election closes")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._announcer.announce(Lost("this node stops"))
        self._announcer.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            await self._connection.close()

    def _handle_change(self) -> None:
        if not self._connection.is_connected:
            self._announcer.announce(Lost("the connection to ZooKeeper is lost"))
        self._check_now.set()

    async def _run(self) -> None:
        while True:
            await self._wait_for_change()
            try:
                if self._connection.is_connected:
                    await self._check()
                    self._errors.clear()
            except ZooKeeperError as error:
                await self._after_error(str(error))
            except Exception as error:
                self._errors.report()
                await self._after_error(f"the election failed: {error}")

    async def _wait_for_change(self) -> None:
        """Wait for a reason to check again; report a connection that stays lost."""
        try:
            async with asyncio.timeout(self._session_timeout_s / 3 if self._reported else ANNOUNCE_AFTER_S):
                await self._check_now.wait()
        except TimeoutError:
            if not (self._connection.is_connected or self._reported):
                self._report_error(f"waiting for ZooKeeper at {self._hosts}")
            elif not self._connection.is_connected:
                self._report_error(await servers_unreachable(self._hosts, self._tls))
            elif self._holding_back_since is None:
                await self._check_now.wait()
            self._reported = True
        self._check_now.clear()

    async def _after_error(self, reason: str) -> None:
        self._report_error(reason)
        await asyncio.sleep(BACKOFF_MIN_S)
        self._check_now.set()

    def _report_error(self, reason: str) -> None:
        if not isinstance(self._announcer.latest, Won | PrimaryIs):
            self._announcer.announce(NoPrimary(reason))

    @property
    def _identity(self) -> Identity:
        return replace(self._own, eligible=self._own.eligible and not self._resigned)

    async def _check(self) -> None:
        """Read the members, announce the primary, and try to become primary if there is none."""
        self._tree = tree = await self._members.refresh()
        event = verdict(tree, self._identity)
        if tree.primary != tree.session:
            self._announcer.announce(Lost("the primary's znode is gone or belongs to another node"))
        if tree.primary == tree.session and (self._resigned or not isinstance(event, Won)):
            self._announcer.announce(
                event if isinstance(event, NoPrimary) else NoPrimary("this node resigned")
            )
            await self._members.delete_primary(tree.session)
        elif event is None:
            await self._try_to_win()
        elif self._connection.is_connected:
            self._holding_back_since = None
            self._announcer.announce(event)

    async def _try_to_win(self) -> None:
        """Become primary unless this node should hold back. A watch reports if another node was faster."""
        now = asyncio.get_running_loop().time()
        if self._holding_back_since is None:
            self._holding_back_since = now
        reason = await unreachable(self._reachable, self._own)
        if reason and now - self._holding_back_since < HOLD_BACK_S:
            asyncio.get_running_loop().call_later(HOLD_BACK_S, self._check_now.set)
            return
        if reason:
            LOG.warning("%s becomes primary although it cannot be reached: %s", self._own.name, reason)
        if not self._resigned:
            await self._members.create_primary()
        self._check_now.set()


async def advance(connection: Connection, upto: int) -> int:
    """Raise the counter to at least ``upto`` by compare-and-set; return its former value (0: none).

    Raises :class:`~election.zookeeper.connection.ZooKeeperError`.
    """
    while True:
        found = await connection.get(COUNTER)
        if found is None:
            if await connection.create(COUNTER, str(upto).encode()):
                return 0
            continue
        value = _number(found.data)
        if value >= upto or await connection.put(COUNTER, str(upto).encode(), found.version):
            return value


def _number(data: bytes) -> int:
    if not data.isdigit():
        raise ZooKeeperError(f"ZooKeeper's node {COUNTER} does not hold a number: {data[:40]!r}")
    return int(data)
