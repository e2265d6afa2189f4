"""Requests of unknown clients that are refused: written at once, and counted if an address sends many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .entry import RequestEntry

# Interval between two entries of an address, at least.
EVERY_S = 1.0
# Addresses with entries of their own; the requests of further ones are counted together.
ADDRESSES_MAX = 100
OTHERS = "*"


class Refusals:
    """Passes on the first refusal of an address, and then each second how many there were, with the last.

    So a client without credentials can neither fill a disk nor hide: no refusal is left out of the count.
    """

    def __init__(
        self, record: Callable[[RequestEntry], None], later: Callable[[float, Callable[[], None]], Any]
    ) -> None:
        """``later``: calls a function after so many seconds."""
        self._record = record
        self._later = later
        # By address: the last of the refusals since its last entry, which stands for all of them.
        self._counted: dict[str, RequestEntry | None] = {}

    def add(self, entry: RequestEntry) -> None:
        """Record a refusal, or count it."""
        address = entry.address
        if address not in self._counted and len(self._counted) >= ADDRESSES_MAX:
            address = OTHERS
        if address not in self._counted:
            self._counted[address] = None
            self._record(entry)
            self._later(EVERY_S, lambda: self._pass_on(address))
            return
        before = self._counted[address]
        self._counted[address] = entry._replace(
            address=address, requests=1 if before is None else before.requests + 1
        )

    def close(self) -> None:
        """Record what was counted."""
        for address in self._counted:
            self._record_counted(address)

    def _pass_on(self, address: str) -> None:
        if self._counted[address] is None:
            del self._counted[address]
        else:
            self._record_counted(address)
            self._later(EVERY_S, lambda: self._pass_on(address))

    def _record_counted(self, address: str) -> None:
        entry, self._counted[address] = self._counted[address], None
        if entry is not None:
            self._record(entry)
