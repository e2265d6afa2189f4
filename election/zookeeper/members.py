"""The znodes of the members and of the primary."""

from __future__ import annotations

import logging

from election.identity import Identity
from election.zookeeper.connection import Connection, ZNode, ZooKeeperError
from election.zookeeper.tree import COUNTER, MEMBERS, PRIMARY, Tree, decode, encode, stale_sessions

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
                    "who may access the znode %s of the election stays as it is: %s", path or "/", error
                )

    async def _remove(self, session: int) -> None:
        await self.delete_primary(session)
        for path, owner, _ in await self._list():
            if owner == session:
                await self._connection.delete(path)
