"""The task of building one snapshot, its temporary folder, and the contract of its engines."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from registry.base.config.settings import Settings
from registry.base.processes import file_lock
from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.lineage import too_long
from registry.domain.rows import layout
from registry.encoder import keyset_store
from registry.log.embedded.log import now_ms
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest
from snapshots.format.writer import ManifestHeader, WrittenRows

from .sources import LogSize, LogSource, estimate_size, lineage_at

_log = logging.getLogger(__name__)
_LOOK_S = 0.2


# An option: the engine may keep what it has started, for the next build of this process.
KEEP = "keep"


class Progress(Protocol):
    """Receives the progress of a build; called from one thread at a time."""

    def __call__(self, step: str, done: int, total: int, /) -> None:
        """Receive that ``done`` of ``total`` is done in this step; another name begins another step."""
        ...


def silent(step: str, done: int, total: int) -> None:
    """Ignore progress."""


class BuildFailed(Exception):
    """The build failed; the text says why. There is no manifest."""


class EngineUnavailable(BuildFailed):
    """The engine cannot run here; nothing was built. Another one may."""


class EngineFailed(BuildFailed):
    """The engine failed while it built, for a reason of its own. Another one may succeed."""


class WrongRows(BuildFailed):
    """The files do not hold the rows that were folded: the base is wrong, or something disturbed the build.

    The log may still be folded once more.
    """


class TooSlow(BuildFailed):
    """Reading took longer than the log keeps deletions, so the rows may be those of no single moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One snapshot to build: the fold of the log's records from ``base.offset``, or 0, up to ``end``."""

    id: str
    # They name the log and the Spark master.
    settings: Settings
    # The log, open.
    source: LogSource
    # The offset of the snapshot, exclusive. The log is known to reach it.
    end: int
    # The snapshot to extend; the rules allow it.
    base: Manifest | None
    location: Location
    # When the log ended at ``end``, or earlier, ms since the epoch: no record from there on is older.
    at_end_ms: int
    # When the build began, ms since the epoch.
    began_ms: int
    # Further options of an engine.
    options: Mapping[str, str] = field(default_factory=dict)
    # What the log has from ``start`` up to ``end``.
    size: LogSize | None = None
    clock: Callable[[], int] = now_ms

    @property
    def start(self) -> int:
        """The offset from which the log is read."""
        return self.base.offset if self.base else 0

    def log_size(self) -> LogSize:
        """Return what there is to read. Raises :class:`registry.log.contract.LogError`."""
        return self.size or estimate_size(self.source.log, self.start, self.end)

    def about(self, engine: str) -> ManifestHeader:
        """Return the manifest's header; call it when reading has finished, or later.

        Raises :class:`TooSlow` and :class:`registry.log.contract.LogError`.
        """
        now, source = self.clock(), self.source
        if self.base:
            why = too_long(self.base.at_end_ms, now, source.retention_ms, source.margin_ms)
        else:
            why = too_long(self.began_ms, now, source.retention_ms, 0)
        if why:
            raise TooSlow(f"reading the log took too long: {why}")
        # If compaction may have removed records while they were read, digests compare only from the log's
        # current end on.
        exact = now - self.at_end_ms <= source.lag_ms - source.margin_ms
        return ManifestHeader(
            id=self.id,
            fold=FOLD_VERSION,
            log=source.log.identity,
            offset=self.end,
            comparable_from=self.end if exact else max(self.end, source.end()),
            at_end_ms=self.at_end_ms,
            created_ms=now,
            engine=engine,
            base=self.base.id if self.base else "",
            lineage=lineage_at(source.log, self.end),
        )


def with_keyset(task: Task, about: ManifestHeader, written: WrittenRows) -> ManifestHeader:
    """Return the header with the keyset if rows have encrypted metadata.

    Call it after the rows were read, since keys are only ever added. Raises
    :class:`registry.log.contract.LogError`.
    """
    if not written.counts.get(layout.ENCODED.decode()):
        return about
    place = keyset_store(task.settings)
    keyset = place.read()
    if keyset is None:
        _log.warning("%s has no keyset; the snapshot's encrypted metadata cannot be restored", place.name)
        return about
    return about._replace(keyset=keyset.decode(errors="replace"))


class Engine(Protocol):
    """Builds a snapshot: parts first, the manifest last."""

    def __call__(self, task: Task, progress: Progress) -> Manifest:
        """Build the snapshot and return its manifest.

        Raises :class:`BuildFailed`, and the errors of the log and the location; then there is no manifest.
        """
        ...


class WorkspaceBusy(BuildFailed):
    """Another process uses the same workspace of the same data folder; the text says which."""


@contextmanager
def workspace(data: Path, name: str, *, wait: bool = False) -> Iterator[Path]:
    """Yield the empty folder ``name`` in the data folder, for one process at a time.

    Waits for another process that holds it, or, without ``wait``, raises :class:`WorkspaceBusy`. What a
    killed process left in it is deleted.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = _hold(data, name, wait=wait)
    folder = data / name
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _hold(data: Path, name: str, *, wait: bool) -> int:
    reported = ""
    while True:
        try:
            return file_lock.hold(data / f"{name}.lock")
        except file_lock.LockHeld as held:
            if not wait:
                raise WorkspaceBusy(
                    f"process {held} is {name} a snapshot in {data}: choose another --data folder, or wait"
                ) from held
            if str(held) != reported:
                reported = str(held)
                _log.info("waiting for process %s, which is %s a snapshot in %s", held, name, data)
        time.sleep(_LOOK_S)
