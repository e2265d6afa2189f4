"""The parent process: starts a node and its readers, restarts those that die, stops all in order.

It does nothing else, so that nothing else can bring it down. A child that refuses to start, because its data
are damaged or its port is taken, would refuse again: then everything ends with the child's message. Only a
full disk and the like may pass while the other processes serve, so a child that has served is tried again.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from registry.base.config.settings import Settings
from registry.base.processes.child_process import REFUSED
from registry.host import stop_budget

from .child import Child, SpawnFailed, reap_orphans

# Pauses before a restart, by the number of failures in a row; a child that ran for long has none.
_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
_STEADY_S = 30.0
# Starts of a child that has never begun to listen.
_FIRST_STARTS_MAX = 5
# What lacks for a time: room, a disk that can be written, files that may be opened, memory.
_LACKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_PASSING = tuple(map(os.strerror, _LACKS))

_log = logging.getLogger(__name__)


class Supervisor:
    """Keeps the children running until a signal."""

    def __init__(
        self,
        settings: Settings,
        endpoint: Path,
        *,
        report: Callable[[str], None],
        announce: Callable[[], None],
    ) -> None:
        """``report`` gives the user the reason why the registry ends, ``announce`` says that it serves."""
        self._data = settings.data
        self._report = report
        self._announce = announce
        self._node = Child("node", settings, endpoint, self._send_restarts)
        self._readers = [
            Child("reader", settings, endpoint, self._send_restarts) for _ in range(settings.readers)
        ]
        self._keepers: dict[Child, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._signals = 0
        self._refused = ""

    async def run(self) -> int:
        """Run until a signal, or until a child refuses to start; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._handle_signal)
        reap_orphans(loop)
        for child in (self._node, *self._readers):
            self._keepers[child] = loop.create_task(self._keep(child))
            self._keepers[child].add_done_callback(self._run_keeper)
        announcing = loop.create_task(self._announce_once_ready())
        await self._stopping.wait()
        announcing.cancel()
        await self._stop()
        if self._refused:
            return 1
        _log.info("stopped" if self._signals == 1 else "killed by a second signal")
        return 0 if self._signals == 1 else 1

    def _handle_signal(self) -> None:
        self._signals += 1
        if self._signals > 1:
            for child in self._keepers:
                child.kill()
        self._stopping.set()

    async def _keep(self, child: Child) -> None:
        failures = 0
        while not self._stopping.is_set():
            refusal = ""
            try:
                code = await child.run()
                ended = f"the {child.kind} ended ({_how(code)})"
            except SpawnFailed as error:
                code, ended = 0, f"cannot start the {child.kind}: {error}"
                # Later, its limits may be those of a moment, and the other processes still serve.
                refusal = "" if child.listening.is_set() else ended
            if self._stopping.is_set():
                return
            failures = 0 if child.lived_s > _STEADY_S else failures + 1
            if code == REFUSED:
                refusal = child.refused or f"the {child.kind} refused to start"
                if child.listening.is_set() and may_pass(refusal):
                    ended, refusal = f"the {child.kind} cannot start: {refusal}", ""
            elif failures >= _FIRST_STARTS_MAX and not child.listening.is_set():
                refusal = f"the {child.kind} ended {failures} times before it could serve ({_how(code)})"
                if -code == signal.SIGBUS:
                    refusal += f"; the disk may be full under {self._data}"
            if refusal:
                self._refuse(refusal)
                return
            pause_s = _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]
            _log.error("%s; restarting it in %g s", ended, pause_s)
            child.restarts += 1
            try:
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    def _run_keeper(self, keeper: asyncio.Task[None]) -> None:
        # Nobody would start the child again, and nobody would know.
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            _log.error("unexpected error while supervising", exc_info=error)
            self._refuse(f"unexpected error while supervising: {error!r}")

    def _refuse(self, reason: str) -> None:
        if not self._refused:
            self._refused = reason
            # Announced before the others have stopped, which takes seconds.
            self._report(reason)
        self._stopping.set()

    def _send_restarts(self) -> None:
        counts = {"node": self._node.restarts, "reader": sum(each.restarts for each in self._readers)}
        self._node.send(restarts=counts)

    async def _stop(self) -> None:
        """Stop the readers first: they need the node to finish their requests.

        The node resigns as primary at once, so that writes do not wait until it has stopped.
        """
        self._node.send(resign=True)
        loop = asyncio.get_running_loop()
        end = loop.time() + stop_budget.STOP_S
        await self._end(self._readers, stop_budget.READERS_S)
        await self._end([self._node], end - loop.time())

    async def _end(self, children: Iterable[Child], timeout_s: float) -> None:
        keepers = []
        for child in children:
            child.send(stop=True)
            keepers.append(self._keepers[child])
        _, late = await asyncio.wait(keepers, timeout=timeout_s)
        if late:
            for child in children:
                child.kill()
            await asyncio.wait(late)

    async def _announce_once_ready(self) -> None:
        for child in self._readers:
            await child.listening.wait()
        await self._node.ready.wait()
        self._announce()


def may_pass(refusal: str) -> bool:
    """Return true if a later start may succeed; what LMDB refuses has no number, so the text has to do."""
    return any(text in refusal for text in _PASSING)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
