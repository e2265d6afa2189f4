"""Rows of single owners in snapshots, from which their rows at later offsets can be reconstructed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from registry.domain.fold.fold import FOLD_VERSION
from registry.domain.history.replay import Row, prefixes
from registry.domain.lru import Lru
from registry.domain.rows.layout import after
from registry.log.contract import Log
from snapshots.catalogue.catalogue import Entry
from snapshots.format.deltas import rows_between
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import FORMATS, Manifest, Part
from snapshots.format.parts import BadPart
from snapshots.format.signature import ManifestKeys
from snapshots.format.stored import UnusableSnapshot, read_manifest, read_part

# A snapshot may have several deltas.
_MANIFESTS_MAX, _PARTS_MAX = 4, 12
_log = logging.getLogger(__name__)


class SnapshotRows:
    """The snapshots of ``log`` that ``entries`` lists; used by one thread. ``keys``: of their manifests."""

    def __init__(
        self, log: Log, entries: Callable[[], list[Entry]], keys: Callable[[], ManifestKeys] = ManifestKeys
    ) -> None:
        self._log, self._entries, self._keys = log, entries, keys
        self._manifests = Lru[str, Manifest](_MANIFESTS_MAX)
        self._parts = Lru[str, bytes](_PARTS_MAX)
        self._refused: set[str] = set()

    def ready(self) -> list[Entry]:
        """Return the snapshots that may be used, ascending by offset."""
        found = [
            each
            for each in self._entries()
            if each.state == "ready" and each.format in FORMATS and each.fold == FOLD_VERSION
            and each.log == self._log.identity and each.id not in self._refused
        ]  # fmt: skip
        return sorted(found, key=lambda each: each.offset)

    def rows(self, entry: Entry, owner: bytes) -> list[Row] | None:
        """Return the rows of an owner in a snapshot; ``None`` if it cannot be used.

        Raises :class:`registry.log.contract.LogError`.
        """
        try:
            location = Location.parse(entry.uri, self._keys())
            manifest = self._manifest(location, entry.id, entry.manifest)
            return [row for prefix in prefixes(owner) for row in self._under(location, manifest, prefix)]
        except LocationUnreachable as error:
            _log.warning("cannot read snapshot %s to reconstruct past state: %s", entry.id, error)
        except (BadLocation, UnusableSnapshot, BadPart) as error:
            _log.warning("snapshot %s cannot be used to reconstruct past state: %s", entry.id, error)
            self._refused.add(entry.id)
        return None

    def _manifest(self, location: Location, id: str, announced: str) -> Manifest:
        manifest = self._manifests.get(id)
        if manifest is None:
            manifest = read_manifest(location, id, announced)
            self._check_lineage(manifest)
            self._manifests.put(id, manifest)
        return manifest

    def _check_lineage(self, manifest: Manifest) -> None:
        """Raise :class:`UnusableSnapshot` if the snapshot holds records that the log has lost."""
        for trace in reversed(manifest.lineage.traces):
            records = self._log.read_again(trace.offset, 1, 1).records
            if records and records[0].offset == trace.offset:
                diverged = manifest.lineage.divergence(records[0], self._log.end(), None)
                if diverged is not None:
                    raise UnusableSnapshot(
                        f"it holds records from offset {diverged} on that the log has lost"
                    )
                return

    def _under(self, location: Location, manifest: Manifest, prefix: bytes) -> Iterator[Row]:
        """Yield the rows whose key begins with ``prefix``."""
        for rows in rows_between(manifest, partial(self._content, location), prefix, after(prefix)):
            yield from rows

    def _content(self, location: Location, id: str, part: Part) -> bytes:
        content = self._parts.get(part.name)
        if content is None:
            content = read_part(location, id, part)
            self._parts.put(part.name, content)
        return content
