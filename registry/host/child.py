"""A child process of the supervisor, forked from it, with all its restarts.

A forked child shares the memory of the modules that the supervisor has imported, and need not import them
again. So a registry of two readers takes half of the CPU time to start, and a quarter less memory; one of
eight readers half of it. All processes are of one release, even if its files are replaced while they run.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import importlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import orjson

from registry.base.config.settings import Settings
from registry.base.processes.child_process import Parent, forked_by_parent
from registry.base.processes.forked_process import close_all_but, name_process

_STOPPING = {signal.SIGTERM, signal.SIGINT}
# Pauses between looks whether a process that has closed its channel has ended; the last one is repeated.
_LOOKS_S = (0.001, 0.004, 0.016, 0.05)
_TOO_MANY_PROCESSES = "the limit of processes or threads is reached (ulimit -u, TasksMax of systemd, pids)"
_ADVICE = {
    errno.EAGAIN: _TOO_MANY_PROCESSES,
    errno.EMFILE: "the limit of open files is reached (ulimit -n)",
    errno.ENOMEM: "there is not enough memory",
}
# The processes of all children.
_OWN: set[int] = set()


class SpawnFailed(Exception):
    """A child process cannot be started; the text says why."""


class Child:
    """One process, with all its restarts."""

    def __init__(
        self, kind: str, settings: Settings, endpoint: Path, on_listening: Callable[[], None]
    ) -> None:
        """``kind``: ``node`` or ``reader``, the room whose ``main`` runs; ``endpoint``: the node's socket."""
        self.kind = kind
        self.on_listening = on_listening
        self.restarts = 0
        self.lived_s = 0.0
        self.refused = ""
        self.listening = asyncio.Event()
        self.ready = asyncio.Event()
        self._settings = settings
        self._endpoint = endpoint
        self._pid: int | None = None
        self._is_known = False
        self._channel: socket.socket | None = None

    async def run(self) -> int:
        """Start it and wait for its end; return the exit code, negative for a signal.

        Raises :class:`SpawnFailed`.
        """
        began, self.lived_s = time.monotonic(), 0.0
        try:
            self._channel = ours = await self._start()
        except OSError as error:
            raise SpawnFailed(_reason(error)) from error
        reader, writer = await asyncio.open_connection(sock=ours)
        with contextlib.suppress(OSError, ValueError):
            async for line in reader:
                self._on_message(orjson.loads(line))
        code = await self._end()
        writer.close()
        self._channel = None
        self.lived_s = time.monotonic() - began
        return code

    async def _start(self) -> socket.socket:
        """Start the process; return our end of its channel."""
        loop = asyncio.get_running_loop()
        started: asyncio.Future[socket.socket] = loop.create_future()

        def start() -> None:
            try:
                started.set_result(self._fork())
            except Exception as error:
                started.set_exception(error)

        # Not in a task: the child would begin its own event loop in the middle of it.
        loop.call_soon(start)
        return await started

    def _fork(self) -> socket.socket:
        # By name, because these import this room. What is imported only for the readers comes after the node
        # has started.
        main: Callable[[Parent], int] = importlib.import_module(f"registry.{self.kind}.main").main
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as unless_started, theirs:
            unless_started.enter_context(ours)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            if not self._is_known:
                # What exists now is never searched for garbage again: that would write to each object, so
                # that its memory is no longer shared. Only once, because what a restart leaves here is
                # garbage later.
                gc.freeze()
                self._is_known = True
            gc.disable()  # until the child has frozen what it has of this process
            # A signal for the child, before it has left the parent's handlers, would stop the parent.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
            try:
                parent = os.getpid()
                self._pid = os.fork()
                if self._pid == 0:
                    # Collecting objects of the parent would close files of this process.
                    gc.freeze()
                    gc.enable()
                    self._run_child(main, theirs, parent, blocked)
            finally:
                gc.enable()
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            _OWN.add(self._pid)
            unless_started.pop_all()
        return ours

    def _run_child(
        self, main: Callable[[Parent], int], line: socket.socket, parent: int, blocked: set[Any]
    ) -> NoReturn:
        """Run ``main`` in the child and exit: what the parent has begun is not for the child to finish."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            close_all_but(line.fileno())
            _empty_input()
            name_process(f"registry-{self.kind}")
            given = forked_by_parent(line, self._settings, self._endpoint, parent=parent, process=self.kind)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            code = main(given)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(OSError, ValueError):
                logging.shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    async def _end(self) -> int:
        """Wait until the process, which has closed its channel, has ended; return its exit code."""
        pid = self._pid
        assert pid is not None
        looks = 0
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 (does not wait)
            if ended:
                self._pid = None
                _OWN.discard(pid)
                _reap_orphans()
                return os.waitstatus_to_exitcode(status)
            await asyncio.sleep(_LOOKS_S[min(looks, len(_LOOKS_S) - 1)])
            looks += 1

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
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)


def reap_orphans(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, reap what ended children leave to this process, as to the first one of a container."""
    if sys.platform == "linux":
        # Such processes are killed when their parent ends, but may end later than it does.
        loop.add_signal_handler(signal.SIGCHLD, _reap_orphans)


def _reap_orphans() -> None:
    if sys.platform != "linux":
        return
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if found.si_pid in _OWN:
                return  # its own coroutine awaits it, and does the rest
            os.waitpid(found.si_pid, os.WNOHANG)


def _empty_input() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _reason(error: OSError) -> str:
    said = os.strerror(error.errno) if error.errno else str(error)
    advice = _ADVICE.get(error.errno or 0)
    return f"{said}: {advice}" if advice else said
