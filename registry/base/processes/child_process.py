"""Child processes that run a module of this project, and the channels between them and their parent.

The child gets its settings from the parent, reports to it, and ends with it. Only the parent and the child
hold the two ends of a socket pair, so when the parent ends, for whatever reason, the child's input ends.
Messages are lines of JSON in both directions.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import orjson

from registry.base.config.settings import Settings
from registry.base.observe.logs import start_logging

_ROOT = Path(__file__).parents[3]
# For glibc's allocator: variables of the environment that it reads when a program starts, and their numbers
# in mallopt(3). Threads share two heaps, and freed blocks of a mebibyte and more return to the system. By
# default, the memory of large requests stays in a heap for each thread.
_HEAPS = 2
_ALLOCATOR = {
    "MALLOC_ARENA_MAX": (-8, _HEAPS),
    "MALLOC_MMAP_THRESHOLD_": (-3, 1 << 20),
    "MALLOC_TRIM_THRESHOLD_": (-1, 1 << 20),
}
# For work that soon needs as much memory again as it frees: each page that was returned costs a fault.
_KEPT_BLOCK_BYTES, _KEPT_BYTES = 32 << 20, 64 << 20
LENGTH_BYTES = 8
# Parsing one schema creates more objects than the default threshold of 700, and would start several searches
# for cyclic garbage, which find nothing.
_GC_THRESHOLD = 5_000


def module_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment that run a module in this interpreter.

    Settings of the allocator in the present environment are kept. ``-P`` keeps a module of the same name in
    the working directory from being run instead.
    """
    environment = {name: str(value) for name, (_, value) in _ALLOCATOR.items()} | os.environ
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environment.get("PYTHONPATH"))))
    return [sys.executable, "-P", "-m", module, *arguments], environment


def keep_freed_memory(*, keep: bool, block_bytes: int = _KEPT_BLOCK_BYTES, heaps: int = _HEAPS) -> None:
    """Have this process keep the memory that it frees, or return it to the system as usual.

    Larger blocks than ``block_bytes``, at most 32 MiB, are returned in any case. ``heaps``: how many threads
    share, of those that are yet to begin. Settings of the allocator in the environment are kept, if they are
    others than our own.
    """
    libc = ctypes.CDLL(None)
    wanted = {
        "MALLOC_ARENA_MAX": heaps,
        "MALLOC_MMAP_THRESHOLD_": block_bytes,
        "MALLOC_TRIM_THRESHOLD_": _KEPT_BYTES,
    }
    with contextlib.suppress(AttributeError):  # other C libraries have no mallopt
        for name, kept in wanted.items():
            number, usual = _ALLOCATOR[name]
            if os.environ.get(name, str(usual)) == str(usual):
                libc.mallopt(number, kept if keep else usual)
        if not keep:
            libc.malloc_trim(0)


def start_module(
    module: str, settings: Settings, *arguments: str, request: object = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module in a process group of its own; return its process and the socket to it.

    The module begins with :func:`started_by_parent`. It is killed when the calling thread ends. Raises
    :class:`OSError`.
    """
    ours, theirs = socket.socketpair()
    given = {"settings": settings, "endpoint": "", "parent": os.getpid(), "request": request}
    with theirs:
        command, environment = module_command(module, str(theirs.fileno()), *arguments)
        try:
            process = subprocess.Popen(  # noqa: S603 (our own module)
                command,
                pass_fds=(theirs.fileno(),),
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
    message = pickle.dumps(given)
    with contextlib.suppress(OSError):
        ours.sendall(len(message).to_bytes(4, "big") + message)
    return process, ours


def kill_group(process: subprocess.Popen[bytes], wait_s: float) -> None:
    """End a process that :func:`start_module` has started, and its children, which may outlive it."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)


def send(pipe: IO[bytes], message: bytes) -> None:
    """Write a whole message.

    It bypasses Python's file object: with ``PYTHONUNBUFFERED``, which images often set, that takes a write
    that a signal has cut short for complete.
    """
    for part in (len(message).to_bytes(LENGTH_BYTES, "big"), message):
        left = memoryview(part)
        while left:
            left = left[os.write(pipe.fileno(), left) :]


def receive(pipe: IO[bytes]) -> bytes | None:
    """Return the next message; ``None`` when the other side has closed."""
    length = pipe.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    size = int.from_bytes(length, "big")
    message = pipe.read(size)
    return message if len(message) == size else None


# Exit code of a child that cannot start under the present conditions: a restart would not help.
REFUSED = 3

_PR_SET_PDEATHSIG = 1


class Parent:
    """The child's end of the channel."""

    def __init__(self, line: socket.socket, settings: Settings, endpoint: Path, request: Any = None) -> None:
        """``endpoint`` is the node's socket; ``request`` the task of a process that has only one."""
        self._line = line
        self._pending = b""
        self.settings = settings
        self.endpoint = endpoint
        self.request = request

    def report(self, **fact: Any) -> None:
        """Send the parent a message, unless it has ended."""
        with contextlib.suppress(OSError):
            self._line.sendall(orjson.dumps(fact) + b"\n")

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the parent's messages as they come, until it ends or closes the channel."""
        while data := self._line.recv(65536):
            *lines, self._pending = (self._pending + data).split(b"\n")
            yield from map(orjson.loads, lines)

    def listen(
        self, stop: Callable[[], None], on_message: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        """Call ``stop`` when the parent asks for it or ends, and ``on_message`` with other messages."""
        self._line.setblocking(False)
        loop = asyncio.get_running_loop()

        def readable() -> None:
            try:
                data = self._line.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                loop.remove_reader(self._line)
                stop()
                return
            *lines, self._pending = (self._pending + data).split(b"\n")
            for line in lines:
                message = orjson.loads(line)
                if message.get("stop"):
                    stop()
                elif on_message is not None:
                    on_message(message)

        loop.add_reader(self._line, readable)


def started_by_parent(process: str) -> Parent:
    """Receive the settings from the parent and start logging, first thing in a child's main program.

    ``process`` is the child's name in log lines.
    """
    line = socket.socket(fileno=int(sys.argv[1]))
    length = int.from_bytes(_exactly(line, 4), "big")
    given: dict[str, Any] = pickle.loads(_exactly(line, length))  # noqa: S301 (from our own parent)
    _begin(given["settings"], given["parent"], process)
    return Parent(line, given["settings"], Path(given["endpoint"]), given.get("request"))


def forked_by_parent(
    line: socket.socket, settings: Settings, endpoint: Path, *, parent: int, process: str
) -> Parent:
    """Do the same in a child that was forked from ``parent``; ``line`` is its end of the channel."""
    libc = ctypes.CDLL(None)
    for name, (number, value) in _ALLOCATOR.items():
        if name not in os.environ:
            with contextlib.suppress(AttributeError):  # other C libraries have no mallopt
                libc.mallopt(number, value)
    _begin(settings, parent, process)
    return Parent(line, settings, endpoint)


def _begin(settings: Settings, parent: int, process: str) -> None:
    # The parent stops its children in an order that matters; a terminal or service manager that signals the
    # whole group must not interfere.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with(parent)
    start_logging(settings.log_level, settings.log_format, process)
    sys.setswitchinterval(0.001)
    gc.set_threshold(_GC_THRESHOLD)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when the parent dies, even if it hangs; on Linux only."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            sys.exit(1)


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = line.recv(count - len(data))
        if not part:
            sys.exit(1)
        data += part
    return data
