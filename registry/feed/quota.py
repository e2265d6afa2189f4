"""Bounds of the open streams and waiting requests of one process, in all and of each client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

from registry.domain.errors import TOO_MANY_REQUESTS, UNAVAILABLE, RegistryError

# Until one of the client's own streams may have ended.
_RETRY_S = 10


class Bounds(NamedTuple):
    """The most listeners of one process: of all clients together, and of each."""

    all_max: int = 5_000
    each_max: int = 1_000


class Quota:
    """Counts how often clients listen, within ``bounds``."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._held: Counter[Hashable] = Counter()
        self.total = 0

    def refusal(self, client: Hashable) -> RegistryError | None:
        """Return why a client may not listen once more, 429 or 503; ``None`` if it may."""
        if self._held[client] >= self._bounds.each_max:
            return TOO_MANY_REQUESTS(
                f"This client listens to changes {self._bounds.each_max} times here already, "
                "the most that the setting changes_per_principal_max allows"
            ).with_retry_after(_RETRY_S)
        if self.total >= self._bounds.all_max:
            return UNAVAILABLE("Too many clients listen to changes here")
        return None

    def take(self, client: Hashable) -> None:
        """Count one more."""
        self._held[client] += 1
        self.total += 1

    def give_back(self, client: Hashable) -> None:
        """Count one less."""
        self.total -= 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
