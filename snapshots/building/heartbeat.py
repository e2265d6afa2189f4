"""What the catalogue hears of a build: that its builder is alive, and what became of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from registry.log.embedded.log import now_ms
from snapshots.catalogue.catalogue import HEARTBEAT_S, Catalogue, CatalogueError, Entry, ready_fields
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest

from .task import BuildFailed

_log = logging.getLogger(__name__)


class Deleted(BuildFailed):
    """The snapshot was deleted while it was built."""


class News:
    """Of one build. Two threads tell it: the one that builds, and the heartbeat.

    A catalogue that is out of reach stops no build; ``None`` for none.
    """

    def __init__(self, catalogue: Catalogue | None, entry: Entry, *, known: bool) -> None:
        """``known``: whether the entry stood in the catalogue when the build began."""
        self.catalogue = catalogue
        self.entry = entry
        self._known = catalogue.identity if known and catalogue is not None else ""
        """The catalogue in which the entry stood last; empty while it does not."""
        self._alone = threading.Lock()

    @classmethod
    def first(cls, catalogue: Catalogue | None, entry: Entry) -> Self:
        """Of a build that nobody has asked for: the catalogue hears of it now."""
        return cls(catalogue, entry, known=_put(catalogue, entry))

    @contextmanager
    def heard(self) -> Iterator[None]:
        """The builder is heard of, for a ``with`` block."""
        over = threading.Event()

        def say() -> None:
            while not over.wait(HEARTBEAT_S):
                self.alive()

        thread = threading.Thread(target=say, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def alive(self, **more: str) -> None:
        """The builder goes on; ``more`` of the entry is known."""
        with self._alone:
            self.entry = self.entry.in_state("building", now_ms(), **more)
            with suppress(CatalogueError):
                if self._is_gone():
                    return
            if _put(self.catalogue, self.entry) and self.catalogue is not None:
                self._known = self.catalogue.identity

    def interrupted(self) -> None:
        """Its builder was told to stop: it is anybody's again, as if this one had not begun."""
        with suppress(CatalogueError):
            if self._is_gone():
                return
        attempts = max(0, self.entry.attempts - 1)
        _put(self.catalogue, self.entry.in_state("requested", now_ms(), attempts=attempts, base=""))

    def failed(self, reason: str) -> None:
        """It goes on no more."""
        with suppress(CatalogueError):
            if self._is_gone():
                return
        _put(self.catalogue, self.entry.in_state("failed", now_ms(), reason=reason))

    def ready(self, manifest: Manifest) -> Entry:
        """The entry of what was built.

        Raises :class:`Deleted` when it was deleted meanwhile; then its files are gone. Raises also
        :class:`snapshots.catalogue.catalogue.CatalogueError` and what its location says.
        """
        entry = self.entry.in_state("ready", now_ms(), **ready_fields(manifest))
        if self.catalogue is not None:
            gone = self._is_gone()
            stands = None if gone else self.catalogue.put(entry)
            if gone or (stands is not None and stands.state == "deleting"):
                # Its builder was taken for dead, and its files were deleted before all of them were there.
                Location.parse(entry.uri).delete(entry.id)
                raise Deleted(f"{entry.id} was deleted while it was built")
        return entry

    def _is_gone(self) -> bool:
        # An entry that was deleted must not come back by the voice of its builder. One that has gone with the
        # whole catalogue was not deleted.
        if not self._known or self.catalogue is None:
            return False
        missing = self.entry.id not in self.catalogue.entries()
        return missing and self.catalogue.identity == self._known


def _put(catalogue: Catalogue | None, entry: Entry) -> bool:
    """Whether the catalogue has heard it."""
    try:
        if catalogue is not None:
            catalogue.put(entry)
    except CatalogueError as error:
        _log.warning("the catalogue does not know that %s is %s: %s", entry.id, entry.state, error)
        return False
    return True
