"""Reading and listing the snapshots in a location."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime

from .files import MissingFile
from .location import Location
from .manifest import (
    MANIFEST,
    SIGNATURE,
    SIGNATURE_BYTES_MAX,
    BadManifest,
    Delta,
    Manifest,
    Part,
    UnknownFormat,
    is_id,
)

LATEST = "latest"
# Said of a manifest whose hash is not the one in the catalogue.
NOT_ANNOUNCED = "is not the one that the catalogue announced: it was damaged or replaced"
NOT_SIGNED = "is not signed, but snapshots_key is set"
WRONGLY_SIGNED = "is signed with another key than snapshots_key, or was changed after it was signed"
_DAY_MS = 86_400_000


class UnusableSnapshot(Exception):
    """The snapshot does not match its manifest, or is incomplete; the text ends a sentence about it."""


class UnsealedSnapshot(UnusableSnapshot):
    """The snapshot has no manifest, or none that is signed: it may be under way, or be somebody else's."""


class SnapshotNotFound(Exception):
    """The named snapshot does not exist or cannot be read; the text says which do."""


def read_manifest(location: Location, id: str, sha256: str = "") -> Manifest:
    """Return a snapshot's manifest; ``sha256``: the hash of its file in the catalogue, if that has one.

    Raises :class:`UnusableSnapshot`, and :class:`.files.LocationUnreachable`, which says nothing about the
    snapshot.
    """
    try:
        content = location.read(f"{id}/{MANIFEST}")
        if sha256 and hashlib.sha256(content).hexdigest() != sha256:
            raise UnusableSnapshot(f"its manifest {NOT_ANNOUNCED}")
        if why := reason_not_trusted(location, id, content):
            raise (UnsealedSnapshot if why == NOT_SIGNED else UnusableSnapshot)(f"its manifest {why}")
        manifest = Manifest.loads(content)
    except MissingFile as error:
        raise UnsealedSnapshot(
            f"{location} has no manifest of it: it is not finished, or half deleted"
        ) from error
    except BadManifest as error:
        raise UnusableSnapshot(f"its manifest cannot be used: {error}") from error
    if manifest.id != id:
        raise UnusableSnapshot(f"its manifest is that of {manifest.id}")
    return manifest


def reason_not_trusted(location: Location, id: str, manifest: bytes) -> str:
    """Return why the content of a manifest may be forged; empty if its signature is right or needs no check.

    The text ends a sentence about it. Raises :class:`.files.LocationUnreachable`.
    """
    if not location.keys.current:
        return ""
    try:
        signature = location.read(f"{id}/{SIGNATURE}", SIGNATURE_BYTES_MAX)
    except MissingFile:
        return NOT_SIGNED
    return "" if location.keys.accept(manifest, signature) else WRONGLY_SIGNED


def read_part(location: Location, id: str, part: Part) -> bytes:
    """Return the content of a part's file after checking its hash. Raises as :func:`read_manifest`."""
    try:
        content = location.read(f"{id}/{part.name}", part.size)
    except MissingFile as error:
        raise UnusableSnapshot(f"{part.name} is missing") from error
    if len(content) > part.size:
        raise UnusableSnapshot(f"{part.name} has more bytes, but its manifest says {part.size}")
    if len(content) < part.size:
        raise UnusableSnapshot(f"{part.name} has {len(content)} bytes, but its manifest says {part.size}")
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise UnusableSnapshot(f"{part.name} is damaged: its SHA-256 is not the one in its manifest")
    return content


def check_files(location: Location, manifest: Manifest) -> None:
    """Raise :class:`UnusableSnapshot` if a file that a snapshot refers to is gone; nothing is read.

    Raises also :class:`.files.LocationUnreachable`.
    """
    for delta in (Delta(manifest.folder, manifest.parts), *manifest.deltas):
        present = {*location.files(delta.snapshot)}
        for part in delta.parts:
            if part.name not in present:
                raise UnusableSnapshot(f"{part.name} of {delta.snapshot} is missing")


def copy_part(location: Location, id: str, part: Part, new_id: str) -> None:
    """Make a part a part of another snapshot, too; its bytes move only where the location cannot copy them.

    Raises as :func:`read_manifest`.
    """
    old, new = f"{id}/{part.name}", f"{new_id}/{part.name}"
    try:
        if not location.copy(old, new):
            location.write(new, read_part(location, id, part))
    except MissingFile as error:
        raise UnusableSnapshot(f"{part.name} is missing") from error


def names(location: Location) -> list[str]:
    """Return the folders that are, were or will be snapshots, the newest first.

    Raises :class:`.files.LocationUnreachable`.
    """
    return [name for name in reversed(location.folders()) if is_id(name)]


def read(location: Location, id: str) -> Manifest:
    """Return the manifest of one snapshot. Raises :class:`SnapshotNotFound`, and as :func:`names`."""
    try:
        return read_manifest(location, id)
    except UnusableSnapshot as error:
        raise SnapshotNotFound(f"{id} is not a snapshot: {error}") from error


def manifests(location: Location) -> Iterator[Manifest]:
    """Yield every manifest that can be read, the newest first. Raises as :func:`names`."""
    for name in names(location):
        try:
            yield read(location, name)
        except SnapshotNotFound:
            continue


def find(location: Location, name: str, on_skipped: Callable[[str], None] = lambda _: None) -> Manifest:
    """Return the snapshot with this id, or the latest. Raises as :func:`read`.

    Newer ones that are not sealed are reported to ``on_skipped``. One that is damaged is an error, because
    nobody who restores the latest shall get an older one without knowing.
    """
    if name != LATEST:
        if not is_id(name):
            raise SnapshotNotFound(f"{name!r} is not the id of a snapshot: see registrar snapshot list")
        return read(location, name)
    found, unusable = list[Manifest](), dict[str, UnusableSnapshot]()
    for each in names(location):
        try:
            found.append(read_manifest(location, each))
        except UnusableSnapshot as error:
            unusable[each] = error
    if not found:
        first = next(iter(unusable), "")
        why = first and f" that can be used: {first} is not a snapshot: {unusable[first]}"
        raise SnapshotNotFound(f"there is no snapshot in {location}{why}")
    latest = max(found, key=lambda manifest: (manifest.offset, manifest.id))
    for each, reason in unusable.items():
        if (_offset_in(each), each) < (latest.offset, latest.id):
            continue
        if not isinstance(reason, UnsealedSnapshot):
            raise SnapshotNotFound(
                f"the latest snapshot, {each}, cannot be used: {reason}. "
                f"To use the one before it, give its id: {latest.id}"
            )
        on_skipped(f"{each} is passed over: {reason}")
    return latest


def _offset_in(id: str) -> int:
    return int(id.split("-")[1])


def holder_of(location: Location, id: str) -> str:
    """Return the id of another snapshot that needs this one's files, or may need them; empty if none does.

    Raises as :func:`names`.
    """
    for name in names(location):
        if name == id:
            continue
        try:
            if id in read_manifest(location, name).needs:
                return name
        except UnusableSnapshot as error:
            if isinstance(error.__cause__, UnknownFormat):
                return name
    return ""


def sweep(location: Location, building: Collection[str], failed: Collection[str], now_ms: int) -> list[str]:
    """Delete what ended builds left behind: folders without a manifest; return their names.

    Deletes the folders of failed builds, and others older than a day except those in ``building``. Every
    step can be repeated. Raises as :func:`names`.
    """
    deleted = []
    for name in names(location):
        old = now_ms - _began_ms(name) > _DAY_MS
        if name in building or not (old or name in failed) or MANIFEST in location.files(name):
            continue
        if holder_of(location, name):
            continue  # Another release, or a person, has deleted its manifest alone.
        location.delete(name)
        deleted.append(name)
    return deleted


def _began_ms(id: str) -> int:
    """Return when a snapshot was requested, according to its id; 0 if the id holds no valid time."""
    try:
        moment = datetime.strptime(id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return round(moment.timestamp() * 1000)
