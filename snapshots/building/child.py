"""The process in which a node has a snapshot built: claims one request, builds it, and ends.

``python -m snapshots.building.child FD ID``: the settings come through the socket ``FD``, as to every child
of ours.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import closing

from registry.config.settings import Settings
from registry.log.embedded.log import now_ms
from registry.processes.parent_channel import started_by_parent
from snapshots.catalogue.builders import builder_name
from snapshots.catalogue.catalogue import CatalogueError, claim
from snapshots.catalogue.open import open_catalogue

from . import builder

NICENESS = 10
"""Of 19: less of the processor than anything that serves."""
_log = logging.getLogger(__name__)


class Lines:
    """A :class:`.task.Progress` that says in the log which step has begun."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, step: str, done: int, total: int) -> None:
        """``done`` of ``total`` in this step."""
        if step != self._step:
            self._step = step
            _log.debug("%s: %d", step, total)


def main() -> int:
    """Build what the parent wants built; the exit code."""
    settings = started_by_parent("snapshot").settings
    os.nice(NICENESS)
    try:
        return build(settings, sys.argv[2])
    except CatalogueError as error:
        _log.error("%s", error)
        return 1


def build(settings: Settings, id: str) -> int:
    """Claim and build one request, then delete what need not be kept any more.

    Raises :class:`snapshots.catalogue.catalogue.CatalogueError`.
    """
    with closing(open_catalogue(settings)) as catalogue:
        entry = claim(catalogue, id, builder_name(os.getpid()), now_ms())
        if entry is None:
            return 0
        entry = builder.build_and_retire(settings, catalogue, entry, settings.snapshots_builder, Lines())
    return 0 if entry.state == "ready" else 1


if __name__ == "__main__":
    sys.exit(main())
