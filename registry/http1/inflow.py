"""Flow control of a connection's input, and fair use of the process by all connections."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Protocol

from registry.domain.admission import Room, is_large

from .reading import RequestReader

# Reading, building or writing this much takes a few milliseconds.
BYTES_PER_ITERATION = 1 << 20


class Sender(Protocol):
    """A connection whose client sends a body."""

    def start_receiving(self) -> None:
        """Receive the body: there is room for it now."""
        ...


class Intake:
    """Bounds request bodies in memory: admits them by announced size, in order of arrival.

    A body counts from its admission until its request is answered. Bodies that are not admitted stay unread
    in their sockets. Large bodies leave some room for small ones, which do not wait behind them.
    """

    def __init__(self, bytes_max: int) -> None:
        self._room = Room(sys.maxsize, bytes_max)
        self._admitted: dict[Sender, int] = {}
        # Keyed by whether the body is large.
        self._waiting: dict[bool, dict[Sender, int]] = {False: {}, True: {}}

    @property
    def size(self) -> int:
        """Return the announced bytes of all admitted bodies."""
        return sum(self._admitted.values())

    def admit(self, sender: Sender, size: int) -> bool:
        """Return true if there is room for a body; otherwise ``sender.admitted`` is called once there is."""
        waiting = self._waiting[is_large(size)]
        if waiting or not self._room.fits(size):
            waiting[sender] = size
            return False
        self._admit(sender, size)
        return True

    def waits(self, sender: Sender) -> bool:
        """Return true if the body of ``sender`` waits for admission."""
        return bool(self._admitted) and (sender in self._waiting[True] or sender in self._waiting[False])

    def holds_up(self, sender: Sender) -> bool:
        """Return true if bodies of other clients wait while that of ``sender`` has room."""
        return sender in self._admitted and any(self._waiting.values())

    def release(self, sender: Sender) -> None:
        """Release the room of ``sender``'s body, if it has one, and admit waiting bodies that fit now."""
        if not self._admitted:
            return  # No body can be waiting, either.
        size = self._admitted.pop(sender, None)
        if size is not None:
            self._room.remove(size)
        for waiting in self._waiting.values():
            if sender in waiting:
                del waiting[sender]
            while waiting:
                first, size = next(iter(waiting.items()))
                if not self._room.fits(size):
                    break
                del waiting[first]
                self._admit(first, size)
                first.start_receiving()

    def _admit(self, sender: Sender, size: int) -> None:
        self._room.add(size)
        self._admitted[sender] = size


class Turns:
    """Limits the bytes of large messages moved in one iteration of the event loop, in order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int = BYTES_PER_ITERATION) -> None:
        self._loop = loop
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()
        self._scheduled = False

    def call(self, size: int, act: Callable[[], object]) -> None:
        """Call ``act``, which moves ``size`` bytes, in a later iteration of the event loop."""
        self._waiting.append((size, act))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._iterate)

    async def wait(self, size: int) -> None:
        """Wait for a turn to move ``size`` bytes."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self.call(size, lambda: turn.cancelled() or turn.set_result(None))  # type: ignore[func-returns-value]
        await turn

    def _iterate(self) -> None:
        left = self._bytes_max
        try:
            while self._waiting and left > 0:
                size, act = self._waiting.popleft()
                left -= size
                act()
        finally:
            self._scheduled = bool(self._waiting)
            if self._scheduled:
                self._loop.call_soon(self._iterate)


class Inflow:
    """Reads a socket unless a complete request waits, or a body waits for room or for its turn.

    ``parse`` is called when the reader should continue with data that the client has sent ahead.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        reader: RequestReader,
        intake: Intake,
        turns: Turns,
        parse: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._reader = reader
        self._intake = intake
        self._turns = turns
        self._parse: Callable[[], None] | None = parse
        self._paused = False
        self._parsing_soon = False
        self._turn_due = False

    @property
    def waits_for_room(self) -> bool:
        """True while a body has not been admitted."""
        return self._intake.waits(self)

    @property
    def holds_up_others(self) -> bool:
        """True while other bodies wait for the room that this one has."""
        return self._intake.holds_up(self)

    def yield_turn(self, size: int) -> None:
        """Let others have their turn after ``size`` bytes of an admitted body."""
        if self._reader.admitted and not self._turn_due:
            self._turn_due = True
            self._turns.call(size, self._end_turn)

    def update(self, *, serving: bool) -> None:
        """Pause or resume reading. A body asks for room once no earlier request is served or waits."""
        reader = self._reader
        if reader.body_waits and not (serving or reader.requests or self.waits_for_room):
            reader.admitted = self._intake.admit(self, reader.parser.body_bytes_max)
        self._apply()

    def start_receiving(self) -> None:
        """Receive the waiting body: there is room for it now."""
        self._reader.admitted = True
        self._parse_soon()

    def release_room(self) -> None:
        """Release the room that the request's body took."""
        self._intake.release(self)

    def close(self) -> None:
        """Release the connection, which ``parse`` refers to."""
        self._parse = None

    def _apply(self) -> None:
        if self._parse is None:
            return
        reader = self._reader
        waits, ahead = bool(reader.requests) or reader.body_waits, reader.ahead_bytes > 0
        if ahead and not waits:
            self._parse_soon()
        pause = waits or ahead or self._turn_due
        if pause != self._paused:
            self._paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _end_turn(self) -> None:
        self._turn_due = False
        self._apply()

    def _parse_soon(self) -> None:
        if not self._parsing_soon:
            self._parsing_soon = True
            self._turns.call(self._reader.ahead_bytes, self._parse_now)

    def _parse_now(self) -> None:
        self._parsing_soon = False
        if self._parse is not None:
            self._parse()
