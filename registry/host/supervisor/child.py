"""One child process of the supervisor, with all its restarts."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import orjson

from registry.base.processes.child_process import module_command

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
