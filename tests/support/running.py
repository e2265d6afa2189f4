"""A registry as a real process on a free port; its output is kept for the message of a failure."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx

from deploy.local.process import free_port, outputs, until

__all__ = ["PATIENT", "ROOT", "Registry", "Served", "free_port", "until", "until_async"]

ROOT = Path(__file__).parents[2]
# For clients whose own timeout may be shorter than the registry's.
PATIENT = httpx.Timeout(60.0)
# So many connections hardly all reach the same one of two readers.
BOTH = range(32)
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
# So many connections hardly all reach the same reader.
_CONNECTIONS = 8


async def until_async(condition: Callable[[], Any], what: str, timeout_s: float = 10.0) -> Any:
    """Do the same on an event loop."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        await asyncio.sleep(0.005)
    return answer


def children_of(pid: int) -> dict[int, str]:
    """Return the process ids of a process's children, and the name of each, such as ``registry-node``."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            with suppress(OSError):
                found[child] = Path(f"/proc/{child}/comm").read_text().strip()
    return found


class Served:
    """A registry that is running already; ``url`` has no trailing slash."""

    def __init__(self, url: str) -> None:
        self.url = url


class Registry(Served):
    """A registry started here; ``output`` is what the process has printed."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        root: Path = ROOT,
        python: str = sys.executable,
    ) -> None:
        """``root``: of the checkout that is run, by the interpreter ``python``."""
        self.port = free_port() if port is None else port
        super().__init__(f"http://127.0.0.1:{self.port}")
        self.data = data
        self.headers: dict[str, str] = {}  # with which it is asked if it serves
        self.printed = data.with_name(f"{data.name}-{self.port}.txt")
        outputs[self.printed] = None
        # A build by Spark takes ten times as long, and a reader is a third of a start: ask for what you test.
        usual = {"REGISTRAR_SNAPSHOTS_BUILDER": "local", "REGISTRAR_READERS": "1"}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRAR_")}
        listen = () if {"--listeners", "--properties"} & {*flags} else ("--listen", f"127.0.0.1:{self.port}")
        with self.printed.open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *(python, "-m", "registry", "serve"),
                    *(*listen, "--data", str(data), *flags),
                ],
                cwd=root,
                env=inherited | usual | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self.printed.read_text(encoding="utf-8", errors="replace")

    def ready(self) -> bool:
        return self._status("/health/ready") == httpx.codes.OK

    def all_serve(self) -> bool:
        """Return true if its readers have rows: each is notified by the node on its own."""
        # A registry that wants credentials which are not in the headers serves too.
        served = (httpx.codes.OK, httpx.codes.UNAUTHORIZED)
        return all(self._status("/subjects") in served for _ in range(_CONNECTIONS))

    def _status(self, path: str) -> int:
        """Return the status of an answer on a new connection; 0 if there is none."""
        try:
            with closing(HTTPConnection("127.0.0.1", self.port, timeout=5.0)) as connection:
                connection.request("GET", path, headers=self.headers)
                return connection.getresponse().status
        except (OSError, HTTPException):
            return 0

    def wait(self) -> Registry:
        """Return when it is ready; fail with its output if the process ends instead."""

        def ready_or_dead() -> bool:
            assert self.process.poll() is None, (
                f"the registry ended ({self.process.returncode}):\n{self.output}"
            )
            return self.ready() and self.all_serve()

        try:
            until(ready_or_dead, START_TIMEOUT_S, "the registry to be ready")
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self.output}") from None
        return self

    def stop(self) -> int:
        """Ask it to stop; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not stop in {STOP_TIMEOUT_S:g} s:\n{self.output}") from None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
