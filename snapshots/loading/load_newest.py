"""Loading the newest snapshot that fits, or else the next older one; each rejection is one sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from registry.base.config.addresses import without_secrets
from registry.base.observe.progress import announced_if_slow
from snapshots.catalogue.catalogue import Catalogue, CatalogueError, Entry
from snapshots.format.files import BadLocation, LocationUnreachable
from snapshots.format.location import Location
from snapshots.format.manifest import NO_KEYS, Manifest, ManifestKeys, is_id
from snapshots.format.stored import UnusableSnapshot, read_manifest

from .candidates import TargetLog, is_quicker, newest_first, reason_unusable
from .load import load

# Time limit for a list, or for a small file.
ANSWER_S = 15.0
_T = TypeVar("_T")


class LoadRequest(NamedTuple):
    """The log and store that need a snapshot."""

    situation: TargetLog
    # Applied offset of the present store.
    applied: int
    # See candidates.is_quicker.
    ahead_min: int
    # Folder of the environment to be created, and the most that it may grow to.
    folder: Path
    map_bytes: int
    # With a key, only snapshots signed with it are loaded.
    keys: ManifestKeys = NO_KEYS


class LoadObserver(Protocol):
    """Receives what happens while a snapshot is chosen and loaded."""

    def on_message(self, sentence: str) -> None:
        """Receive a message for the log: a snapshot is rejected, or a location cannot be reached."""
        ...

    def on_waiting(self, sentence: str) -> None:
        """Note what is waited for; a location may take long to answer, or never do."""
        ...

    def on_chosen(self, manifest: Manifest) -> None:
        """Note that loading this snapshot begins."""
        ...

    def on_step(self, step: str, rows: int, size: int) -> None:
        """Receive progress; see :data:`.load.OnStep`."""
        ...


class Candidate(NamedTuple):
    """A snapshot that may fit."""

    id: str
    # URI of its location.
    uri: str
    # Its entry in the catalogue, if there is one.
    entry: Entry | None

    @property
    def offset(self) -> int:
        """Its offset, as known before the manifest is read."""
        return int(self.id.split("-")[1]) if self.entry is None else self.entry.offset


def load_newest(
    catalogue: Catalogue, uri: str, wanted: LoadRequest, observer: LoadObserver
) -> Manifest | None:
    """Load the newest snapshot that fits and is quicker than the log; ``None`` if there is none.

    Candidates come from the catalogue, and from the location ``uri`` for those that it does not know. Raises
    :class:`registry.store.layout.StoreError` if there is no room.
    """
    tried: set[str] = set()
    locations = _Locations(observer, wanted.keys)
    for candidate in _candidates(catalogue, uri, locations):
        if candidate.id in tried or candidate.offset < wanted.applied + wanted.ahead_min:
            continue
        location = locations.of(candidate.uri)
        if location is None:
            continue
        tried.add(candidate.id)
        try:
            manifest = _fitting(candidate, location, wanted.situation, locations)
            if not is_quicker(manifest, wanted.applied, wanted.ahead_min):
                continue
            observer.on_chosen(manifest)
            load(manifest, location, wanted.folder, map_bytes=wanted.map_bytes, on_step=observer.on_step)
        except LocationUnreachable as error:
            locations.report_failure(candidate, error)
        except UnusableSnapshot as error:
            observer.on_message(f"The snapshot {candidate.id} is not used: {error}")
        else:
            return manifest
    return None


class _Locations:
    """Locations, each opened once. A remote one that does not answer is not asked again."""

    def __init__(self, observer: LoadObserver, keys: ManifestKeys) -> None:
        self.observer, self._keys = observer, keys
        self._known: dict[str, Location | None] = {}

    def of(self, uri: str) -> Location | None:
        """Return the location; ``None`` if it cannot be opened, which is reported once."""
        if uri not in self._known:
            self._known[uri] = None
            try:
                self._known[uri] = self.in_time(uri, lambda: Location.parse(uri, self._keys))
            except (BadLocation, LocationUnreachable) as error:
                self.observer.on_message(f"Cannot read snapshots: {error}")
        return self._known[uri]

    def in_time(self, uri: str, request: Callable[[], _T]) -> _T:
        """Return the result of a request to a location, see :func:`in_time`; waiting for it is announced."""
        text = f"waiting for the snapshots in {without_secrets(uri)}, at most {ANSWER_S:g} s"
        with announced_if_slow(text, self.observer.on_waiting):
            return in_time(request)

    def report_failure(self, candidate: Candidate, error: LocationUnreachable) -> None:
        """Report that a manifest cannot be read, which says nothing about the snapshot."""
        location = self._known[candidate.uri]
        if location is not None and location.is_remote:
            self.observer.on_message(f"The snapshots in {location} are not used: {error}")
            self._known[candidate.uri] = None
        else:
            self.observer.on_message(
                f"The snapshot {candidate.id} is not used: {location} cannot be read: {error}"
            )


def _fitting(
    candidate: Candidate, location: Location, situation: TargetLog, locations: _Locations
) -> Manifest:
    """Return a snapshot's manifest if it fits the log.

    Raises :class:`.stored.UnusableSnapshot` and :class:`.files.LocationUnreachable`.
    """
    if candidate.entry is not None and (why := reason_unusable(candidate.entry, situation)):
        raise UnusableSnapshot(why)
    announced = candidate.entry.manifest if candidate.entry is not None else ""
    manifest = locations.in_time(location.uri, lambda: read_manifest(location, candidate.id, announced))
    if why := reason_unusable(manifest, situation):
        raise UnusableSnapshot(why)
    return manifest


def _candidates(catalogue: Catalogue, uri: str, locations: _Locations) -> Iterator[Candidate]:
    """Yield the catalogue's snapshots, the newest first; then those in the location that it does not know."""
    known: dict[str, Entry] = {}
    try:
        known = catalogue.entries()
    except CatalogueError as error:
        locations.observer.on_message(f"{error}; searching for snapshots in their location only")
    for entry in newest_first(each for each in known.values() if each.state == "ready"):
        yield Candidate(entry.id, entry.uri, entry)
    location = locations.of(uri)
    if location is None:
        return
    try:
        listed = locations.in_time(uri, location.folders)
        names = [name for name in listed if is_id(name) and name not in known]
    except LocationUnreachable as error:
        locations.observer.on_message(f"The snapshots in {location} cannot be listed: {error}")
        return
    unknown = [Candidate(name, uri, None) for name in names]
    yield from sorted(unknown, key=lambda each: (each.offset, each.id), reverse=True)


def in_time(request: Callable[[], _T]) -> _T:
    """Return the result of a request to a location, whose client may retry for minutes, in bounded time.

    A request that takes too long goes on in its thread, and its result is dropped. Raises the request's
    errors, and :class:`.files.LocationUnreachable` after :data:`ANSWER_S`.
    """
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(request())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name="request", daemon=True).start()
    try:
        return answer.result(ANSWER_S)
    except TimeoutError as error:
        if answer.done():  # The answer arrived at the last moment, or the request itself raised TimeoutError.
            return answer.result()
        raise LocationUnreachable(f"there was no answer within {ANSWER_S:g} s") from error
