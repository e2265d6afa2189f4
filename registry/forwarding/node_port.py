"""The port through which the peer endpoint and the command forwarder use their node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from election.contract import Identity
from registry.domain.commands import Outcome
from registry.domain.pending_command import PendingCommand, Submit


async def outcome_of(submit: Submit, pending: PendingCommand) -> Outcome:
    """Submit a command and return its outcome."""
    replied: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def on_reply(outcome: Outcome) -> None:
        if not replied.done():
            replied.set_result(outcome)

    pending.reply = on_reply
    submit(pending)
    return await replied


class Host(Protocol):
    """The node. Used on its event loop."""

    @property
    def role(self) -> str:
        """``primary``, ``secondary`` or ``following``."""
        ...

    @property
    def primary(self) -> Identity | None:
        """The present primary, which may be this node itself; ``None`` while none is known."""
        ...

    @property
    def repeats(self) -> bool:
        """Whether the own writer does a command that is sent again with its idempotency key only once."""
        ...

    def submit(self, pending: PendingCommand) -> None:
        """Queue a command for the local writer."""
        ...

    def when_role_changes(self, call: Callable[[], None]) -> object:
        """Have ``call`` called after each change of the role or of the primary."""
        ...

    async def reach_async(self, offset: int, timeout_s: float) -> bool:
        """Wait until the store holds the log up to ``offset``; whether it does."""
        ...

    async def confirm(self, timeout_s: float) -> bool:
        """Wait until the store is as new as the log was at the call; whether it is."""
        ...

    def applied(self) -> int:
        """The offset up to which the store holds the log."""
        ...

    async def evict(self, identity: Identity) -> bool:
        """Have the election forget the primary ``identity``, at which nobody listens; whether it did."""
        ...
