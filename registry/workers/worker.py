"""The parent's end of a worker process: started, asked one query after another, and killed."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import time
from contextlib import suppress

from registry.processes.commands import module_command
from registry.processes.pipes import LENGTH_BYTES, send

from .messages import WorkRequest, WorkResult

_START_S = 30.0
_SPARE_S = 10.0
"""How much later than it should a process may answer before it is killed."""


class Late(Exception):
    """The process does not answer in time."""


class Ended(Exception):
    """The process is gone."""


class WorkerProcess:
    """One process, for one thread. ``nice``: how much whatever else the machine has to do goes before."""

    def __init__(self, nice: int) -> None:
        command, environment = module_command("registry.workers.process", str(nice))
        self._process = subprocess.Popen(  # noqa: S603 (our own module)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._ready = False

    def ask(self, asked: WorkRequest) -> WorkResult:
        """Raises :class:`Late`, :class:`Ended` and ``OSError``; then the process is of no more use."""
        assert self._process.stdin is not None
        if not self._ready:
            self._receive(_START_S)
            self._ready = True
        send(self._process.stdin, pickle.dumps(asked))
        told: WorkResult = pickle.loads(self._receive(asked.wall_s + _SPARE_S))  # noqa: S301 (our own process)
        return told

    def _receive(self, wait_s: float) -> bytes:
        until = time.monotonic() + wait_s
        size = int.from_bytes(self._exactly(LENGTH_BYTES, until), "big")
        return self._exactly(size, until)

    def _exactly(self, count: int, until: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        data = bytearray()
        while len(data) < count:
            left_ms = (until - time.monotonic()) * 1000
            if left_ms <= 0 or not poll.poll(left_ms):
                raise Late("no answer in time")
            part = os.read(pipe, count - len(data))
            if not part:
                raise Ended("the worker process has ended")
            data += part
        return bytes(data)

    def kill(self) -> None:
        """Kill it; whoever asks it something notices. Any thread may."""
        self._process.kill()

    def end(self) -> None:
        """Kill it and wait until it is gone; it holds nothing."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it was not sent any more
                    pipe.close()
        self._process.wait()
