"""What an engine is given, and what it owes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from registry.config.settings import Settings
from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.log_format.retention import too_long
from registry.domain.rows import layout
from registry.encoder.open import keyset_place
from registry.log.embedded.log import now_ms
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest
from snapshots.format.writer import ManifestHeader, WrittenRows

from .sources import Source, lineage_at

_log = logging.getLogger(__name__)


class Progress(Protocol):
    """Told how far a build is; from one thread at a time."""

    def __call__(self, step: str, done: int, total: int) -> None:
        """``done`` of ``total`` in the step with this name; another name begins another step."""
        ...


def silent(step: str, done: int, total: int) -> None:
    """The progress that nobody watches."""


class BuildFailed(Exception):
    """An engine gave up; the text says why. There is no manifest."""


class NotInTime(BuildFailed):
    """Reading took longer than the log keeps deletions: what was read may be the rows of no moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One snapshot to be built: the fold of the log's records from ``base.offset``, or 0, up to ``end``."""

    id: str
    settings: Settings
    """Where the log is, and how Spark is reached."""
    source: Source
    """The same log, open."""
    end: int
    """Exclusive: the offset of the snapshot. The log is known to go so far."""
    base: Manifest | None
    """A snapshot whose rows are to be extended; it may be."""
    location: Location
    at_end_ms: int
    """When the log ended at ``end``, ms since the epoch, or earlier; nothing from there on is older."""
    began_ms: int
    """When the build began."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further ones of an engine."""
    clock: Callable[[], int] = now_ms

    @property
    def start(self) -> int:
        """The offset from which the log is read."""
        return self.base.offset if self.base else 0

    def about(self, engine: str) -> ManifestHeader:
        """What the manifest says; to be called when reading is finished, or later.

        Where compaction may have taken records away while they were read, digests compare only from where
        the log ends now. Raises :class:`NotInTime`, :class:`registry.log.contract.LogError`.
        """
        now, source = self.clock(), self.source
        if self.base:
            why = too_long(self.base.at_end_ms, now, source.retention_ms, source.margin_ms)
        else:
            why = too_long(self.began_ms, now, source.retention_ms, 0)
        if why:
            raise NotInTime(f"the log was read for too long: {why}")
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
    """Return what the manifest says, with the keyset if rows have encrypted metadata.

    To be called after the rows were read: keys are only ever added. Raises
    :class:`registry.log.contract.LogError`.
    """
    if not written.counts.get(layout.ENCODED.decode()):
        return about
    place = keyset_place(task.settings)
    keyset = place.read()
    if keyset is None:
        _log.warning("%s holds no keyset, so the snapshot has none for its encrypted metadata", place.name)
        return about
    return about._replace(keyset=keyset.decode(errors="replace"))


class Engine(Protocol):
    """Builds what a task says: parts first, the manifest last."""

    def __call__(self, task: Task, progress: Progress) -> Manifest:
        """The manifest that was written.

        Raises :class:`BuildFailed`, and the errors of the log and the location; then there is no manifest.
        """
        ...
