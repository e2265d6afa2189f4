"""Verification of passwords off the event loop, in fair turns, and recent logins and failures."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from registry.domain.admission import FairQueue
from registry.domain.errors import UNAVAILABLE, RegistryError
from registry.domain.lru import Lru
from registry.security.client_address import client_network

from .passwords import PASSWORD_BYTES_MAX
from .users import NAME_BYTES_MAX, User, Users

V = TypeVar("V")


class Recent(Generic[V]):
    """Values that were used within the last ``seconds`` to twice that, at most ``count_max`` times two.

    Entries move between two dictionaries instead of having ages of their own, so that reading one costs
    little more than a lookup.
    """

    def __init__(self, seconds: float, count_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic, in seconds."""
        self._seconds = seconds
        self._count_max = count_max
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._new: dict[bytes | str, V] = {}
        self._old: dict[bytes | str, V] = {}
        # Values that were got since the last turn need not be got before this one to stay.
        self.turns_at = self._clock() + self._seconds

    def get(self, key: bytes | str, now: float | None = None) -> V | None:
        """Return the value of ``key``; ``now``: the clock, if the caller has read it."""
        if (self._clock() if now is None else now) >= self.turns_at:
            self._turn()
        found = self._new.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: bytes | str, value: V) -> None:
        """Keep ``value``."""
        if len(self._new) >= self._count_max:
            self._turn()
        self._new[key] = value

    def drop(self, key: bytes | str) -> None:
        """Forget one value."""
        self._new.pop(key, None)
        self._old.pop(key, None)

    def _turn(self) -> None:
        now = self._clock()
        # After two periods without use, nothing is kept.
        self._old = {} if now >= self.turns_at + self._seconds else self._new
        self._new = {}
        self.turns_at = now + self._seconds


# Of all processes of a host together.
FREE_FAILURES = 5
FIRST_DELAY_S = 0.5
DELAY_MAX_S = 5.0
PENDING_OF_ADDRESS_MAX = 16  # Of one address; each may turn out to be a failure.
FORGOTTEN_AFTER_S = 60.0
ADDRESSES_MAX = 10_000


@dataclass(slots=True)
class _Record:
    failures: int = 0
    pending: int = 0
    blocked_until: float = 0.0
    last: float = 0.0


class Throttle:
    """Counts failures of each address, and blocks it for a time that doubles with each further one.

    Only guesses count: recently verified credentials are not checked here, so blocking an address does not
    lock out active clients, nor those at other addresses.

    Each process of a host counts for itself, and connections are spread over them. So each allows only its
    share of the failures, and blocks as many times longer.
    """

    def __init__(self, processes: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        """``processes``: those of the host that count. ``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._free_failures = FREE_FAILURES // processes
        self._pending_max = max(1, PENDING_OF_ADDRESS_MAX // processes)
        self._first_delay_s, self._delay_max_s = FIRST_DELAY_S * processes, DELAY_MAX_S * processes
        self._forgotten_after_s = max(FORGOTTEN_AFTER_S, 2 * self._delay_max_s)
        self._records = Lru[str, _Record](ADDRESSES_MAX)

    def __len__(self) -> int:
        """Return the number of addresses in the table."""
        return len(self._records)

    def begin(self, address: str) -> float:
        """Return 0 if a guess may be verified, followed by :meth:`end`; otherwise the seconds to wait."""
        key, now = client_network(address), self._clock()
        record = self._records.get(key)
        if record is None:
            record = self._add(key)
        elif record.failures and now - record.last > self._forgotten_after_s:
            record.failures, record.blocked_until = 0, 0.0
        if now < record.blocked_until:
            return record.blocked_until - now
        if record.pending >= self._pending_max:
            return self._first_delay_s
        record.pending += 1
        return 0.0

    def end(self, address: str, *, failed: bool) -> None:
        """Record the outcome of a guess."""
        key, now = client_network(address), self._clock()
        record = self._records.get(key)
        if record is None:
            record = self._add(key)
        record.pending = max(0, record.pending - 1)
        if failed:
            record.failures += 1
            record.last = now
            over = record.failures - self._free_failures
            if over > 0:
                delay_s = self._first_delay_s * 2.0 ** min(over - 1, 10)
                record.blocked_until = now + min(self._delay_max_s, delay_s)
        elif not (record.failures or record.pending):
            self._records.remove(key)

    def _add(self, key: str) -> _Record:
        record = _Record()
        self._records.put(key, record)
        return record


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

    async def verify(
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
                self._turns.note_failure(network)
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

    def note_failure(self, network: str) -> None:
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
