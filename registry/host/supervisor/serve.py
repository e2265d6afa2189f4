"""The command that serves: it checks what every start needs, and supervises the processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from registry.base.config.settings import Settings
from registry.base.observe.logs import start_logging
from registry.base.processes.sockets import ListenError, listen_on_all, runtime_folder
from registry.host.tracing.configured import is_wanted, obstacle
from registry.security.exposure import warnings
from registry.security.setting_files import file_errors
from registry.security.watched_file import FileError

from .announcement import log_ignored
from .supervisor import Supervisor

_SOCKET_PATH_BYTES_MAX = 104

_log = logging.getLogger(__name__)


def serve(settings: Settings, ignored: Sequence[str] = (), given_warnings: Sequence[str] = ()) -> int:
    """Run until a signal; return the exit code. Why it cannot start is printed on standard error.

    ``ignored`` names environment variables that look like settings and are none; ``given_warnings`` has those
    about how the settings were given.
    """
    # Children inherit this from their first moment. Files are read whenever they change, so a reload
    # needs nothing of this process, and a terminal that closes ends nothing.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    start_logging(settings.log_level, settings.log_format, "parent")
    log_ignored(ignored)
    for each in (*given_warnings, *warnings(settings)):
        _log.warning("%s", each)
    try:
        _make_folder(settings)
        _check_files(settings)
        _check_traces(settings)
        reserved = _reserve(settings)
        with runtime_folder() as folder, reserved:
            return asyncio.run(Supervisor(settings, _endpoint(folder), partial(_report, settings)).run())
    except _StartRefused as error:
        _report(settings, str(error))
        return 1


class _StartRefused(Exception):
    """The registry cannot start; the text is for the user."""


def _report(settings: Settings, reason: str) -> None:
    if settings.log_format == "json":
        _log.error("%s", reason)
    else:
        print(f"registrar: {reason}", file=sys.stderr, flush=True)  # noqa: T201


def _make_folder(settings: Settings) -> None:
    try:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _StartRefused(f"cannot use the folder {settings.data}: {error.strerror or error}") from error


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


def _check_files(settings: Settings) -> None:
    """Refuse to start with files that a child cannot use, because it would fail again and again."""
    for text in filter(None, file_errors(settings).values()):
        raise _StartRefused(text)
    if settings.audit_log:
        from registry.audit.log import check_file  # noqa: PLC0415 (its libraries cost time and memory)

        try:
            check_file(settings)
        except FileError as error:
            raise _StartRefused(str(error)) from None


def _check_traces(settings: Settings) -> None:
    """Refuse to start without traces that the settings require; those of the environment are only missed.

    A platform may set OpenTelemetry's variables for all its containers.
    """
    problem = obstacle(os.environ) if is_wanted(settings.traces, os.environ) else ""
    if problem and settings.traces == "otlp":
        raise _StartRefused(problem)
    if problem:
        _log.warning("no traces are exported: %s", problem)


def _endpoint(folder: Path) -> Path:
    path = folder / "node.sock"
    if len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
        raise _StartRefused(f"the path {path} is too long for a socket; set TMPDIR to a shorter one")
    return path
