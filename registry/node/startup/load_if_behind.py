"""Decision to start from a snapshot, and preparation of the loading process while the log is being opened.

:mod:`.snapshot_loader` loads the snapshot. It is imported only if needed, because most starts are not far
behind the log and need no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from registry.base.config.settings import Settings
from registry.log.contract import Log
from registry.store.open import Load, known_log
from snapshots.format.files import BadLocation
from snapshots.format.location import Location

from .progress import StartProgress

if TYPE_CHECKING:
    import subprocess


class LoadIfBehind:
    """Loading of a snapshot for one start; used by the thread that opens log and store."""

    def __init__(self, settings: Settings, starting: StartProgress) -> None:
        self._settings = settings
        self._starting = starting
        self._begun: subprocess.Popen[bytes] | None = None

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Start the loading process for a ``with`` block if there probably is a snapshot to load.

        The process imports its libraries while the block opens the log.
        """
        if _probably_loads(self._settings):
            from .snapshot_loader import begin  # noqa: PLC0415 (see the module)

            with suppress(OSError):  # reported when the process is needed
                self._begun = begin()
        try:
            yield
        finally:
            if self._begun is not None:
                from .snapshot_loader import end  # noqa: PLC0415 (see the module)

                end(self._begun)

    def loader(self, log: Log) -> Load | None:
        """Return a function that loads a snapshot of ``log`` if worthwhile; ``None`` if that is disabled.

        The caller has found that ``log`` is the one of the store, if there is a store.
        """
        self._starting.log_suits()
        settings = self._settings
        if settings.snapshots_load == "off":
            return None

        def load(folder: Path, applied: int) -> bool:
            if log.end() - applied < max(1, settings.snapshots_load_ahead):
                return False
            self._starting.takes_long()
            from .snapshot_loader import load_in_child  # noqa: PLC0415 (see the module)

            begun, self._begun = self._begun, None
            return load_in_child(settings, log, folder, applied, self._starting, begun)

        return load


def _probably_loads(settings: Settings) -> bool:
    """Return true if there is no store and the snapshot location is not known to be empty."""
    if settings.snapshots_load == "off" or known_log(settings.data / "store") is not None:
        return False
    try:
        location = Location.named(settings.snapshots_location)
        return not location.startswith("/") or any(Path(location).iterdir())
    except (BadLocation, OSError):
        return False
