"""Routing of clients' commands to the local writer or, in a cluster, to the current primary."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING

from registry.domain.commands import NotPrimary, Outcome, Unknown, refusal
from registry.domain.errors import FORWARD_FAILED, NOT_STARTED, UNAVAILABLE, outcome_unknown
from registry.domain.pending_command import OnReply, PendingCommand

from .ipc_server import HELD_MAX, HOLD_S
from .node import Node

if TYPE_CHECKING:
    from registry.forwarding.command_forwarder import Forwarding

_IN_DOUBT = outcome_unknown("The node failed before it answered")
_UNANSWERED = outcome_unknown("The node stopped before the log answered")
_NOTHING = "The node is stopping; nothing was written"


class CommandRouter:
    """Router that replies to every submitted command before the node stops, even if the log is unavailable.

    ``forwarding`` sends commands to the primary; it is ``None`` for a standalone node. A standalone node
    becomes primary as soon as it has read its log, usually within milliseconds; commands wait up to
    ``HOLD_S`` seconds for that.
    """

    def __init__(self, node: Node, forwarding: Forwarding | None = None) -> None:
        self._node = node
        self._forwarding = forwarding
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        # Outstanding replies, and commands that wait for the node to start; both by command number.
        self._replies: dict[int, OnReply] = {}
        self._held: dict[int, PendingCommand] = {}
        self._stopping = False
        node.when_started(self._release)

    def submit(self, pending: PendingCommand) -> None:
        """Route a command as :data:`.pending_command.Submit` specifies; never reply :class:`NotPrimary`."""
        if self._stopping:
            pending.reply(_not_begun(pending))
            return
        number = next(self._numbers)
        self._replies[number] = pending.reply
        pending.reply = partial(self._reply, number)
        if self._node.following.foreign:
            pending.reply(refusal(UNAVAILABLE(self._node.following.foreign)))
        elif self._forwarding is not None:
            self._forwarding.submit(pending)
        elif pending.in_doubt and not pending.repeatable:
            pending.reply(Unknown(_IN_DOUBT))
        elif self._node.is_started:
            self._node.submit(pending)
        elif len(self._held) < HELD_MAX:
            self._hold(number, pending)
        else:
            pending.reply(refusal(NOT_STARTED()))

    def _reply(self, number: int, outcome: Outcome) -> None:
        reply = self._replies.pop(number, None)
        if reply is not None:
            reply(refusal(NOT_STARTED()) if isinstance(outcome, NotPrimary) else outcome)

    def _hold(self, number: int, pending: PendingCommand) -> None:
        self._held[number] = pending
        wait_s = min(HOLD_S, pending.deadline - self._loop.time())
        self._loop.call_later(wait_s, self._refuse_held, number)

    def _refuse_held(self, number: int) -> None:
        pending = self._held.pop(number, None)
        if pending is not None:
            pending.reply(refusal(NOT_STARTED()))

    def _release(self) -> None:
        held, self._held = self._held, {}
        for pending in held.values():
            self._node.submit(pending)

    async def give_up(self) -> None:
        """Refuse commands that certainly were not executed, and new ones; the others' outcome is unknown."""
        self._stopping = True
        held, self._held = self._held, {}
        for pending in held.values():
            pending.reply(_not_begun(pending))
        if self._forwarding is not None:
            await self._forwarding.stop()
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            reply(Unknown(_UNANSWERED))


def _not_begun(pending: PendingCommand) -> Outcome:
    """Return the reply to a command that this node has given to nobody."""
    return Unknown(_UNANSWERED) if pending.in_doubt else refusal(FORWARD_FAILED(_NOTHING))
