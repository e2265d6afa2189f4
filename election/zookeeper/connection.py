"""A ZooKeeper session for an event loop. The only module that knows kazoo, which runs threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.security import CREATOR_ALL_ACL

ANY_VERSION = -1
PAUSE_S = 0.05
PAUSE_MAX_S = 1.0
"""Between tries to connect; the first, doubled each time up to the last."""


class Trouble(Exception):
    """ZooKeeper could not be asked, or refused; the text is a plain sentence. The next try may go well."""


class Found(NamedTuple):
    """A node of ZooKeeper's tree."""

    data: bytes
    version: int
    owner: int
    """The session that an ephemeral node ends with; 0: it is not ephemeral."""


class Connection:
    """Paths are below ``chroot``, which is made if it is missing. ``auth`` is ``USER:PASSWORD`` or "".

    ``changed`` is called on the event loop whenever the connection comes or goes, or a watched node changes.
    It must not be used by two event loops.
    """

    def __init__(
        self, hosts: str, chroot: str, session_s: float, auth: str, changed: Callable[[], None]
    ) -> None:
        self._root = "/" + chroot.strip("/") if chroot.strip("/") else ""
        self._answer_s = session_s / 3
        self._changed = changed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client = KazooClient(
            hosts,
            timeout=session_s,
            connection_retry={"max_tries": -1, "delay": PAUSE_S, "backoff": 2, "max_delay": PAUSE_MAX_S},
            auth_data=[("digest", auth)] if auth else None,
            default_acl=CREATOR_ALL_ACL if auth else None,
        )
        self._client.add_listener(self._state_is)

    @property
    def connected(self) -> bool:
        """Whether the session lives for certain."""
        return bool(self._client.state == KazooState.CONNECTED)

    @property
    def session(self) -> int:
        """The session's id; 0: there is none."""
        return int((self._client.client_id or (0, b""))[0])

    def start(self) -> None:
        """Connect, for ever anew, from the running event loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._client.start_async()

    async def close(self) -> None:
        """End the session: its ephemeral nodes go at once, if ZooKeeper can be reached."""
        if self._loop is not None:
            self._client.remove_listener(self._state_is)
            # Without a connection there is no socket to say it on; the session then ends by its time.
            with contextlib.suppress(AttributeError, OSError, KazooException):
                await asyncio.to_thread(self._client.stop)
            await asyncio.to_thread(self._client.close)

    async def get(self, path: str, *, watch: bool = False) -> Found | None:
        """What stands at ``path``, or ``None``; its coming, change and going is told when ``watch``."""
        full = self._root + path
        if watch and await self._ask(self._client.exists_async(full, watch=self._node_changed)) is None:
            return None
        try:
            data, stat = await self._ask(self._client.get_async(full))
        except NoNodeError:
            return None
        return Found(data, stat.version, stat.ephemeralOwner)

    async def children(self, path: str) -> list[str]:
        """The names below ``path``, which must be there; a change among them is told."""
        names = await self._ask(self._client.get_children_async(self._root + path, watch=self._node_changed))
        return sorted(names)

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False
    ) -> str | None:
        """Create a node, and those above it; its path, or ``None`` if it is there already."""
        try:
            made: str = await self._ask(
                self._client.create_async(
                    self._root + path, data, ephemeral=ephemeral, sequence=sequence, makepath=True
                )
            )
        except NodeExistsError:
            return None
        return made.removeprefix(self._root)

    async def put(self, path: str, data: bytes, version: int) -> bool:
        """Change a node of that version; whether it was that version still."""
        try:
            await self._ask(self._client.set_async(self._root + path, data, version))
        except (BadVersionError, NoNodeError):
            return False
        return True

    async def delete(self, path: str, version: int = ANY_VERSION) -> bool:
        """Delete a node; whether it was there, in that version."""
        try:
            await self._ask(self._client.delete_async(self._root + path, version))
        except (BadVersionError, NoNodeError):
            return False
        return True

    async def catch_up(self, path: str) -> None:
        """Let the server that answers here be as new as the ensemble is now."""
        await self._ask(self._client.sync_async(self._root + path))

    async def _ask(self, asked: Any) -> Any:
        assert self._loop is not None, "the connection was not started"
        answer: asyncio.Future[None] = self._loop.create_future()
        asked.rawlink(lambda _: self._from_thread(_settle, answer))
        try:
            async with asyncio.timeout(self._answer_s):
                await answer
            return asked.get(block=False)
        except TimeoutError as error:
            raise Trouble("ZooKeeper did not answer in time") from error
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except KazooException as error:
            raise Trouble(f"ZooKeeper refused: {type(error).__name__} {error}".rstrip()) from error

    def _state_is(self, state: str) -> None:
        self._from_thread(self._changed)

    def _node_changed(self, event: object) -> None:
        self._from_thread(self._changed)

    def _from_thread(self, call: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None, "the connection was not started"
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(call, *arguments)


def _settle(answer: asyncio.Future[None]) -> None:
    if not answer.done():
        answer.set_result(None)
