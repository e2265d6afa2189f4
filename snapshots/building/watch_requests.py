"""Building what the nodes ask for, one after another, away from them: ``registrar snapshot build --watch``.

Any number of watchers may run, beside nodes that build themselves or not: a request is built by the one who
claims it first. A watcher that dies is silent soon, and then its build is begun anew by another.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import closing

from registry.config.settings import Settings
from registry.log.contract import LogError
from registry.log.embedded.log import now_ms
from snapshots.catalogue.builders import builder_name
from snapshots.catalogue.catalogue import Catalogue, CatalogueError, Entry, claim, newest_first
from snapshots.catalogue.open import open_catalogue

from . import builder
from .task import Progress

LOOK_EVERY_S = 2.0
PAUSE_S = 10.0
"""After a build that failed, and while the catalogue is out of reach."""
_log = logging.getLogger(__name__)

Shows = Callable[[], Progress]
"""Makes what shows the progress of one build."""


def watch(settings: Settings, engine: str, shows: Shows, stop: threading.Event) -> None:
    """Build with this engine whatever is asked for and nobody builds, until ``stop`` is set."""
    told = ""
    with closing(open_catalogue(settings)) as catalogue:
        _log.info("waiting for requests, to be built by the engine %s", engine)
        pause_s = 0.0
        while not stop.wait(pause_s):
            try:
                built = build_next(settings, catalogue, engine, shows)
                pause_s = LOOK_EVERY_S if built is None else 0.0 if built.state == "ready" else PAUSE_S
                told = ""
            except (CatalogueError, LogError) as error:
                pause_s = PAUSE_S
                if str(error) != told:
                    told = str(error)
                    _log.warning("%s; trying again", error)


def build_next(settings: Settings, catalogue: Catalogue, engine: str, shows: Shows) -> Entry | None:
    """Claim and build the newest request that nobody builds; its entry then, ``None`` when there was none.

    Afterwards what need not be kept is deleted. Raises :class:`snapshots.catalogue.catalogue.CatalogueError`.
    """
    for free in newest_first(each for each in catalogue.entries().values() if each.is_free(now_ms())):
        entry = claim(catalogue, free.id, builder_name(os.getpid()), now_ms())
        if entry is None:
            continue
        return builder.build_and_retire(settings, catalogue, entry, engine, shows())
    return None
