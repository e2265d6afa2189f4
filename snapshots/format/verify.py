"""Holding a snapshot to its manifest, byte by byte and row by row. Needs neither log nor cluster."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from registry.domain.rows import digest

from .location import Location, Missing
from .manifest import MANIFEST, BadManifest, Manifest, Part, part_name
from .parts import BadPart, read_rows

Progress = Callable[[int, int], None]
"""Called with the rows seen so far, and how many there are."""


def verify(location: Location, id: str, progress: Progress) -> Iterator[str]:
    """What is wrong with a snapshot, each a sentence that names the file; nothing when it is sound.

    Raises :class:`.location.LocationUnreachable`, which says nothing of the snapshot.
    """
    try:
        manifest = Manifest.loads(location.read(f"{id}/{MANIFEST}"))
    except Missing:
        yield f"{MANIFEST} is missing: the snapshot is not finished, or half removed"
        return
    except BadManifest as error:
        yield f"{MANIFEST} cannot be used: {error}"
        return
    if manifest.id != id:
        yield f"{MANIFEST} is that of the snapshot {manifest.id}"
    seen = _Seen()
    for part in manifest.parts:
        yield from _check_part(location, id, part, seen)
        progress(seen.rows, manifest.rows)
    if not seen.damaged:
        yield from _check_whole(manifest, seen)


class _Seen:
    """What the parts held so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.counts: Counter[bytes] = Counter()
        self.digest = digest.EMPTY
        self.damaged = False


def _check_part(location: Location, id: str, part: Part, seen: _Seen) -> Iterator[str]:
    seen.rows += part.rows
    try:
        content = location.read(f"{id}/{part.name}")
    except Missing:
        findings = ["is missing"]
    else:
        findings = list(_findings(part, content, seen))
    seen.damaged = seen.damaged or bool(findings)
    for finding in findings:
        yield f"{part.name} {finding}"


def _findings(part: Part, content: bytes, seen: _Seen) -> Iterator[str]:
    if len(content) != part.size:
        yield f"has {len(content)} bytes, not the {part.size} that the manifest says"
    found = hashlib.sha256(content).hexdigest()
    if found != part.sha256:
        yield f"has the SHA-256 {found}, not the one that the manifest says"
        return
    if part.name != part_name(found):
        yield "does not have the name that follows from its content"
    try:
        yield from _row_findings(part, content, seen)
    except BadPart as error:
        yield f"cannot be read: {error}"


def _row_findings(part: Part, content: bytes, seen: _Seen) -> Iterator[str]:
    keys: list[bytes] = []
    for rows in read_rows(content):
        keys += [key for key, _ in rows]
        seen.digest = (seen.digest + digest.total(rows)) % digest.MODULUS
    seen.counts.update([key[:1] for key in keys])
    if len(keys) != part.rows:
        yield f"has {len(keys)} rows, not the {part.rows} that the manifest says"
    if keys and (keys[0], keys[-1]) != (part.first, part.last):
        yield "does not begin and end with the keys that the manifest says"
    if any(before >= after for before, after in pairwise(keys)):
        yield "has rows out of the order of their keys"


def _check_whole(manifest: Manifest, seen: _Seen) -> Iterator[str]:
    counts = {table.decode(): count for table, count in seen.counts.items()}
    if counts != manifest.counts:
        yield f"the rows by table are {counts}, not those that the manifest says"
    if seen.digest != manifest.digest:
        found, said = digest.text(seen.digest), digest.text(manifest.digest)
        yield f"the rows have the digest {found}, and the manifest says {said}"
