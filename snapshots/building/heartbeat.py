"""Reporting a build to the catalogue: heartbeats while it runs, and its outcome."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from registry.base.processes.time_limit import time_limit
from registry.log.embedded.log import now_ms
from snapshots.catalogue.catalogue import (
    HEARTBEAT_S,
    PROGRESS_S,
    BuildProgress,
    Catalogue,
    CatalogueError,
    Entry,
    ready_fields,
)
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest

from .task import BuildFailed, Progress

_log = logging.getLogger(__name__)
# How much later than the build itself its hold of the request ends, if the build cannot be interrupted.
GRACE_S = 60.0
_DAY_S = 86_400.0


class SnapshotDeleted(BuildFailed):
    """The snapshot was deleted while it was built."""


class RequestLost(BuildFailed):
    """The build took too long or was taken for dead, so that another builder may have begun it again."""


class BuildHeartbeat:
    """The entry of one build. Two threads use it: the one that builds, and that of the heartbeat.

    A catalogue that cannot be reached does not stop the build; it may be ``None``.
    """

    def __init__(
        self,
        catalogue: Catalogue | None,
        entry: Entry,
        *,
        known: bool,
        limit_s: float = _DAY_S,
    ) -> None:
        """``known``: whether the catalogue held the entry when the build began.

        ``limit_s``: how long it may take.
        """
        self._limit_s = limit_s
        self.catalogue = catalogue
        self.entry = entry
        # Identity of the catalogue that held the entry last; empty while none does.
        self._known = catalogue.identity if known and catalogue is not None else ""
        self._lock = threading.Lock()
        self._progress: BuildProgress | None = None

    @classmethod
    def first(cls, catalogue: Catalogue | None, entry: Entry, limit_s: float = _DAY_S) -> Self:
        """Enter a build that was not requested into the catalogue."""
        return cls(catalogue, entry, known=_put(catalogue, entry), limit_s=limit_s)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Send heartbeats for a ``with`` block, and end it when its time is over.

        Raises :class:`.task.BuildFailed` then.
        """
        over, began = threading.Event(), time.monotonic()
        late = f"it took longer than {self._limit_s:g} s (snapshots_build_timeout_s)"

        def run() -> None:
            sent = began
            while not over.wait(PROGRESS_S):
                if time.monotonic() - began > self._limit_s + GRACE_S:
                    self.mark_failed(late)
                    return
                if self._got_further or time.monotonic() - sent >= HEARTBEAT_S:
                    self.beat()
                    sent = time.monotonic()

        thread = threading.Thread(target=run, name="heartbeat", daemon=True)
        thread.start()
        try:
            with time_limit(self._limit_s, BuildFailed(late)):
                yield
        finally:
            over.set()
            thread.join()

    def reporting(self, progress: Progress) -> Progress:
        """Return a progress that the next heartbeats report, too."""

        def report(step: str, done: int, total: int) -> None:
            self._progress = BuildProgress(step, done, total)
            progress(step, done, total)

        return report

    @property
    def _got_further(self) -> bool:
        now, announced = self._progress, self.entry.progress
        return now is not None and (
            announced is None or (now.step, now.percent) != (announced.step, announced.percent)
        )

    def beat(self, **more: str) -> bool:
        """Renew the entry, with other fields replaced; return whether the catalogue has it."""
        with self._lock:
            self.entry = self.entry.in_state("building", now_ms(), progress=self._progress, **more)
            with suppress(CatalogueError):
                if self._is_gone():
                    return False
            if self.catalogue is None or not _put(self.catalogue, self.entry):
                return False
            self._known = self.catalogue.identity
            return True

    def release(self) -> None:
        """Release the request, as if this build had not begun, because its process was stopped."""
        with suppress(CatalogueError):
            if self._is_gone():
                return
        attempts = max(0, self.entry.attempts - 1)
        _put(self.catalogue, self.entry.in_state("requested", now_ms(), attempts=attempts, base=""))

    def mark_failed(self, reason: str) -> None:
        """Mark the entry as failed."""
        with suppress(CatalogueError):
            if self._is_gone():
                return
        _put(self.catalogue, self.entry.in_state("failed", now_ms(), reason=reason))

    def ready(self, manifest: Manifest, **cost: float) -> Entry:
        """Mark the entry as ready, with the cost of the build, and return it.

        Raises :class:`SnapshotDeleted` if it was deleted meanwhile; then its files are gone. Raises
        :class:`RequestLost` if this builder no longer has the request: another one may delete these files
        and begin again. The next to take the request finds the manifest and marks it as ready. Raises also
        :class:`snapshots.catalogue.catalogue.CatalogueError` and the errors of its location.
        """
        entry = self.entry.in_state("ready", now_ms(), **ready_fields(manifest), **cost)
        if self.catalogue is not None:
            gone = self._is_gone()
            if (now := self.catalogue.entries().get(entry.id)) and not self._is_own(now):
                raise RequestLost(f"{entry.id} is {now.state} by now, because its builder was too slow")
            current = None if gone else self.catalogue.put(entry)
            if gone or (current is not None and current.state == "deleting"):
                # Its builder was considered dead, and its files were deleted before all of them existed.
                Location.parse(entry.uri).delete(entry.id)
                raise SnapshotDeleted(f"{entry.id} was deleted while it was built")
        return entry

    def _is_own(self, entry: Entry) -> bool:
        own = entry.state == "building" and entry.builder == self.entry.builder
        return own or entry.state in ("ready", "deleting")

    def _is_gone(self) -> bool:
        # A heartbeat must not bring a deleted entry back. An entry that went with the whole catalogue was
        # not deleted.
        if not self._known or self.catalogue is None:
            return False
        missing = self.entry.id not in self.catalogue.entries()
        return missing and self.catalogue.identity == self._known


def _put(catalogue: Catalogue | None, entry: Entry) -> bool:
    """Return whether the entry was written."""
    try:
        if catalogue is not None:
            catalogue.put(entry)
    except CatalogueError as error:
        _log.warning("cannot record in the catalogue that %s is %s: %s", entry.id, entry.state, error)
        return False
    return True
