"""A process for a test, a measurement or a local cluster, which dies with the process that started it."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

START_TIMEOUT_S = 60.0
# A server that flushes all its data takes long on a busy disk; only one that hangs takes this long.
STOP_TIMEOUT_S = 60.0
FREEZE_TIMEOUT_S = 15.0
OUTPUT_SHOWN_BYTES = 8_000
# States of threads that do nothing: stopped, traced, ended.
_STILL = "TtZX"
_ENDED = "ZX"
_PORTS = range(12_000, 32_000)
_turn = itertools.count(random.SystemRandom().randrange(len(_PORTS)))
# The files to which the processes started here have printed, in order.
outputs: dict[Path, None] = {}


def free_port() -> int:
    """Return a TCP port of loopback on which nothing listened a moment ago; each call returns another one.

    Ports that the system assigns itself are left out: it could assign this one before the caller listens.
    """
    while True:
        port = _PORTS[next(_turn) % len(_PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def until(condition: Callable[[], Any], timeout_s: float, what: str, every_s: float = 0.02) -> Any:
    """Return the first true result of ``condition``; raise ``AssertionError`` with ``what`` on a time-out.

    ``every_s``: how long to wait in between; longer where asking takes much.
    """
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout_s:g} s for {what}")
        time.sleep(every_s)
    return answer


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return true if something accepts connections on this port."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
        return True
    return False


def freeze(pid: int) -> None:
    """Freeze a process (``SIGSTOP``) and wait until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _stands_still(pid), FREEZE_TIMEOUT_S, "a process to stand still")


def _stands_still(pid: int) -> bool:
    return all(_stat(thread)[0] in _STILL for thread in Path(f"/proc/{pid}/task").glob("*"))


def _has_ended(pid: int) -> bool:
    return _stat(Path(f"/proc/{pid}"))[0] in _ENDED


def _stat(folder: Path) -> list[str]:
    """Return the fields of ``/proc/…/stat`` from the state on; "ended" if the process is gone."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", "0", "0", "0"]


class Process:
    """A command that can be started, stopped, killed, frozen, started again; ``output`` is what it printed.

    It gets a session of its own: Ctrl-C reaches only who started it, and signals reach all its children.
    """

    def __init__(self, name: str, command: Sequence[str | Path], printed: Path) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.printed = printed
        self.environment: Mapping[str, str] | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        """Everything that it has printed, over all its starts."""
        return self.printed.read_text(encoding="utf-8", errors="replace") if self.printed.exists() else ""

    @property
    def running(self) -> bool:
        """True if it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id; it must have been started."""
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    def start(self) -> Self:
        """Start it; :meth:`wait` returns when it serves."""
        assert not self.running, f"{self.name} runs already"
        self.printed.parent.mkdir(parents=True, exist_ok=True)
        with self.printed.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.printed.parent,
                env=None if self.environment is None else dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._unwatch()  # A process that ended by itself has left its watcher.
        outputs[self.printed] = None
        self._watch = _watch(self.process.pid)
        return self

    def ready(self) -> bool:
        """Return true if it serves."""
        return self.running

    def wait(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Wait until it serves; if it ends or takes too long, fail with what it has printed."""

        def ready_or_dead() -> bool:
            assert self.running, f"{self.name} ended ({self.process and self.process.returncode})"
            return self.ready()

        try:
            until(ready_or_dead, timeout_s, f"{self.name} to serve")
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.output[-OUTPUT_SHOWN_BYTES:]}") from None
        return self

    def stop(self) -> int:
        """Stop it and return the exit code, 0 if it was never started. Fail if it takes too long."""
        if self.process is None:
            return 0
        self.thaw()
        self._signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"{self.name} did not stop in {STOP_TIMEOUT_S:g} s\n{self.output[-OUTPUT_SHOWN_BYTES:]}"
            ) from None
        self._unwatch()
        return code

    def kill(self) -> None:
        """Kill it and its children (``SIGKILL``), and wait until all have ended.

        One that waits for the disk ends later than its parent, and keeps its locks until then.
        """
        if self.process is None:
            return
        killed = self.processes()
        self._signal_all(signal.SIGKILL)
        self.process.wait()
        until(lambda: all(map(_has_ended, killed)), STOP_TIMEOUT_S, f"{self.name} to end")
        self._unwatch()

    def processes(self) -> list[int]:
        """Return the ids of its processes; it leads a session of its own."""
        found = Path("/proc").glob("[0-9]*")
        return [int(folder.name) for folder in found if int(_stat(folder)[3]) == self.pid]

    def freeze(self) -> None:
        """Freeze it and its children (``SIGSTOP``) and wait until all have stopped."""
        self._signal_all(signal.SIGSTOP)
        still = f"{self.name} to stand still"
        until(lambda: all(map(_stands_still, self.processes())), FREEZE_TIMEOUT_S, still)

    def thaw(self) -> None:
        """Let it continue after :meth:`freeze` (``SIGCONT``)."""
        self._signal_all(signal.SIGCONT)

    def restart(self) -> Self:
        """Stop it if it runs, start it with the same port and data, and wait until it serves."""
        self.stop()
        return self.start().wait()

    def __enter__(self) -> Self:
        return self.start().wait()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _signal(self, number: int) -> None:
        if self.running:
            os.kill(self.pid, number)

    def _signal_all(self, number: int) -> None:
        # The group leader has not been waited for, so its id cannot have been reused.
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()
            assert self._watch.stdin is not None
            self._watch.stdin.close()
            self._watch = None


def _watch(pid: int) -> subprocess.Popen[bytes]:
    """Start a shell that kills the group of ``pid`` when this process ends, however: its pipe closes then."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r _; kill -9 "-$1"', "watch", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
