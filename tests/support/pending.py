"""Commands as a test submits them."""

from __future__ import annotations

import math
from typing import Any

from registry.domain.commands import Command, Condition, IdempotencyKey, Outcome
from registry.domain.pending_command import CommandRequest, OnReply, PendingCommand
from registry.domain.principal import CheckedNames


def _ignore(outcome: Outcome) -> None:
    pass


def pending(
    command: Command,
    reply: OnReply = _ignore,
    *,
    deadline: float = math.inf,
    key: IdempotencyKey | None = None,
    checked: CheckedNames | None = None,
    condition: Condition | None = None,
    **state: Any,
) -> PendingCommand:
    request = CommandRequest(command, math.inf, "", key, checked=checked, condition=condition)
    return PendingCommand(request, deadline, reply, **state)
