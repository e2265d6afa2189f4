"""Recent logins: those that succeeded, remembered for a while, and those that failed, throttled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from registry.domain.lru import Lru
from registry.security.client_address import client_network

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
        self._turns_at = self._clock() + self._seconds

    def get(self, key: bytes | str, now: float | None = None) -> V | None:
        """Return the value of ``key``; ``now``: the clock, if the caller has read it."""
        if (self._clock() if now is None else now) >= self._turns_at:
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
        self._old = {} if now >= self._turns_at + self._seconds else self._new
        self._new = {}
        self._turns_at = now + self._seconds


# Of all processes of a host together.
FREE_FAILURES = 5
FIRST_DELAY_S = 0.5
DELAY_MAX_S = 5.0
PENDING_MAX = 16  # Of one address; each may turn out to be a failure.
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
        self._pending_max = max(1, PENDING_MAX // processes)
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
