"""The snapshots that lie in a location."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime

from .location import Location
from .manifest import MANIFEST, Manifest, is_id
from .reader import Unusable, read_manifest

LATEST = "latest"
_DAY_MS = 86_400_000


class NoSnapshot(Exception):
    """There is no such snapshot, or none that can be read; the text says what there is."""


def names(location: Location) -> list[str]:
    """The folders that are, were or will be snapshots, the youngest first.

    Raises :class:`snapshots.format.location.LocationUnreachable`.
    """
    return [name for name in reversed(location.folders()) if is_id(name)]


def read(location: Location, id: str) -> Manifest:
    """The manifest of one snapshot. Raises :class:`NoSnapshot`, and as :func:`names`."""
    try:
        return read_manifest(location, id)
    except Unusable as error:
        raise NoSnapshot(f"{id} is no snapshot: {error}") from error


def manifests(location: Location) -> Iterator[Manifest]:
    """All that can be read, the youngest first. Raises as :func:`names`."""
    for name in names(location):
        try:
            yield read(location, name)
        except NoSnapshot:
            continue


def find(location: Location, name: str) -> Manifest:
    """The snapshot with this id, or the latest. Raises :class:`NoSnapshot`, and as :func:`names`."""
    if name != LATEST:
        if not is_id(name):
            raise NoSnapshot(f"{name!r} is not the id of a snapshot: see registrar snapshot list")
        return read(location, name)
    found = list(manifests(location))
    if not found:
        raise NoSnapshot(f"there is no snapshot in {location}")
    return max(found, key=lambda manifest: (manifest.offset, manifest.id))


def sweep(location: Location, building: Collection[str], failed: Collection[str], now_ms: int) -> list[str]:
    """Remove what builds left that have ended: folders without a manifest; their names.

    Those of builds that have failed go, and others that are older than a day, but for those that are being
    built. Each step can be done again. Raises as :func:`names`.
    """
    gone = []
    for name in names(location):
        old = now_ms - _began_ms(name) > _DAY_MS
        if name in building or not (old or name in failed) or MANIFEST in location.files(name):
            continue
        location.delete(name)
        gone.append(name)
    return gone


def _began_ms(id: str) -> int:
    """When it was asked for by its name; long ago by one that says no time."""
    try:
        moment = datetime.strptime(id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return round(moment.timestamp() * 1000)
