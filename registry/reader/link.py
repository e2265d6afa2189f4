"""A reader's line to its node: calls with numbers, answered in any order over one unix socket.

What was sent when the line broke may or may not have happened, and is answered so (50002). What was not sent
waits for the next line, for a bounded time, and is then refused (50003): nothing is ever sent twice.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from registry.api.status import NodeStatus
from registry.domain.commands import Command, Outcome
from registry.domain.errors import FORWARD_FAILED, OUTCOME_UNKNOWN, UNAVAILABLE, RegistryError
from registry.node.messages import (
    AskStatus,
    Decided,
    Framed,
    Hello,
    Metrics,
    Report,
    State,
    Status,
    Submit,
    decode_from_node,
)
from registry.observe.requests import Tally

RETRY_S = 0.05
_log = logging.getLogger(__name__)
_UNKNOWN = "the outcome of the write is unknown and it is safe to repeat it"
_LOST = f"The node went away before it answered; {_UNKNOWN}"
_LATE = f"The node did not answer in time; {_UNKNOWN}"


class Link:
    """The line, made anew whenever it breaks. ``changed`` is called with each state that the node tells."""

    def __init__(
        self, path: Path, *, timeout_s: float, wait_s: float, calls_max: int, changed: Callable[[State], None]
    ) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._wait_s = min(wait_s, timeout_s)
        self._calls_max = calls_max
        self._changed = changed
        self._numbers = itertools.count(1)
        self._line: _Line | None = None
        self._joined = asyncio.Event()
        self._waiting = 0
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keep a line from now on."""
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    def stop(self) -> None:
        """Hang up."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self._line is not None:
            self._line.transport.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, line = await loop.create_unix_connection(lambda: _Line(self._changed), str(self._path))
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            line.tell(Hello(os.getpid()))
            self._line = line
            self._joined.set()
            await line.ended
            self._line = None
            self._joined.clear()
            _log.warning("the line to the node is broken")

    async def submit(self, command: Command) -> Outcome:
        """The node's outcome. Raises 50002, 50003 or 503."""
        answer = await self._call(lambda number: Submit(number, command), self._timeout_s)
        assert isinstance(answer, Decided)
        return answer.outcome

    async def status(self) -> NodeStatus:
        """The node's state. Raises as :meth:`submit`."""
        answer = await self._call(AskStatus, self._timeout_s)
        assert isinstance(answer, Status)
        return answer.status

    async def metrics(self, tally: Tally) -> bytes:
        """The host's metrics. Raises as :meth:`submit`."""
        answer = await self._call(lambda number: Report(tally, number), self._timeout_s)
        assert isinstance(answer, Metrics)
        return answer.text

    def report(self, tally: Tally) -> None:
        """Tell the node what was counted, if it is there."""
        if self._line is not None:
            self._line.tell(Report(tally))

    async def _call(self, message: Callable[[int], msgspec.Struct], timeout_s: float) -> Any:
        if self._waiting >= self._calls_max:
            raise UNAVAILABLE("Too many writes are waiting")
        self._waiting += 1
        try:
            line = self._line or await self._next_line()
            number = next(self._numbers)
            answer = line.call(number, message(number))
            try:
                async with asyncio.timeout(timeout_s):
                    return await answer
            except TimeoutError:
                line.forget(number)
                raise OUTCOME_UNKNOWN(_LATE) from None
        finally:
            self._waiting -= 1

    async def _next_line(self) -> _Line:
        try:
            async with asyncio.timeout(self._wait_s):
                while self._line is None:
                    await self._joined.wait()
                return self._line
        except TimeoutError:
            raise FORWARD_FAILED("The node cannot be reached; nothing was written") from None


class _Line(Framed):
    """One connection to the node."""

    def __init__(self, changed: Callable[[State], None]) -> None:
        super().__init__()
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._outbox: list[msgspec.Struct] = []
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def call(self, number: int, message: msgspec.Struct) -> asyncio.Future[Any]:
        """Send a message; its answer comes later. Calls of one moment go out together."""
        answer = self._calls[number] = self._loop.create_future()
        self._outbox.append(message)
        if len(self._outbox) == 1:
            self._loop.call_soon(self._send)
        return answer

    def forget(self, number: int) -> None:
        """Nobody waits for the answer any more."""
        self._calls.pop(number, None)

    def _send(self) -> None:
        outbox, self._outbox = self._outbox, []
        self.tell(*outbox)

    def heard(self, message: bytes) -> None:
        """An answer, or the node's state."""
        said = decode_from_node(message)
        if isinstance(said, State):
            self._changed(said)
            return
        waiting = self._calls.pop(said.number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(said)

    def connection_lost(self, exc: Exception | None) -> None:
        """What waits for an answer may or may not have been done."""
        calls, self._calls = self._calls, {}
        for waiting in calls.values():
            if not waiting.done():
                waiting.set_exception(_lost())
                waiting.exception()  # seen, even if the caller has gone
        if not self.ended.done():
            self.ended.set_result(None)


def _lost() -> RegistryError:
    return OUTCOME_UNKNOWN(_LOST)
