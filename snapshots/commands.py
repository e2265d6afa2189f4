"""Running ``registrar snapshot …`` and ``registrar schemas …``."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from registry.base.config.settings import Settings
from registry.base.observe.progress import Steps

from .backup import verbs
from .building import builder
from .building.engines import AUTO
from .building.requests import watch
from .catalogue.catalogue import CatalogueError
from .catalogue.open import open_catalogue
from .format import stored

# Commands that go on where they were interrupted.
_RESUMED = ("build", "restore")
_FAILURES = (*builder.FAILURES, *verbs.FAILURES, CatalogueError)


def run(command: str, settings: Settings, options: dict[str, Any]) -> int:
    """Run the command; return its exit status. Raises :class:`.backup.verbs.CommandFailed`."""
    _print_log_lines()
    try:
        return _COMMANDS[command](settings, options)
    except OSError as error:
        place = error.filename or settings.snapshots_location
        raise verbs.CommandFailed(f"{place} cannot be used: {error.strerror or error}") from None
    except _FAILURES as error:
        raise verbs.CommandFailed(str(error)) from None
    except KeyboardInterrupt:
        if command in _RESUMED:
            print("\nregistrar: interrupted; run the same command again to resume", file=sys.stderr)
        raise  # to the command line, which knows the exit status


def _build(settings: Settings, options: dict[str, Any]) -> int:
    configured = settings.snapshots_builder
    engine = options["engine"] or (AUTO if configured == "none" else configured)
    if options["watch"]:
        return _watch(settings, engine)
    with closing(open_catalogue(settings, command=True)) as catalogue:
        if options["request"]:
            return _build_request(settings, options["request"], engine)
        offset = options["offset"]
        # Retention orders the catalogue's entries by offset: an old state would be deleted at once.
        entered = catalogue if offset is None else None
        with Steps() as steps:
            manifest = builder.build_now(
                settings, entered, engine, steps, offset=offset, extend=not options["full"]
            )
    print(f"{manifest.id}: {manifest.rows} rows in {len(manifest.parts)} parts of {manifest.size} bytes")
    return 0


def _watch(settings: Settings, engine: str) -> int:
    # When stopped by a service manager, it releases the request that it builds at once, as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        watch(settings, engine, Steps, threading.Event())
    return 0


def _build_request(settings: Settings, id: str, engine: str) -> int:
    with closing(open_catalogue(settings, command=True)) as catalogue:
        entry = catalogue.entries().get(id)
        if entry is None:
            raise stored.SnapshotNotFound(f"no snapshot {id} was requested")
        with Steps() as steps:
            entry = builder.build_request(settings, catalogue, entry, engine, steps)
    return 0 if entry.state == "ready" else 1


class _Printed(logging.Handler):
    """Prints lines to whatever standard output is now: above bars that are being drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        print(self.format(record), flush=True)


def _print_log_lines() -> None:
    handler = _Printed()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("snapshots")
    log.setLevel(logging.INFO)
    log.handlers = [handler]


_COMMANDS: dict[str, Callable[[Settings, dict[str, Any]], int]] = {"build": _build} | verbs.COMMANDS
