"""The parent process: starts a node and its readers, restarts those that die, stops all in order.

It does nothing else, so that nothing else can bring it down. A child that refuses to start, because its data
are damaged or its port is taken, would refuse again: then everything ends with the child's message.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from registry.base.config.settings import Settings
from registry.base.processes.child_process import REFUSED, module_command
from registry.host import stop_budget

_TOO_MANY_PROCESSES = "the limit of processes or threads is reached (ulimit -u, TasksMax of systemd, pids)"
_ADVICE = {
    errno.EAGAIN: _TOO_MANY_PROCESSES,
    errno.EACCES: f"{sys.executable} may not be executed",
    errno.ENOENT: f"{sys.executable} does not exist",
    errno.EMFILE: "the limit of open files is reached (ulimit -n)",
    errno.ENOMEM: "there is not enough memory",
}


class SpawnFailed(Exception):
    """A child process cannot be started; the text says why."""


class Child:
    """One process, with all its restarts."""

    def __init__(self, kind: str, module: str, given: bytes, on_listening: Callable[[], None]) -> None:
        self.kind = kind
        self.on_listening = on_listening
        self.restarts = 0
        self.lived_s = 0.0
        self.refused = ""
        self.listening = asyncio.Event()
        self.ready = asyncio.Event()
        self.process: asyncio.subprocess.Process | None = None
        self._module = module
        self._given = given
        self._channel: socket.socket | None = None

    async def run(self) -> int:
        """Start it and wait for its end; return the exit code. Raises :class:`SpawnFailed`."""
        began, self.lived_s = time.monotonic(), 0.0
        try:
            ours = await self._spawn()
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no thread to watch it
            raise SpawnFailed(_reason(error)) from error
        self._channel = ours
        reader, writer = await asyncio.open_connection(sock=ours)
        with contextlib.suppress(OSError, ValueError):
            async for line in reader:
                self._on_message(orjson.loads(line))
        assert self.process is not None
        code = await self.process.wait()
        writer.close()
        self._channel = None
        self.lived_s = time.monotonic() - began
        return code

    async def _spawn(self) -> socket.socket:
        """Start the process and return our end of its channel, over which it gets what it needs."""
        with contextlib.ExitStack() as unless_started:
            ours, theirs = socket.socketpair()
            # A process that was started but cannot be watched ends when its channel closes.
            unless_started.enter_context(ours)
            with theirs:
                command, environment = module_command(self._module, str(theirs.fileno()))
                self.process = await asyncio.create_subprocess_exec(
                    *command, pass_fds=(theirs.fileno(),), env=environment, stdin=asyncio.subprocess.DEVNULL
                )
            unless_started.pop_all()
        ours.setblocking(True)
        # A process that has ended already has closed its end; its exit code says more.
        with contextlib.suppress(OSError):
            ours.sendall(len(self._given).to_bytes(4, "big") + self._given)
        return ours

    def _on_message(self, message: dict[str, Any]) -> None:
        self.refused = message.get("refused", self.refused)
        if message.get("listening"):
            self.listening.set()
            self.on_listening()
        if message.get("ready"):
            self.ready.set()

    def send(self, **message: Any) -> None:
        """Send the child a message, unless it has ended."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send(orjson.dumps(message) + b"\n")

    def kill(self) -> None:
        """Kill it."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()


def _reason(error: OSError | RuntimeError) -> str:
    if not isinstance(error, OSError):
        return f"{error}: {_TOO_MANY_PROCESSES}"
    said = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0)
    return f"{said}: {advice}" if advice else said


# Pauses before a restart, by the number of failures in a row; a child that ran for long has none.
_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
_STEADY_S = 30.0
# Starts of a child that has never begun to listen.
_FIRST_STARTS_MAX = 5

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
        given = pickle.dumps({"settings": settings, "endpoint": str(endpoint), "parent": os.getpid()})
        self._node = Child("node", "registry.node.main", given, self._send_restarts)
        self._readers = [
            Child("reader", "registry.reader.main", given, self._send_restarts)
            for _ in range(settings.readers)
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


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
