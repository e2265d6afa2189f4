"""The threads of a node, which ends if one of them fails, and their calls to its event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from registry.domain.commands import Outcome
from registry.domain.pending_command import PendingCommand
from registry.log.contract import LogClosed, LogError
from registry.store.layout import StoreClosed, StoreError

_log = logging.getLogger(__name__)


class Threads:
    """Threads by name. ``failed`` is called, by the thread itself, with the reason why one has failed."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._threads: list[threading.Thread] = []

    def start(self, name: str, run: Callable[[], None]) -> None:
        """Start a thread that runs ``run``; it does not keep the process from ending."""
        thread = threading.Thread(target=self.run_guarded, args=(name, run), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, names: Iterable[str], timeout_s: float) -> None:
        """Wait until the named threads have ended, for at most ``timeout_s`` in total."""
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.name in names:
                thread.join(max(0.0, until - time.monotonic()))

    def run_guarded(self, name: str, run: Callable[[], None]) -> None:
        """Run ``run`` in the calling thread, and report if it fails."""
        try:
            run()
        except (LogClosed, StoreClosed):
            pass  # The node stops, and the thread has outlasted its time.
        except (LogError, StoreError) as error:
            # Known to happen: the next start deals with it.
            _log.error("%s; the node starts again", error)
            self._failed(str(error))
        except Exception as error:
            _log.exception("the thread %s failed", name)
            self._failed(str(error) or repr(error))


class Callbacks:
    """Runs calls on the event loop of the thread that creates it; any thread may request them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._on_started: list[Callable[[], None]] = []
        self._on_role: list[Callable[[], None]] = []
        self._role_pending = False

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """Call ``call`` on the event loop."""
        with suppress(RuntimeError):  # The loop is closed, so nothing waits for the call.
            if threading.get_ident() == self._thread:
                self._loop.call_soon(call, *args)  # need not be woken
            else:
                self._loop.call_soon_threadsafe(call, *args)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call ``call`` on the event loop after some seconds."""
        if threading.get_ident() == self._thread:
            self._loop.call_later(seconds, call)
        else:
            self.soon(self._loop.call_later, seconds, call)

    def deliver(self, replies: Sequence[tuple[PendingCommand, Outcome]]) -> None:
        """Reply to commands, all in one iteration of the event loop: in this one if it makes the call."""
        if threading.get_ident() == self._thread:
            _reply_all(replies)
        else:
            self.soon(_reply_all, replies)

    def add_started(self, call: Callable[[], None]) -> None:
        """Have ``call`` called once, when the node has started."""
        self._on_started.append(call)

    def add_role(self, call: Callable[[], None]) -> None:
        """Have ``call`` called whenever the role may have changed."""
        self._on_role.append(call)

    def report_started(self) -> None:
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
