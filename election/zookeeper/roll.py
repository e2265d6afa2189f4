"""The nodes that take part, as they stand in ZooKeeper's tree."""

from __future__ import annotations

from election.identity import Identity
from election.zookeeper.connection import Connection, Found
from election.zookeeper.tree import MEMBERS, PRIMARY, Tree, former_sessions, read, written


class Roll:
    """Keeps ``own`` among the members. Its methods raise :class:`~election.zookeeper.connection.Trouble`."""

    def __init__(self, connection: Connection, own: Identity) -> None:
        self._connection = connection
        self._own = own
        self._enrolled = False

    async def call(self) -> Tree:
        """Who is there, this node among them; every later change is told by a watch.

        The first call takes away what an earlier life of this node has left: it was killed, and its session
        would keep the office, or its address, for a while. Later calls do not: two nodes that live with one
        name would remove each other for ever.
        """
        tree = await self._read()
        if tree.session in tree.members:
            return tree
        if not self._enrolled:
            for session in former_sessions(tree, self._own):
                await self._remove(session)
        await self._connection.create(f"{MEMBERS}/n-", written(self._own), ephemeral=True, sequence=True)
        self._enrolled = True
        return await self._read()

    async def take_office(self) -> bool:
        """Whether the primary's node was vacant, and is this node's now."""
        return (
            await self._connection.create(PRIMARY, written(self._own, plain=True), ephemeral=True) is not None
        )

    async def vacate(self, session: int) -> bool:
        """Delete the primary's node if it is that of ``session``; whether it was."""
        found = await self.office()
        if found is None or found.owner != session:
            return False
        return await self._connection.delete(PRIMARY, found.version)

    async def office(self) -> Found | None:
        """The primary's node."""
        return await self._connection.get(PRIMARY)

    async def _read(self) -> Tree:
        members = {owner: identity for _, owner, identity in await self._members()}
        found = await self._connection.get(PRIMARY, watch=True)
        return Tree(
            self._connection.session,
            members,
            found.owner if found else None,
            read(found.data) if found else None,
        )

    async def _members(self) -> list[tuple[str, int, Identity]]:
        """Path, session and identity of every member."""
        await self._connection.create(MEMBERS, b"")
        members = []
        for name in await self._connection.children(MEMBERS):
            path = f"{MEMBERS}/{name}"
            found = await self._connection.get(path)
            identity = read(found.data) if found else None
            if found and identity:
                members.append((path, found.owner, identity))
        return members

    async def _remove(self, session: int) -> None:
        await self.vacate(session)
        for path, owner, _ in await self._members():
            if owner == session:
                await self._connection.delete(path)
