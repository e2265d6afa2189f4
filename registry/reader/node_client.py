"""A reader's line to its node: calls with numbers, answered in any order over one unix socket.

What was sent when the line broke may or may not have happened. What does no harm twice is sent again when the
node is back, and in a cluster everything: by its idempotency key it is done only once. Anything else is
answered so
(50002). What was not sent waits for the next line, for a bounded time, and is then refused (50003).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from registry.api.status import NodeStatus
from registry.domain.admission import Room, is_large, size_of
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    Command,
    IdempotencyKey,
    Outcome,
    Refused,
    repeatable,
)
from registry.domain.errors import (
    FORWARD_FAILED,
    OUTCOME_UNKNOWN,
    TOO_MANY_WRITES,
    UNAVAILABLE,
    RegistryError,
)
from registry.domain.pending_command import CommandRequest
from registry.ipc.messages import (
    AskSnapshots,
    AskStatus,
    Confirm,
    Confirmed,
    Decided,
    DeleteSnapshot,
    Framed,
    Hello,
    Metrics,
    Report,
    Snapshots,
    State,
    Status,
    Submit,
    decode_from_node,
    encode,
)
from registry.observe.requests import Tally
from snapshots.catalogue.catalogue import Entry

RETRY_S = 0.05
ASK_S = 2.0
"""How long questions about the node's state wait; nothing is lost when they are asked again."""
CATALOGUE_S = 15.0
"""The same for what the node has to ask others for, or to delete."""
_LATE_EVERY_S = 0.25
_MARGIN_S = 0.5
_log = logging.getLogger(__name__)
_UNKNOWN = "the outcome of the write is unknown and it is safe to repeat it"
_LOST = f"The node went away before it answered; {_UNKNOWN}"
_NOT_SENT = "The node has too much to do; nothing was written"
_LATE = f"The node did not answer in time; {_UNKNOWN}"


class NodeLost(RegistryError):
    """The line broke before the answer was there."""


class NotSent(Exception):
    """The line broke before a large message began."""


class Link:
    """The line, made anew whenever it breaks. ``changed`` is called with each state that the node tells."""

    def __init__(
        self,
        path: Path,
        *,
        timeout_s: float,
        wait_s: float,
        confirm_s: float,
        calls_max: int,
        bytes_max: int = 256 << 20,
        changed: Callable[[State], None],
        applied: Callable[[], int] = lambda: 0,
    ) -> None:
        """``timeout_s``: for a write; ``wait_s``: for a node that is away; ``confirm_s``: for news.

        ``calls_max``, ``bytes_max``: what may wait. ``applied``: an offset that the log has reached.
        """
        self._path = path
        self._timeout_s = timeout_s
        self._wait_s = min(wait_s, timeout_s)
        self._confirm_s = confirm_s
        self._room = Room(calls_max, bytes_max)
        self._changed = changed
        self._applied = applied
        self._repeats = False
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._line: _Line | None = None
        self._joined = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keep a line from now on."""
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    def stop(self) -> None:
        """Hang up."""
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        if self._line is not None:
            self._line.transport.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, line = await loop.create_unix_connection(
                    lambda: _Line(self._heard, self._lost), str(self._path)
                )
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            line.tell(Hello(os.getpid()))
            if not line.ended.done():
                self._line = line
                self._joined.set()
            while not line.ended.done():
                # One clock for all calls: a timer for each would cost more than the call.
                await asyncio.wait((line.ended,), timeout=_LATE_EVERY_S)
                line.end_late()

    def _heard(self, state: State) -> None:
        # A node that is starting does not say yet; it is run with the same settings as the one before.
        if state.started:
            self._repeats = state.repeats
        self._changed(state)

    def _lost(self) -> None:
        # At once, so that no call goes to a line that will never answer.
        self._line = None
        self._joined.clear()
        if self._keeper is not None:  # else it was this side that hung up
            _log.warning("the line to the node is broken")

    async def submit(self, command: Command, *, request_id: str = "", forwarded: bool = False) -> Outcome:
        """The node's outcome. Raises 50002, 50003 or 503."""
        deadline = self._loop.time() + self._timeout_s
        size = size_of(command)
        idempotency_key = IdempotencyKey(os.urandom(IDEMPOTENCY_KEY_BYTES), self._applied())
        lost: NodeLost | None = None

        def message(number: int) -> Submit:
            request = CommandRequest(command, self._left(deadline), request_id, idempotency_key)
            return Submit(number, request, forwarded, in_doubt=lost is not None)

        while True:
            repeats = self._repeats
            try:
                answer = await self._call(message, deadline - self._loop.time(), self._wait_s, size)
            except NodeLost as error:
                if not (repeats or repeatable(command)) or self._loop.time() >= deadline:
                    raise
                lost = error
                continue
            except RegistryError:
                if lost is not None:
                    raise lost from None  # the first try may have come to something
                raise
            assert isinstance(answer, Decided)
            outcome = answer.outcome
            if lost is not None and isinstance(outcome, Refused) and not self._looked(outcome):
                raise lost  # a refusal says nothing about the first try either
            return outcome

    def _looked(self, outcome: Refused) -> bool:
        """Whether it was refused by somebody who had seen that no earlier try has done it."""
        return self._repeats and not str(outcome.code).startswith("5")

    def _left(self, deadline: float) -> float:
        """How long the node may take: less than the caller waits, so that it can say what came of it."""
        left = deadline - self._loop.time()
        return left - min(_MARGIN_S, left / 10)

    async def confirm(self, offset: int = -1) -> bool:
        """Whether the store is as new as the log, or as ``offset``; not, when there is no answer in time."""
        try:
            answer = await self._call(
                lambda number: Confirm(number, offset), self._confirm_s, self._confirm_s
            )
        except RegistryError:
            return False
        assert isinstance(answer, Confirmed)
        return answer.fresh

    async def status(self) -> NodeStatus:
        """The node's state. Raises as :meth:`submit`."""
        answer = await self._call(AskStatus, ASK_S, ASK_S)
        assert isinstance(answer, Status)
        return answer.status

    async def snapshots(self) -> list[Entry]:
        """The entries of the catalogue. Raises 503 where the node cannot tell."""
        try:
            return await self._entries(AskSnapshots)
        except RegistryError as error:
            if error.code != OUTCOME_UNKNOWN.code:
                raise
            raise UNAVAILABLE("The node does not tell which snapshots there are") from None

    async def delete_snapshot(self, id: str) -> Entry | None:
        """What is left of a snapshot. Raises 40480, 40980, and as :meth:`submit`."""
        left = await self._entries(lambda number: DeleteSnapshot(number, id))
        return left[0] if left else None

    async def _entries(self, message: Callable[[int], msgspec.Struct]) -> list[Entry]:
        answer = await self._call(message, CATALOGUE_S, ASK_S)
        assert isinstance(answer, Snapshots)
        if answer.refused is not None:
            raise RegistryError(answer.refused.code, answer.refused.message)
        return answer.entries

    async def metrics(self, tally: Tally) -> bytes:
        """The host's metrics. Raises as :meth:`submit`."""
        answer = await self._call(lambda number: Report(tally, number), ASK_S, ASK_S)
        assert isinstance(answer, Metrics)
        if answer.refused is not None:
            raise RegistryError(answer.refused.code, answer.refused.message)
        return answer.text

    def report(self, tally: Tally) -> None:
        """Tell the node what was counted, if it is there."""
        if self._line is not None:
            self._line.tell(Report(tally))

    async def _call(
        self, message: Callable[[int], msgspec.Struct], timeout_s: float, wait_s: float, size: int = 0
    ) -> Any:
        if not self._room.fits(size):
            raise TOO_MANY_WRITES()
        self._room.add(size)
        deadline = self._loop.time() + timeout_s
        try:
            while True:
                line = self._line or await self._next_line(min(wait_s, deadline - self._loop.time()))
                number = next(self._numbers)
                if not is_large(size):
                    return await line.call(number, message(number), deadline)
                try:
                    return await line.call_large(number, partial(message, number), deadline)
                except NotSent:
                    continue
        finally:
            self._room.remove(size)

    async def _next_line(self, wait_s: float) -> _Line:
        try:
            async with asyncio.timeout(wait_s):
                while self._line is None:
                    await self._joined.wait()
                return self._line
        except TimeoutError:
            raise FORWARD_FAILED("The node cannot be reached; nothing was written") from None


class _Line(Framed):
    """One connection to the node."""

    def __init__(self, changed: Callable[[State], None], lost: Callable[[], None]) -> None:
        super().__init__()
        self._changed = changed
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, tuple[asyncio.Future[Any], float]] = {}
        self._outbox: list[msgspec.Struct] = []
        self._unsent: set[int] = set()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def call(self, number: int, message: msgspec.Struct, deadline: float) -> asyncio.Future[Any]:
        """Send a message; its answer comes later, or 50002 after the ``deadline`` (event-loop time).

        Calls of one moment go out together.
        """
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._calls[number] = (answer, deadline)
        self._outbox.append(message)
        if len(self._outbox) == 1:
            self._loop.call_soon(self._send)
        return answer

    def call_large(
        self, number: int, message: Callable[[], msgspec.Struct], deadline: float
    ) -> asyncio.Future[Any]:
        """Do the same for a message that is made when its turn comes; :class:`NotSent` if it does not."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._calls[number] = (answer, deadline)
        self._unsent.add(number)

        def packed() -> bytes | None:
            self._unsent.discard(number)
            return None if answer.done() else encode(message())

        self.tell_large(packed)
        return answer

    def end_late(self) -> None:
        """End the calls whose deadline has passed; an answer that still comes is ignored."""
        now = self._loop.time()
        for number in [number for number, (_, deadline) in self._calls.items() if deadline < now]:
            late = FORWARD_FAILED(_NOT_SENT) if number in self._unsent else OUTCOME_UNKNOWN(_LATE)
            _fail(self._calls.pop(number)[0], late)

    def _send(self) -> None:
        outbox, self._outbox = self._outbox, []
        self.tell(*outbox)

    def heard(self, message: bytes) -> None:
        """An answer, or the node's state."""
        said = decode_from_node(message)
        if isinstance(said, State):
            self._changed(said)
            return
        waiting, _ = self._calls.pop(said.number, (None, 0))
        if waiting is not None and not waiting.done():
            waiting.set_result(said)

    def connection_lost(self, exc: Exception | None) -> None:
        """What waits for an answer may or may not have been done."""
        self._lost()
        calls, self._calls = self._calls, {}
        for number, (waiting, _) in calls.items():
            lost = NotSent() if number in self._unsent else NodeLost(OUTCOME_UNKNOWN.code, _LOST)
            _fail(waiting, lost)
        if not self.ended.done():
            self.ended.set_result(None)


def _fail(waiting: asyncio.Future[Any], error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # seen, even if the caller has gone
