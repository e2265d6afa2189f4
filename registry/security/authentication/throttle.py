"""Throttling of clients that guess passwords, by address."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

FREE_FAILURES = 5
FIRST_DELAY_S = 0.5
DELAY_MAX_S = 5.0
FORGOTTEN_AFTER_S = 60.0
PENDING_MAX = 16  # Of one address; each may turn out to be a failure.
ADDRESSES_MAX = 10_000
_IPV6_PREFIX = 64  # A network that one client can have for itself.


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
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        # The addresses that have failed least recently are forgotten first.
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of addresses in the table."""
        return len(self._records)

    def begin(self, address: str) -> float:
        """Return 0 if a guess may be verified, followed by :meth:`end`; otherwise the seconds to wait."""
        key, now = _key(address), self._clock()
        record = self._records.get(key)
        if record is None:
            record = self._add(key)
        elif record.failures and now - record.last > FORGOTTEN_AFTER_S:
            record.failures, record.blocked_until = 0, 0.0
        if now < record.blocked_until:
            return record.blocked_until - now
        if record.pending >= PENDING_MAX:
            return FIRST_DELAY_S
        record.pending += 1
        return 0.0

    def end(self, address: str, *, failed: bool) -> None:
        """Record the outcome of a guess."""
        key, now = _key(address), self._clock()
        record = self._records.get(key)
        if record is None:
            record = self._add(key)
        record.pending = max(0, record.pending - 1)
        if failed:
            record.failures += 1
            record.last = now
            over = record.failures - FREE_FAILURES
            if over > 0:
                delay = FIRST_DELAY_S * 2.0 ** min(over - 1, 10)
                record.blocked_until = now + min(DELAY_MAX_S, delay)
            self._records.move_to_end(key)
        elif not (record.failures or record.pending):
            del self._records[key]

    def _add(self, key: str) -> _Record:
        if len(self._records) >= ADDRESSES_MAX:
            self._records.popitem(last=False)
        record = self._records[key] = _Record()
        return record


def _key(address: str) -> str:
    """Return the address, or the network that one client with an IPv6 address can have."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, _IPV6_PREFIX), strict=False).network_address)
