"""A source whose log is a list, and streams that are lists of what was written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from registry.domain.errors import EVENTS_DELETED, UNAVAILABLE
from registry.domain.events import EVERYTHING, Event, Filter, Kind, encode_event
from registry.domain.principal import Principal
from registry.feed.contract import PAGE_EVENTS, Bounds, Page
from registry.feed.hub import Hub
from registry.feed.listener import Subscription
from registry.security.gate import FULL_ACCESS, OPEN_GATE, Access, Admission, Credentials, Gate, NotAdmitted
from tests.support.running import until_async


class ListSource:
    """A log in which each offset has an event, about the subject ``a`` or ``b`` by turns."""

    def __init__(self, end: int = 0) -> None:
        self.begin, self.end = 0, end
        self.log = "first"
        self.fails = False
        # The position at which calls raise what they should not.
        self.breaks_at: int | None = None
        # Older events are told only when this is set.
        self.readable = asyncio.Event()
        self.readable.set()
        self.asked: list[int] = []
        self._changed = asyncio.Event()

    async def events(self, position: int, wait_s: float) -> Page:
        await until_next_turn()
        if position == self.breaks_at:
            raise ValueError("unexpected")
        if wait_s == 0:
            await self.readable.wait()
        if wait_s > 0 and position >= self.end and not self.fails:
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                return Page([], position, self.log)
        self.asked.append(position)
        if self.fails:
            raise UNAVAILABLE("the log is away")
        if 0 < position < self.begin:
            raise EVENTS_DELETED(position - 1, self.begin, self.begin - 1)
        begin = max(self.begin, position)
        end = max(begin, min(self.end, begin + PAGE_EVENTS))
        return Page([encode_event(event(each)) for each in range(begin, end)], end, self.log)

    async def confirm(self) -> bool:
        return True

    def applied(self) -> int:
        return self.end

    def append(self, count: int = 1) -> None:
        self.end += count
        self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def event(offset: int) -> Event:
    return Event(offset, 1000, Kind.MODE_DELETED, ".", "ab"[offset % 2])


class ListStream:
    """An open answer; the client reads nothing while ``behind``."""

    framing = False

    def __init__(self) -> None:
        self.behind = False
        self.ended = False
        self.written: list[bytes] = []
        self.on_drained: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None
        self.on_write: Callable[[], None] = lambda: None

    def frame(self, data: bytes) -> bytes:
        return data

    def write(self, framed: bytes) -> None:
        self.written.append(framed)
        self.on_write()

    def end(self) -> None:
        if not self.ended:
            self.ended = True
            self.on_close()

    def close(self) -> None:
        self.end()

    def drain(self) -> None:
        self.behind = False
        self.on_drained()

    @property
    def offsets(self) -> list[int]:
        """The offsets of the events that were written."""
        blocks = b"".join(self.written).split(b"\n\n")
        return [int(block.split()[1]) for block in blocks if b"\ndata: " in block]

    @property
    def position(self) -> int:
        """The last id that was written."""
        ids = [line[4:] for line in b"".join(self.written).split(b"\n") if line.startswith(b"id: ")]
        return int(ids[-1])


class ListGate:
    """A gate with the access of each name; names without one are refused."""

    def __init__(self, **accesses: Access) -> None:
        self.accesses: dict[str, Access] = accesses
        # Names whose credentials have to be verified again.
        self.expired: set[str] = set()
        self.verified: list[str] = []

    def cached_admission(self, credentials: Credentials) -> Admission | None:
        name = credentials.certificate
        if name in self.expired or name not in self.accesses:
            return None
        return Admission(Principal(name), self.accesses[name], "certificate")

    async def admit(self, credentials: Credentials) -> Admission:
        await until_next_turn()
        name = credentials.certificate
        self.verified.append(name)
        self.expired.discard(name)
        found = self.cached_admission(credentials)
        if found is None:
            raise NotAdmitted(401, "Unauthorized", ())
        return found


def subscription(
    wanted: Filter = EVERYTHING,
    access: Access = FULL_ACCESS,
    name: str = "",
    address: str = "",
    method: str = "certificate",
) -> Subscription:
    credentials = Credentials(certificate=name, address=address)
    return Subscription(wanted, credentials, Admission(Principal(name), access, method))


@contextmanager
def feeding(
    source: ListSource, gate: Gate = OPEN_GATE, listeners_max: int = 1000, each_max: int = 1000
) -> Iterator[Hub]:
    hub = Hub(source, gate, Bounds(listeners_max, each_max))
    try:
        yield hub
    finally:
        hub.stop()


async def listen(hub: Hub, after: int | None, wanted: Subscription | None = None) -> ListStream:
    wanted = wanted or subscription()
    position = await hub.locate(wanted, after)
    stream = ListStream()
    hub.attach(stream, wanted, position)
    return stream


async def until_next_turn() -> None:
    """Let other tasks run."""
    await asyncio.sleep(0)


async def until_seen(stream: ListStream, *offsets: int) -> None:
    await until_async(lambda: stream.offsets[-len(offsets) :] == [*offsets], f"{offsets} in {stream.offsets}")
