"""The port through which peers use their node, and the deciding of their batches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from election.contract import Identity
from registry.domain.commands import NotPrimary, Outcome, Unknown
from registry.domain.errors import outcome_unknown
from registry.domain.pending_command import CommandRequest, PendingCommand, Submit
from registry.host.tracing.contract import NO_TRACING, Tracing

from .messages import Batch, Outcomes, decode_batch, encode


async def outcome_of(submit: Submit, pending: PendingCommand) -> Outcome:
    """Submit a command and return its outcome."""
    replied: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def on_reply(outcome: Outcome) -> None:
        if not replied.done():
            replied.set_result(outcome)

    pending.reply = on_reply
    submit(pending)
    return await replied


class NodePort(Protocol):
    """A node, as its peers use it on its event loop."""

    @property
    def role(self) -> str:
        """``primary``, ``secondary`` or ``following``."""
        ...

    @property
    def primary(self) -> Identity | None:
        """The current primary, which may be this node; ``None`` while none is known."""
        ...

    @property
    def repeats(self) -> bool:
        """True if the local writer honors idempotency keys."""
        ...

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command for the local writer."""
        ...

    def when_role_changes(self, call: Callable[[], None]) -> object:
        """Register a callback for changes of the role or the primary."""
        ...

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store has applied the log up to ``offset``; return True if so."""
        ...

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store has applied the log up to its end at the call; return True if so."""
        ...

    def applied(self) -> int:
        """Return the offset up to which the store has applied the log."""
        ...

    async def evict(self, identity: Identity) -> bool:
        """Evict the primary ``identity``, whose port is closed, from the election; return True if removed."""
        ...


_LATE = outcome_unknown("The log did not answer in time")
_log = logging.getLogger(__name__)


class BatchDecider:
    """Has batches decided while the node is primary; ``level`` is that of a log line for each command."""

    def __init__(self, node_port: NodePort, level: int, tracing: Tracing = NO_TRACING) -> None:
        self._node_port = node_port
        self._submit = tracing.decided(node_port.submit, from_peer=True)
        self._level = level

    async def outcomes(self, body: bytes) -> bytes:
        """Return the outcomes of a batch, packed; empty if it is malformed."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.decide(body, answer.set_result)
        return await asyncio.shield(answer)

    def decide(self, body: bytes, answered: Callable[[bytes], None]) -> None:
        """Decide a batch; ``answered`` is called once, with ``b""`` if it is malformed."""
        try:
            batch = decode_batch(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            _log.warning("a peer sent a malformed batch of commands: %s", error)
            answered(b"")
            return
        if self._node_port.role != "primary":
            answered(encode(Outcomes([NotPrimary()] * len(batch.requests))))
            return
        end = self._node_port.applied()
        self._decide(batch, lambda outcomes: answered(encode(Outcomes(outcomes, end))))

    def _decide(self, batch: Batch, answered: Callable[[list[Outcome]], None]) -> None:
        outcomes: list[Outcome | None] = [None] * len(batch.requests)
        left, ended = len(batch.requests), False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                timer.cancel()
                late = Unknown(_LATE, repeats=self._node_port.repeats)
                answered([late if outcome is None else outcome for outcome in outcomes])

        def decided(place: int, outcome: Outcome) -> None:
            nonlocal left
            outcomes[place] = outcome
            left -= 1
            if not left:
                end()

        longest_s = max((each.remaining_s for each in batch.requests), default=0.0)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(longest_s, end)
        for place, request in enumerate(batch.requests):
            self._log_request(batch.node, request)
            deadline = loop.time() + request.remaining_s
            self._submit(
                PendingCommand(request, deadline, partial(decided, place), deferrable=batch.deferrable)
            )
        if not batch.requests:
            end()

    def _log_request(self, node: str, request: CommandRequest) -> None:
        if _log.isEnabledFor(self._level):
            name = type(request.command).__name__
            _log.log(self._level, "%s forwarded by node %s, request %s", name, node, request.request_id)
