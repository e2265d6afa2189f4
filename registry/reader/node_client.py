"""A reader's client of its node: numbered calls, answered in any order over one unix socket.

If the connection breaks, calls that were sent may or may not have been executed. Idempotent calls are sent
again when the node is back, and in a cluster all calls, because the idempotency key ensures that each is
executed once. All others fail with 50002, outcome unknown. Calls that were not sent wait a bounded time for
the next connection, then fail with 50003, or with 503 if the node is there but does not take them in time.
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

from registry.api.backend import A, NodeQuery, R
from registry.api.node_queries import METRICS
from registry.base.observe.metrics import Tally
from registry.domain.admission import Room, is_large, size_of
from registry.domain.commands import (
    IDEMPOTENCY_KEY_BYTES,
    IdempotencyKey,
    Outcome,
    Refused,
    Submitted,
    repeatable,
)
from registry.domain.errors import (
    FORWARD_FAILED,
    TOO_MANY_WRITES,
    RegistryError,
)
from registry.domain.pending_command import NO_ORIGIN, CommandRequest, Origin
from registry.ipc.messages import (
    Confirm,
    Confirmed,
    Decided,
    Hello,
    Query,
    Reply,
    Report,
    State,
    Submit,
    encode,
)

from .node_connection import NodeConnection, NodeLost, NotSent

RETRY_S = 0.05
QUERY_WAIT_S = 2.0  # Seconds that a query waits for a connection to the node.
_LATE_EVERY_S = 0.25
_MARGIN_S = 0.5
_log = logging.getLogger(__name__)


class NodeClient:
    """Keeps a connection to the node; ``changed`` is called with each state that the node reports."""

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
        seen: Callable[[], int] = lambda: 0,
    ) -> None:
        """Timeouts: for a write, for a node that is down, and for a read barrier.

        ``calls_max``, ``bytes_max``: calls in flight. ``seen`` returns an offset that the log has reached.
        """
        self._path = path
        self._timeout_s = timeout_s
        self._wait_s = min(wait_s, timeout_s)
        self._confirm_s = confirm_s
        self._room = Room(calls_max, bytes_max)
        self._changed = changed
        self._seen = seen
        self._repeats = False
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._connection: NodeConnection | None = None
        self._joined = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and reconnect whenever the connection breaks."""
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    def stop(self) -> None:
        """Disconnect."""
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        if self._connection is not None:
            self._connection.transport.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, connection = await loop.create_unix_connection(
                    lambda: NodeConnection(self._on_state, self._on_lost), str(self._path)
                )
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            connection.send(Hello(os.getpid()))
            if not connection.ended.done():
                self._connection = connection
                self._joined.set()
            while not connection.ended.done():
                # One timer for all calls: a timer for each would cost more than the call itself.
                await asyncio.wait((connection.ended,), timeout=_LATE_EVERY_S)
                connection.end_late()

    def _on_state(self, state: State) -> None:
        # A starting node does not report this yet; it has the same settings as the one before.
        if state.started:
            self._repeats = state.repeats
        self._changed(state)

    def _on_lost(self) -> None:
        # At once, so that no call is sent on a connection that will never answer.
        self._connection = None
        self._joined.clear()
        if self._keeper is not None:  # otherwise this side has closed it
            _log.warning("the connection to the node is broken")

    async def submit(self, command: Submitted, origin: Origin = NO_ORIGIN) -> Outcome:
        """Return the node's outcome. Raises 50002, 50003 or 503."""
        deadline = self._loop.time() + self._timeout_s
        if origin.until is not None:
            deadline = min(deadline, origin.until)
        size = size_of(command, origin.checked, origin.condition)
        idempotency_key = IdempotencyKey(os.urandom(IDEMPOTENCY_KEY_BYTES), self._seen())
        lost: NodeLost | None = None

        def message(number: int) -> Submit:
            request = CommandRequest(
                command, self._remaining_s(deadline), origin.request_id, idempotency_key, origin.principal,
                origin.trace, origin.checked, origin.kind, origin.condition,
            )  # fmt: skip
            return Submit(number, request, origin.forwarded, in_doubt=lost is not None)

        while True:
            repeats = self._repeats
            try:
                answer = await self._call(message, deadline - self._loop.time(), self._wait_s, size)
            except NodeLost as error:
                if not (repeats or repeatable(command, origin.condition)) or self._loop.time() >= deadline:
                    raise
                lost = error
                continue
            except RegistryError:
                if lost is not None:
                    raise lost from None  # the first attempt may have been executed
                raise
            assert isinstance(answer, Decided)
            outcome = answer.outcome
            if lost is not None and isinstance(outcome, Refused) and not self._is_final(outcome):
                raise lost  # a refusal says nothing about the first attempt
            return outcome

    def _is_final(self, outcome: Refused) -> bool:
        """Return true if the node refused after checking that no earlier attempt was executed."""
        return self._repeats and not str(outcome.code).startswith("5")

    def _remaining_s(self, deadline: float) -> float:
        """Return the node's time limit: less than the caller waits, so that the outcome arrives in time."""
        left = deadline - self._loop.time()
        return left - min(_MARGIN_S, left / 10)

    async def confirm(self, offset: int = -1) -> bool:
        """Return true if the store is as new as the log, or as ``offset``; false if no reply came in time."""
        try:
            answer = await self._call(
                lambda number: Confirm(number, offset), self._confirm_s, self._confirm_s
            )
        except RegistryError:
            return False
        assert isinstance(answer, Confirmed)
        return answer.fresh

    async def ask(self, query: NodeQuery[R, A], request: R, more_s: float = 0.0) -> A:
        """Return the node's answer to a query, for which it may take ``more_s`` seconds more than usual.

        Raises what the node refuses it with, and what the row makes of the errors of :meth:`submit`.
        """
        packed = msgspec.Raw(encode(request))
        try:
            reply = await self._call(
                lambda number: Query(number, query.number, packed), query.timeout_s + more_s, QUERY_WAIT_S
            )
        except RegistryError as error:
            raise query.unanswered(error) from None
        assert isinstance(reply, Reply)
        if (refused := reply.refused) is not None:
            raise RegistryError(refused.code, refused.message).with_retry_after(refused.retry_after_s)
        return query.decode_answer(bytes(reply.answer))

    async def metrics(self, tally: Tally) -> bytes:
        """Return the host's metrics. Raises as :meth:`submit`."""
        self.report(tally)
        return await self.ask(METRICS, None)

    def report(self, tally: Tally) -> None:
        """Send the counts to the node, if it is connected."""
        if self._connection is not None:
            self._connection.send(Report(tally))

    async def _call(
        self, message: Callable[[int], msgspec.Struct], timeout_s: float, wait_s: float, size: int = 0
    ) -> Any:
        if not self._room.fits(size):
            raise TOO_MANY_WRITES()
        self._room.add(size)
        deadline = self._loop.time() + timeout_s
        try:
            while True:
                left = min(wait_s, deadline - self._loop.time())
                connection = self._connection or await self._next_connection(left)
                number = next(self._numbers)
                try:
                    if not is_large(size):
                        return await connection.call(number, message(number), deadline)
                    return await connection.call_large(number, partial(message, number), deadline)
                except NotSent:
                    continue
        finally:
            self._room.remove(size)

    async def _next_connection(self, wait_s: float) -> NodeConnection:
        try:
            async with asyncio.timeout(wait_s):
                while self._connection is None:
                    await self._joined.wait()
                return self._connection
        except TimeoutError:
            raise FORWARD_FAILED("Cannot reach the node; nothing was written") from None
