"""Checking a snapshot against its manifest, byte by byte and row by row, without log or cluster."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from registry.domain.rows import digest
from registry.domain.rows.view import Change

from .deltas import ChangeMerger, changes_between, read_changes
from .files import MissingFile
from .location import Location
from .manifest import MANIFEST, BadManifest, Delta, Manifest, Part, delta_name, part_name
from .parts import BadPart, Row, read_batches, rows_of
from .stored import NOT_ANNOUNCED, UnusableSnapshot, read_part, reason_not_trusted

if TYPE_CHECKING:
    import pyarrow as pa

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
    findings = [finding for delta in manifest.deltas for finding in check_delta(location, delta)]
    yield from findings
    totals = Totals(() if findings else changes_between(manifest, partial(read_part, location)))
    totals.damaged = bool(findings)
    for part in manifest.parts:
        yield from check_part(location, manifest.folder, part, totals)
        progress(totals.rows, sum(part.rows for part in manifest.parts))
    totals.finish()
    if not totals.damaged:
        yield from _check_whole(manifest, totals)


class Totals:
    """Totals over the files of the parts checked so far, with changes merged into their rows."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self._merger = ChangeMerger(changes)
        # As the parts' descriptions say; the others are of the rows in the files.
        self.rows = 0
        self.counts: Counter[bytes] = Counter()
        self.digest = digest.EMPTY
        self.damaged = False

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of a file."""
        self.add(list(rows_of(batch)))

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        for changed in self._merger.merge(rows):
            self._add(changed)

    def finish(self) -> None:
        """Add the rows that follow those of all files."""
        for rows in self._merger.rest():
            self._add(rows)

    def _add(self, rows: Sequence[Row]) -> None:
        self.digest = (self.digest + digest.total(rows)) % digest.MODULUS
        self.counts.update([key[:1] for key, _ in rows])

    @property
    def tables(self) -> dict[str, int]:
        """Number of rows by the letter of their table."""
        # Tables have letters of ASCII; forged keys may begin with any byte.
        return {table.decode("latin-1"): count for table, count in self.counts.items()}


def read_back(
    location: Location,
    id: str,
    parts: Iterable[Part],
    progress: RowProgress | None = None,
    totals: Totals | None = None,
) -> Totals:
    """Read parts that a build has written; return what their files hold, added to ``totals``.

    Raises :class:`.stored.UnusableSnapshot` for a file that is not as described.
    """
    parts, totals = list(parts), totals or Totals()
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


def check_delta(location: Location, delta: Delta) -> Iterator[str]:
    """Yield what is wrong with the files of a delta."""
    for part in delta.parts:
        try:
            content = location.read(f"{delta.snapshot}/{part.name}", part.size)
        except MissingFile:
            findings = ["is missing"]
        else:
            findings = list(_file_findings(part, content, delta_name))
            findings = findings or list(_change_findings(part, content))
        for finding in findings:
            yield f"{part.name} of {delta.snapshot} {finding}"


def _change_findings(part: Part, content: bytes) -> Iterator[str]:
    try:
        keys = [key for changes in read_changes(content) for key, _ in changes]
    except BadPart as error:
        yield f"cannot be read: {error}"
    else:
        first, last = (keys[0], keys[-1]) if keys else (b"", b"")
        yield from _key_findings(part, len(keys), first, last)


def _findings(part: Part, content: bytes, totals: Totals) -> Iterator[str]:
    found = list(_file_findings(part, content, part_name))
    yield from found
    if not found:
        try:
            yield from _row_findings(part, content, totals)
        except BadPart as error:
            yield f"cannot be read: {error}"


def _file_findings(part: Part, content: bytes, name: Callable[[str], str]) -> Iterator[str]:
    if len(content) > part.size:
        yield f"has more bytes than the {part.size} that the manifest says"
        return
    if len(content) < part.size:
        yield f"has {len(content)} bytes, but the manifest says {part.size}"
    found = hashlib.sha256(content).hexdigest()
    if found != part.sha256:
        yield f"has the SHA-256 {found}, which is not the one in the manifest"
        return
    if part.name != name(found):
        yield "has a name that does not match its content"


def _row_findings(part: Part, content: bytes, totals: Totals) -> Iterator[str]:
    count, first, last = 0, b"", b""
    for batch in read_batches(content):
        keys = batch.column(0)
        first, last = first or keys[0].as_py(), keys[len(keys) - 1].as_py()
        count += len(keys)
        totals.add_batch(batch)
    yield from _key_findings(part, count, first, last)


def _key_findings(part: Part, count: int, first: bytes, last: bytes) -> Iterator[str]:
    if count != part.rows:
        yield f"has {count} rows, but the manifest says {part.rows}"
    if count and (first, last) != (part.first, part.last):
        yield "does not begin and end with the keys in the manifest"


def _check_whole(manifest: Manifest, totals: Totals) -> Iterator[str]:
    if totals.tables != manifest.counts:
        yield f"the numbers of rows by table are {totals.tables}, not those in the manifest"
    if totals.digest != manifest.digest:
        found, said = digest.text(totals.digest), digest.text(manifest.digest)
        yield f"the rows have the digest {found}, but the manifest says {said}"
