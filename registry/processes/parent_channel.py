"""A process that a parent started.

It gets its settings from the parent, tells it how it is, and ends with it. The two ends of a socket pair are
held by the parent and one child alone, so the end of the parent, however it comes, is the end of the child's
input. Lines of JSON go both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from registry.config.loading import Settings
from registry.observe.logs import start_logging

REFUSED = 3
"""Exit code of a child that cannot be started as things are: starting it again would not help."""

_PR_SET_PDEATHSIG = 1


class Parent:
    """The parent, as its child sees it."""

    def __init__(self, line: socket.socket, settings: Settings, given: dict[str, Any]) -> None:
        self._line = line
        self._pending = b""
        self.settings = settings
        self.endpoint = Path(given["endpoint"])
        """The socket of the node."""

    def tell(self, **fact: Any) -> None:
        """Tell the parent something; a parent that is gone hears nothing."""
        with contextlib.suppress(OSError):
            self._line.sendall(orjson.dumps(fact) + b"\n")

    def listen(self, stop: Callable[[], None], heard: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Have ``stop`` called when the parent says so or ends, and ``heard`` with all else it says."""
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
                said = orjson.loads(line)
                if said.get("stop"):
                    stop()
                elif heard is not None:
                    heard(said)

        loop.add_reader(self._line, readable)


def started_by_parent(process: str) -> Parent:
    """Begin life as a child.

    The first thing a child's main program does. ``process`` names it in log lines.
    """
    line = socket.socket(fileno=int(sys.argv[1]))
    length = int.from_bytes(_exactly(line, 4), "big")
    given: dict[str, Any] = pickle.loads(_exactly(line, length))  # noqa: S301 (from our own parent)
    # The parent tells its children when to stop, in an order that matters; a terminal or a service manager
    # that signals the whole group must not disturb it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with(given["parent"])
    settings: Settings = given["settings"]
    start_logging(settings.log_level, settings.log_format, process)
    sys.setswitchinterval(0.001)
    return Parent(line, settings, given)


def _die_with(parent: int) -> None:
    """Where the kernel offers it, be killed when the parent dies, even if this process hangs."""
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
