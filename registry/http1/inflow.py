"""Flow control of a connection's input: pauses and resumes reading its socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .fairness import Intake, Turns
from .reading import RequestReader


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

    def received(self, size: int) -> None:
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

    def admitted(self) -> None:
        """Receive the waiting body: there is room for it now."""
        self._reader.admitted = True
        self._parse_soon()

    def answered(self) -> None:
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
