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
        """True if the local writer honours idempotency keys."""
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
