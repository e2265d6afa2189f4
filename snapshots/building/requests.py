"""Building what nodes request: in a watcher, or in the process that a node starts for one request.

Any number of watchers (``registrar snapshot build --watch``) may run, next to nodes that build themselves or
not: the process that takes a request first builds it. The heartbeats of a watcher that dies stop, and then
another process starts its build again.

A node runs ``python -m snapshots.building.requests FD ID``; the settings arrive through the socket ``FD``, as
in every process that a parent starts.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing

from registry.base.config.settings import Settings
from registry.base.processes.child_process import started_by_parent
from registry.log.contract import LogError
from registry.log.embedded.log import now_ms
from snapshots.catalogue.catalogue import (
    Catalogue,
    CatalogueError,
    Entry,
    builder_name,
    newest_first,
    take_request,
)
from snapshots.catalogue.open import open_catalogue

from . import builder
from .engines import choose
from .task import KEEP, Progress

LOOK_EVERY_S = 2.0
# Pause after a failed build, and while the catalogue cannot be reached.
PAUSE_S = 10.0
# Of 19: less CPU than any process that serves.
NICENESS = 10
_log = logging.getLogger(__name__)

# Makes the display of one build's progress.
MakeProgress = Callable[[], Progress]


def watch(settings: Settings, engine: str, make_progress: MakeProgress, stop: threading.Event) -> None:
    """Build every request that has no builder, until ``stop`` is set."""
    reported = ""
    with closing(open_catalogue(settings)) as catalogue:
        _log.info("waiting for requests, to be built by the engine %s", choose(engine))
        pause_s = 0.0
        while not stop.wait(pause_s):
            try:
                built = build_next(settings, catalogue, engine, make_progress)
                pause_s = LOOK_EVERY_S if built is None else 0.0 if built.state == "ready" else PAUSE_S
                reported = ""
            except (CatalogueError, LogError) as error:
                pause_s = PAUSE_S
                if str(error) != reported:
                    reported = str(error)
                    _log.warning("%s; retrying", error)


def build_next(
    settings: Settings, catalogue: Catalogue, engine: str, make_progress: MakeProgress
) -> Entry | None:
    """Claim and build the newest request without a builder; return its final entry, or ``None``.

    Snapshots that need not be kept are deleted afterwards. Raises
    :class:`snapshots.catalogue.catalogue.CatalogueError`.
    """
    for free in newest_first(each for each in catalogue.entries().values() if each.is_free(now_ms())):
        entry = take_request(catalogue, free.id, builder_name(os.getpid()), now_ms())
        if entry is None:
            continue
        return builder.build_and_retire(settings, catalogue, entry, engine, make_progress(), {KEEP: "1"})
    return None


class LoggedProgress:
    """A :class:`.task.Progress` that logs the beginning of each step."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, step: str, done: int, total: int) -> None:
        """Log a new step."""
        if step != self._step:
            self._step = step
            _log.debug("%s: %d", step, total)


def build_one(settings: Settings, id: str) -> int:
    """Claim and build one request, then delete snapshots that need not be kept; return the exit code.

    Raises :class:`snapshots.catalogue.catalogue.CatalogueError`.
    """
    with closing(open_catalogue(settings)) as catalogue:
        entry = take_request(catalogue, id, builder_name(os.getpid()), now_ms())
        if entry is None:
            return 0
        engine = settings.snapshots_builder
        entry = builder.build_and_retire(settings, catalogue, entry, engine, LoggedProgress())
    return 0 if entry.state == "ready" else 1


def main() -> int:
    """Build the request that the parent names; return the exit code."""
    settings = started_by_parent("snapshot").settings
    os.nice(NICENESS)
    try:
        return build_one(settings, sys.argv[2])
    except CatalogueError as error:
        _log.error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
