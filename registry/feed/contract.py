"""The ports of the feed: where its events come from, the connections to which they go, and their bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

import msgspec

from registry.domain.errors import TOO_MANY_REQUESTS, UNAVAILABLE, RegistryError

# Bounds of one page. A single event may be larger.
PAGE_EVENTS, PAGE_BYTES = 500, 64 * 1024


class Page(msgspec.Struct, frozen=True, array_like=True):
    """The events from a requested position up to another."""

    # As JSON, in the order of their offsets.
    events: list[bytes]
    # The position after them; the requested one if the log ends there.
    next: int
    # The identity of the log: positions in another one mean other records.
    log: str = ""


class FeedSource(Protocol):
    """The events of the log as far as the rows include them."""

    async def events(self, position: int, wait_s: float) -> Page:
        """Return a page, within the bounds above; at the log's end, wait for the next events.

        Position 0 means the log's beginning, wherever that is now. Raises ``EVENTS_DELETED`` (410) for other
        positions before it, and 503.
        """
        ...

    async def confirm(self) -> bool:
        """Wait until the rows are as new as the log was at the call; return false if that took too long."""
        ...

    def applied(self) -> int:
        """Return the position after the last record that the rows include."""
        ...


class Stream(Protocol):
    """An open answer to a listener, see :class:`registry.http1.output.HeldAnswer`."""

    # Called when the client has read enough to be written to again; and when the connection has closed.
    on_drained: Callable[[], None]
    on_close: Callable[[], None]

    @property
    def framing(self) -> Hashable:
        """Streams of the same framing share framed bytes."""
        ...

    @property
    def behind(self) -> bool:
        """True while the client reads more slowly than it is written to."""
        ...

    def frame(self, data: bytes) -> bytes:
        """Return data as it is written."""
        ...

    def write(self, framed: bytes) -> None:
        """Write framed data; never waits. Does nothing if the connection is closed."""
        ...

    def end(self) -> None:
        """Complete the answer and close the connection."""
        ...


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
