"""Taking a snapshot: the newest that fits, or the next older one, each that does not said in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from snapshots.catalogue.catalogue import Catalogue, CatalogueError, Entry
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, is_id
from snapshots.format.stored import UnusableSnapshot, read_manifest

from .candidates import Situation, is_quicker, newest_first, why_not
from .load import load
from .timeouts import in_time


class Wanted(NamedTuple):
    """What to take a snapshot for."""

    situation: Situation
    applied: int
    """How far the store is that is there."""
    ahead_min: int
    """See :func:`.candidates.is_quicker`."""
    folder: Path
    """Of the environment to be made."""
    map_bytes: int


class Teller(Protocol):
    """Hears what is being done."""

    def said(self, sentence: str) -> None:
        """Something worth a log line: a snapshot is refused, or a place cannot be asked."""
        ...

    def chosen(self, manifest: Manifest) -> None:
        """Its loading begins."""
        ...

    def step(self, step: str, rows: int, size: int) -> None:
        """See :data:`.load.Told`."""
        ...


class Candidate(NamedTuple):
    """A snapshot that may do."""

    id: str
    uri: str
    """Of the location that it is in."""
    entry: Entry | None
    """What the catalogue says of it."""

    @property
    def offset(self) -> int:
        """As far as is known before its manifest was read."""
        return int(self.id.split("-")[1]) if self.entry is None else self.entry.offset


def take(catalogue: Catalogue, uri: str, wanted: Wanted, tell: Teller) -> Manifest | None:
    """Load the newest snapshot that fits and is worth it; ``None`` when there is none.

    Asks the catalogue, and looks into the location ``uri`` for those that it does not know of. Raises
    :class:`registry.store.layout.StoreError` when there is no room.
    """
    tried: set[str] = set()
    places = _Places(tell)
    for candidate in _candidates(catalogue, uri, places):
        if candidate.id in tried or candidate.offset < wanted.applied + wanted.ahead_min:
            continue
        location = places.of(candidate.uri)
        if location is None:
            continue
        tried.add(candidate.id)
        try:
            manifest = _fitting(candidate, location, wanted.situation)
            if not is_quicker(manifest, wanted.applied, wanted.ahead_min):
                continue
            tell.chosen(manifest)
            load(manifest, location, wanted.folder, map_bytes=wanted.map_bytes, told=tell.step)
        except LocationUnreachable as error:
            places.failed(candidate, error)
        except UnusableSnapshot as error:
            tell.said(f"The snapshot {candidate.id} is not used: {error}")
        else:
            return manifest
    return None


class _Places:
    """The locations, each opened once. One far away that does not answer is not asked again."""

    def __init__(self, tell: Teller) -> None:
        self.tell = tell
        self._known: dict[str, Location | None] = {}

    def of(self, uri: str) -> Location | None:
        """The location; ``None`` where it cannot be had, which was said."""
        if uri not in self._known:
            self._known[uri] = None
            try:
                self._known[uri] = in_time(lambda: Location.parse(uri))
            except (BadLocation, LocationUnreachable) as error:
                self.tell.said(f"Snapshots cannot be read: {error}")
        return self._known[uri]

    def failed(self, candidate: Candidate, error: LocationUnreachable) -> None:
        """Its manifest cannot be read, which says nothing of the snapshot."""
        location = self._known[candidate.uri]
        if location is not None and location.is_remote:
            self.tell.said(f"The snapshots in {location} are not used: {error}")
            self._known[candidate.uri] = None
        else:
            self.tell.said(f"The snapshot {candidate.id} is not used: {location} cannot be read: {error}")


def _fitting(candidate: Candidate, location: Location, situation: Situation) -> Manifest:
    """The manifest of a snapshot that fits the log.

    Raises :class:`.stored.UnusableSnapshot` and :class:`.files.LocationUnreachable`.
    """
    if candidate.entry is not None and (why := why_not(candidate.entry, situation)):
        raise UnusableSnapshot(why)
    manifest = in_time(lambda: read_manifest(location, candidate.id))
    if why := why_not(manifest, situation):
        raise UnusableSnapshot(why)
    return manifest


def _candidates(catalogue: Catalogue, uri: str, places: _Places) -> Iterator[Candidate]:
    """Those that the catalogue names, the newest first; then those in the location that it does not know."""
    known: dict[str, Entry] = {}
    try:
        known = catalogue.entries()
    except CatalogueError as error:
        places.tell.said(f"{error}; snapshots are looked for in their location alone")
    for entry in newest_first(each for each in known.values() if each.state == "ready"):
        yield Candidate(entry.id, entry.uri, entry)
    location = places.of(uri)
    if location is None:
        return
    try:
        names = [name for name in in_time(location.folders) if is_id(name) and name not in known]
    except LocationUnreachable as error:
        places.tell.said(f"The snapshots in {location} cannot be listed: {error}")
        return
    unknown = [Candidate(name, uri, None) for name in names]
    yield from sorted(unknown, key=lambda each: (each.offset, each.id), reverse=True)
