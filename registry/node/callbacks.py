"""Calls from the node's threads to its event loop: replies, and callbacks for changes of the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from registry.domain.commands import Outcome
from registry.domain.pending_command import PendingCommand


class Callbacks:
    """Runs calls on the event loop of the thread that creates it; any thread may request them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_started: list[Callable[[], None]] = []
        self._on_role: list[Callable[[], None]] = []
        self._role_pending = False

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """Call ``call`` on the event loop."""
        with suppress(RuntimeError):  # The loop is closed, so nothing waits for the call.
            self._loop.call_soon_threadsafe(call, *args)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call ``call`` on the event loop after some seconds."""
        self.soon(self._loop.call_later, seconds, call)

    def deliver(self, replies: Sequence[tuple[PendingCommand, Outcome]]) -> None:
        """Reply to commands, all in one iteration of the event loop."""
        self.soon(_reply_all, replies)

    def add_started(self, call: Callable[[], None]) -> None:
        """Have ``call`` called once, when the node has started."""
        self._on_started.append(call)

    def add_role(self, call: Callable[[], None]) -> None:
        """Have ``call`` called whenever the role may have changed."""
        self._on_role.append(call)

    def started(self) -> None:
        """Report that the node has started."""
        self.soon(self._run_started)

    def role_changed(self) -> None:
        """Report that the role may have changed; several changes in a row are reported as one."""
        if not self._role_pending:
            self._role_pending = True
            self.soon(self._run_role)

    def _run_started(self) -> None:
        calls, self._on_started = self._on_started, []
        for call in calls:
            call()

    def _run_role(self) -> None:
        self._role_pending = False
        for call in self._on_role:
            call()


def _reply_all(replies: Sequence[tuple[PendingCommand, Outcome]]) -> None:
    for pending, outcome in replies:
        pending.reply(outcome)
