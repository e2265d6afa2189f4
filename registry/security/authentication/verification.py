"""Verification of passwords off the event loop, in fair turns, bounded in number and memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from registry.domain.admission import FairQueue
from registry.domain.errors import UNAVAILABLE, RegistryError

from .passwords import PASSWORD_BYTES_MAX
from .recent import Recent
from .users import NAME_BYTES_MAX, User, Users

# One verification may take 128 MiB and all cores.
AT_ONCE_MAX = 2
PENDING_MAX = 64
# A network is one that failed for this time to twice as long after a wrong password.
FAILED_S = 60.0
_NETWORKS_MAX = 20_000

_Turn = asyncio.Future[None]


class Verifier:
    """Verifies names and passwords in a few threads."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="password")
        self._turns = _Turns()

    async def verified(
        self, users: Users, name: bytes, password: bytes, network: str = "", *, proven: bool = False
    ) -> User | None:
        """Return the user if the password is right. Raises 503 if too many passwords are waiting.

        ``network``: of the client; ``proven``: the password was right before.
        """
        if not users or len(name) > NAME_BYTES_MAX or len(password) > PASSWORD_BYTES_MAX:
            return None
        user = users.get(name)
        stored = users.decoy(name) if user is None else user.password
        async with self._turns.turn(network, proven=proven):
            matches = await asyncio.get_running_loop().run_in_executor(
                self._threads, stored.matches, password
            )
            if user is None or not matches:
                self._turns.failed(network)
                return None
        return user

    def close(self) -> None:
        """End the threads and drop waiting passwords."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Turns:
    """The order in which passwords are verified; used on one event loop.

    Proven ones come first, then networks take turns: those without a recent failure before the others. So
    guesses from many addresses hold up neither known clients nor a new one of another network.
    """

    def __init__(self) -> None:
        self._running = 0
        self._proven: deque[_Turn] = deque()
        self._others: FairQueue[_Turn] = FairQueue()  # by network
        self._failed: Recent[bool] = Recent(FAILED_S, _NETWORKS_MAX)

    def failed(self, network: str) -> None:
        """Note a wrong password."""
        self._failed.put(network, True)

    @asynccontextmanager
    async def turn(self, network: str, *, proven: bool) -> AsyncIterator[None]:
        """Wait for a turn, and have it meanwhile. Raises 503 if there is no room to wait."""
        if self._running < AT_ONCE_MAX:
            self._running += 1
        else:
            await self._wait(network, proven=proven)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, network: str, *, proven: bool) -> None:
        if self._running + len(self._proven) + len(self._others) >= PENDING_MAX:
            self._make_room(network, proven=proven)
        turn: _Turn = asyncio.get_running_loop().create_future()
        if proven:
            self._proven.append(turn)
        else:
            self._others.put(network, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _make_room(self, network: str, *, proven: bool) -> None:
        """Refuse who waits last of the network with the most waiting. Raises 503 if that is this one."""
        dropped = self._others.give_way(None if proven else network, self._has_failed)
        if dropped is None:
            raise _too_many()
        if not dropped.done():
            dropped.set_exception(_too_many())

    def _has_failed(self, network: str) -> bool:
        return self._failed.get(network) is not None

    def _pass_on(self) -> None:
        """Give a turn that has ended to the next who still waits."""
        while (turn := self._next()) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def _next(self) -> _Turn | None:
        if self._proven:
            return self._proven.popleft()
        clean = next((each for each in self._others.askers() if not self._has_failed(each)), None)
        return self._others.pop(clean)


def _too_many() -> RegistryError:
    return UNAVAILABLE("Too many passwords are waiting to be verified")
