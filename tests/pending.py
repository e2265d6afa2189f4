"""Commands as a test submits them."""

from __future__ import annotations

import math
from typing import Any

from registry.domain.commands import Command, IdempotencyKey, Outcome
from registry.domain.pending_command import CommandRequest, OnReply, PendingCommand


def _ignored(outcome: Outcome) -> None:
    pass


def pending(
    command: Command,
    reply: OnReply = _ignored,
    *,
    deadline: float = math.inf,
    key: IdempotencyKey | None = None,
    **state: Any,
) -> PendingCommand:
    return PendingCommand(CommandRequest(command, math.inf, "", key), deadline, reply, **state)
