"""Verification of passwords off the event loop, in fair turns, bounded in number and memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

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
        # By network; the next one to have its turn comes first.
        self._others: OrderedDict[str, deque[_Turn]] = OrderedDict()
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
        if self._running + self._waiting() >= PENDING_MAX:
            self._make_room(network, proven=proven)
        turn: _Turn = asyncio.get_running_loop().create_future()
        queue = self._proven if proven else self._others.setdefault(network, deque())
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()
            raise

    def _waiting(self) -> int:
        return len(self._proven) + sum(map(len, self._others.values()))

    def _make_room(self, network: str, *, proven: bool) -> None:
        """Send away who waits last for the network that has most waiting. Raises 503 if that is this one."""
        worst = max(self._others, key=self._rank, default=None)
        own = (False, 0) if proven else (self._has_failed(network), len(self._others.get(network, ())) + 1)
        if worst is None or self._rank(worst) <= own:
            raise _too_many()
        last = self._others[worst].pop()
        if not self._others[worst]:
            del self._others[worst]
        if not last.done():
            last.set_exception(_too_many())

    def _rank(self, network: str) -> tuple[bool, int]:
        return self._has_failed(network), len(self._others[network])

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
        if not self._others:
            return None
        first = next(iter(self._others))
        network = next((each for each in self._others if not self._has_failed(each)), first)
        queue = self._others[network]
        turn = queue.popleft()
        if queue:
            self._others.move_to_end(network)
        else:
            del self._others[network]
        return turn


def _too_many() -> RegistryError:
    return UNAVAILABLE("Too many passwords are waiting to be verified")
