"""Checking a snapshot against its manifest, byte by byte and row by row, without log or cluster."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from registry.domain.rows import digest

from .files import MissingFile
from .location import Location
from .manifest import MANIFEST, BadManifest, Manifest, Part, part_name
from .parts import BadPart, read_rows
from .stored import NOT_ANNOUNCED, UnusableSnapshot, reason_not_trusted

# Called with the number of rows seen so far, and of all rows.
RowProgress = Callable[[int, int], None]


def verify(location: Location, id: str, progress: RowProgress, announced: str = "") -> Iterator[str]:
    """Yield what is wrong with a snapshot, as sentences that name the file; nothing if it is sound.

    ``announced``: the hash of its manifest in the catalogue, if that has one. Raises
    :class:`.files.LocationUnreachable`, which says nothing about the snapshot.
    """
    try:
        content = location.read(f"{id}/{MANIFEST}")
        if announced and hashlib.sha256(content).hexdigest() != announced:
            yield f"{MANIFEST} {NOT_ANNOUNCED}"
        if why := reason_not_trusted(location, id, content):
            yield f"{MANIFEST} {why}"
        manifest = Manifest.loads(content)
    except MissingFile:
        yield f"{MANIFEST} is missing: the snapshot is not finished, or half deleted"
        return
    except BadManifest as error:
        yield f"{MANIFEST} cannot be used: {error}"
        return
    if manifest.id != id:
        yield f"{MANIFEST} is that of the snapshot {manifest.id}"
    totals = Totals()
    for part in manifest.parts:
        yield from check_part(location, id, part, totals)
        progress(totals.rows, manifest.rows)
    if not totals.damaged:
        yield from _check_whole(manifest, totals)


class Totals:
    """Totals over the files of the parts checked so far."""

    def __init__(self) -> None:
        # As the parts' descriptions say; the others are of the rows in the files.
        self.rows = 0
        self.counts: Counter[bytes] = Counter()
        self.digest = digest.EMPTY
        self.damaged = False

    @property
    def tables(self) -> dict[str, int]:
        """Number of rows by the letter of their table."""
        # Tables have letters of ASCII; forged keys may begin with any byte.
        return {table.decode("latin-1"): count for table, count in self.counts.items()}


def read_back(location: Location, id: str, parts: Iterable[Part], progress: RowProgress | None) -> Totals:
    """Read parts that a build has written; return what their files hold.

    Raises :class:`.stored.UnusableSnapshot` for a file that is not as described.
    """
    parts, totals = list(parts), Totals()
    total = sum(part.rows for part in parts)
    for part in parts:
        for finding in check_part(location, id, part, totals):
            raise UnusableSnapshot(finding)
        if progress is not None:
            progress(totals.rows, total)
    return totals


def check_part(location: Location, id: str, part: Part, totals: Totals) -> Iterator[str]:
    """Yield what is wrong with a part's file, and add its rows to ``totals``."""
    totals.rows += part.rows
    try:
        content = location.read(f"{id}/{part.name}", part.size)
    except MissingFile:
        findings = ["is missing"]
    else:
        findings = list(_findings(part, content, totals))
    totals.damaged = totals.damaged or bool(findings)
    for finding in findings:
        yield f"{part.name} {finding}"


def _findings(part: Part, content: bytes, totals: Totals) -> Iterator[str]:
    if len(content) > part.size:
        yield f"has more bytes than the {part.size} that the manifest says"
        return
    if len(content) < part.size:
        yield f"has {len(content)} bytes, but the manifest says {part.size}"
    found = hashlib.sha256(content).hexdigest()
    if found != part.sha256:
        yield f"has the SHA-256 {found}, which is not the one in the manifest"
        return
    if part.name != part_name(found):
        yield "has a name that does not match its content"
    try:
        yield from _row_findings(part, content, totals)
    except BadPart as error:
        yield f"cannot be read: {error}"


def _row_findings(part: Part, content: bytes, totals: Totals) -> Iterator[str]:
    keys: list[bytes] = []
    for rows in read_rows(content):
        keys += [key for key, _ in rows]
        totals.digest = (totals.digest + digest.total(rows)) % digest.MODULUS
    totals.counts.update([key[:1] for key in keys])
    if len(keys) != part.rows:
        yield f"has {len(keys)} rows, but the manifest says {part.rows}"
    if keys and (keys[0], keys[-1]) != (part.first, part.last):
        yield "does not begin and end with the keys in the manifest"


def _check_whole(manifest: Manifest, totals: Totals) -> Iterator[str]:
    if totals.tables != manifest.counts:
        yield f"the numbers of rows by table are {totals.tables}, not those in the manifest"
    if totals.digest != manifest.digest:
        found, said = digest.text(totals.digest), digest.text(manifest.digest)
        yield f"the rows have the digest {found}, but the manifest says {said}"
