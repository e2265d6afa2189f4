"""The command that serves: it checks what every start needs, supervises the processes, and says where."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from registry import VERSION
from registry.base.config.addresses import ListenAddress
from registry.base.config.settings import Settings
from registry.base.observe.logs import start_logging
from registry.base.processes.sockets import (
    ListenError,
    allow_open_files,
    listen_on_all,
    runtime_folder,
)
from registry.host.tracing.export import is_wanted, obstacle
from registry.security.exposure import warnings
from registry.security.setting_files import file_errors
from registry.security.watched_file import FileError
from registry.ui.console import is_complete

from .supervisor import Supervisor

_SOCKET_PATH_BYTES_MAX = 104
_NAMES_MAX = 10  # of ignored variables, in a log line

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
    files_warning = allow_open_files(settings.connections_max)
    for each in filter(None, (*given_warnings, *warnings(settings), files_warning)):
        _log.warning("%s", each)
    try:
        _make_folder(settings)
        _check_files(settings)
        _check_traces(settings)
        reserved = _reserve(settings)
        with runtime_folder() as folder, reserved:
            supervisor = Supervisor(
                settings,
                _endpoint(folder),
                report=partial(_report, settings),
                announce=partial(announce, settings),
            )
            return asyncio.run(supervisor.run())
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


def announce(settings: Settings) -> None:
    """Say where the registry serves: as a banner for people, or as a log line in JSON."""
    if settings.log_format != "json":
        console = settings.console == "on" and is_complete()
        print(banner(settings, console=console), flush=True)  # noqa: T201
        return
    urls = [str(each.local) for each in settings.addresses]
    fields = {"version": VERSION, "urls": urls, "data": str(settings.data.resolve())}
    if settings.kafka:
        fields |= {"topic": settings.topic, "kafka": settings.kafka}
    _log.info("Registrar %s serves on %s", VERSION, " and ".join(urls), extra={"fields": fields})


def log_ignored(variables: Sequence[str]) -> None:
    """Name the environment variables that look like settings and are none, once."""
    if variables:
        rest = len(variables) - _NAMES_MAX
        more = f" and {rest} more" if rest > 0 else ""
        shown = ", ".join(variables[:_NAMES_MAX])
        _log.info("ignored environment variables, because no setting has such a name: %s%s", shown, more)


def banner(settings: Settings, *, console: bool) -> str:
    """Return what is printed for people once clients can connect; ``console``: there is one to open."""
    urls = " and ".join(str(each.local) for each in settings.addresses)
    readers = "1 reader" if settings.readers == 1 else f"{settings.readers} readers"
    log = f"\n  log       topic {settings.topic} at {settings.kafka}" if settings.kafka else ""
    example = _example_address(settings)
    shown = f"\n  console   {example.local}/ui" if console else ""
    curl, url = " ".join(("curl", *_curl_options(settings, example))), example.local
    return f"""\
Registrar {VERSION} serves a schema registry (Confluent's REST API) on {urls}
  data      {settings.data.resolve()}{log}
  processes {readers} and the node; one signal (Ctrl-C) stops all{shown}

Register a first schema:
  {curl} -X POST -H 'Content-Type: application/vnd.schemaregistry.v1+json' \\
    -d '{{"schema": "\\"string\\""}}' {url}/subjects/first-value/versions
and fetch it:
  {curl} {url}/subjects/first-value/versions/latest"""


def _example_address(settings: Settings) -> ListenAddress:
    """Return the address for examples: with https if only a client certificate authenticates."""
    encrypted = [each for each in settings.addresses if each.scheme == "https"]
    return encrypted[0] if encrypted and _only_certificates(settings) else settings.main_address


def _only_certificates(settings: Settings) -> bool:
    return settings.authenticates and not (settings.users or settings.jwt_jwks)


def _curl_options(settings: Settings, address: ListenAddress) -> Iterator[str]:
    """Yield the options that curl needs at ``address``; words in capitals are for the user to replace."""
    if address.scheme == "https":
        yield "--cacert CA.pem"
        if settings.tls_client_auth == "required" or _only_certificates(settings):
            yield "--cert CLIENT.pem --key CLIENT.key"
    if settings.users:
        yield "-u USER"
    elif settings.jwt_jwks:
        yield "-H 'Authorization: Bearer TOKEN'"
