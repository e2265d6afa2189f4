"""The parent process: starts a node and its readers, restarts those that die, stops all in order.

It does nothing else, so that nothing else can bring it down. A child that refuses to start, because its data
are damaged or its port is taken, would refuse again: then everything ends with the child's message.
"""

from __future__ import annotations

import asyncio
import contextlib
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

from registry.processes.child_process import module_command
from registry.processes.sockets import runtime_folder

from . import VERSION
from .config.loading import Settings
from .observe.logs import start_logging
from .processes.parent_channel import REFUSED
from .processes.sockets import ListenError, listen_on_all
from .security.exposure import warnings
from .security.watched_file import FileError

# Together less than the five seconds in which everything has to stop.
STOP_READERS_S = 3.0
STOP_NODE_S = 1.7
# Pauses before a restart, by the number of failures in a row; a child that ran for long has none.
_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
_STEADY_S = 30.0
# Starts of a child that has never begun to listen.
_FIRST_STARTS_MAX = 5
_SOCKET_PATH_BYTES_MAX = 104

# Addresses by which this machine reaches listeners on all addresses.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (recognised, not listened on)

_log = logging.getLogger(__name__)


def serve(settings: Settings) -> int:
    """Run until a signal; return the exit code. Why it cannot start is printed on standard error."""
    start_logging(settings.log_level, settings.log_format, "parent")
    for each in warnings(settings):
        _log.warning("%s", each)
    try:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if settings.https or settings.peer_tls_certificate:
            _check_tls(settings)
        if settings.authenticates:
            _check_gate(settings)
        reserved = _reserve(settings)
    except _StartRefused as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"cannot use the folder {settings.data}: {error.strerror or error}")
    try:
        with runtime_folder() as folder, reserved:
            return asyncio.run(_Supervisor(settings, _endpoint(folder)).run())
    except _StartRefused as error:
        return _refuse(str(error))


class _StartRefused(Exception):
    """The registry cannot start; the text is for the user."""


def _refuse(reason: str) -> int:
    print(f"registrar: {reason}", file=sys.stderr, flush=True)  # noqa: T201
    return 1


def _reserve(settings: Settings) -> contextlib.ExitStack:
    """Reserve the ports for this parent's children; raise if another process has one of them.

    Any process of the same user could join a shared port. So each is first bound exclusively, which fails if
    another process listens, and then held by a socket that never listens.
    """
    reserved = contextlib.ExitStack()
    try:
        for _, exclusive in listen_on_all(settings.addresses, shared=False):
            exclusive.close()
        for _, held in listen_on_all(settings.addresses, shared=True):
            reserved.enter_context(held)
    except ListenError as error:
        raise _StartRefused(str(error)) from error
    return reserved


def _check_tls(settings: Settings) -> None:
    """Refuse to start with certificates that cannot be used; a child would fail again and again."""
    from .security.tls.expiry import problems  # noqa: PLC0415 (its library costs time and memory)

    for problem in problems(settings):
        raise _StartRefused(problem)


def _check_gate(settings: Settings) -> None:
    """Refuse to start with files of users or keys that cannot be used; a child would fail again and again."""
    from .security.configured_gate import ConfiguredGate  # noqa: PLC0415 (its libraries cost time and memory)

    try:
        ConfiguredGate(settings).close()
    except FileError as error:
        raise _StartRefused(str(error)) from None


def _endpoint(folder: Path) -> Path:
    path = folder / "node.sock"
    if len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
        raise _StartRefused(f"the path {path} is too long for a socket; set TMPDIR to a shorter one")
    return path


class _Child:
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
        """Start it and wait for its end; return the exit code."""
        ours, theirs = socket.socketpair()
        began = time.monotonic()
        with theirs:
            command, environment = module_command(self._module, str(theirs.fileno()))
            self.process = await asyncio.create_subprocess_exec(
                *command, pass_fds=(theirs.fileno(),), env=environment, stdin=asyncio.subprocess.DEVNULL
            )
        ours.setblocking(True)
        ours.sendall(len(self._given).to_bytes(4, "big") + self._given)
        self._channel = ours
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            async for line in reader:
                self._on_message(orjson.loads(line))
        except (OSError, ValueError):
            pass
        code = await self.process.wait()
        writer.close()
        self._channel = None
        self.lived_s = time.monotonic() - began
        return code

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


class _Supervisor:
    """Keeps the children running until a signal."""

    def __init__(self, settings: Settings, endpoint: Path) -> None:
        self._settings = settings
        given = pickle.dumps({"settings": settings, "endpoint": str(endpoint), "parent": os.getpid()})
        self._node = _Child("node", "registry.node.main", given, self._send_restarts)
        self._readers = [
            _Child("reader", "registry.reader.main", given, self._send_restarts)
            for _ in range(settings.readers)
        ]
        self._keepers: dict[_Child, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._signals = 0
        self._refused = ""

    async def run(self) -> int:
        """Run until a signal, or until a child refuses to start; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        for child in (self._node, *self._readers):
            self._keepers[child] = loop.create_task(self._keep(child))
        announcing = loop.create_task(self._announce())
        await self._stopping.wait()
        announcing.cancel()
        await self._stop()
        if self._refused:
            return _refuse(self._refused)
        return 0 if self._signals == 1 else 1

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals > 1:
            for child in self._keepers:
                child.kill()
        self._stopping.set()

    async def _keep(self, child: _Child) -> None:
        failures = 0
        while not self._stopping.is_set():
            code = await child.run()
            if self._stopping.is_set():
                return
            if code == REFUSED:
                self._refused = child.refused or f"the {child.kind} refused to start"
                self._stopping.set()
                return
            failures = 0 if child.lived_s > _STEADY_S else failures + 1
            if failures >= _FIRST_STARTS_MAX and not child.listening.is_set():
                how = f"{failures} times before it could serve ({_how(code)})"
                self._refused = f"the {child.kind} ended {how}"
                if -code == signal.SIGBUS:
                    self._refused += f"; the disk may be full under {self._settings.data}"
                self._stopping.set()
                return
            pause_s = _PAUSES_S[min(failures, len(_PAUSES_S) - 1)]
            _log.error("the %s ended (%s); restarting it in %g s", child.kind, _how(code), pause_s)
            child.restarts += 1
            try:
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    def _send_restarts(self) -> None:
        counts = {"node": self._node.restarts, "reader": sum(each.restarts for each in self._readers)}
        self._node.send(restarts=counts)

    async def _stop(self) -> None:
        """Stop the readers first: they need the node to finish their requests.

        The node resigns as primary at once, so that writes do not wait until it has stopped.
        """
        self._node.send(resign=True)
        await self._end(self._readers, STOP_READERS_S)
        await self._end([self._node], STOP_NODE_S if self._readers else STOP_READERS_S + STOP_NODE_S)

    async def _end(self, children: Iterable[_Child], timeout_s: float) -> None:
        keepers = []
        for child in children:
            child.send(stop=True)
            keepers.append(self._keepers[child])
        if not keepers:
            return
        _, late = await asyncio.wait(keepers, timeout=timeout_s)
        if late:
            for child in children:
                child.kill()
            await asyncio.wait(late)

    async def _announce(self) -> None:
        for child in self._readers or [self._node]:
            await child.listening.wait()
        await self._node.ready.wait()
        print(_banner(self._settings), flush=True)  # noqa: T201


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _banner(settings: Settings) -> str:
    urls = [str(each._replace(host=_LOOPBACK.get(each.host, each.host))) for each in settings.addresses]
    main = settings.main_address
    url = str(main._replace(host=_LOOPBACK.get(main.host, main.host)))
    readers = "1 reader" if settings.readers == 1 else f"{settings.readers} readers"
    processes = f"{readers} and the node" if settings.readers else "the node alone"
    log = f"\n  log       topic {settings.topic} at {settings.kafka}" if settings.kafka else ""
    return f"""\
Registrar {VERSION} serves a schema registry (Confluent's REST API) on {" and ".join(urls)}
  data      {settings.data.resolve()}{log}
  processes {processes}; one signal (Ctrl-C) stops all

Register a first schema:
  curl -X POST -H 'Content-Type: application/vnd.schemaregistry.v1+json' \\
    -d '{{"schema": "\\"string\\""}}' {url}/subjects/first-value/versions
and fetch it:
  curl {url}/subjects/first-value/versions/latest"""
