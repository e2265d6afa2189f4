"""Writing a snapshot: the parts first, the manifest last, so that an unfinished folder is not a snapshot.

A job of several tasks writes the parts of each task's rows (:func:`write_run`), merges the results
(:func:`merge_runs`) and publishes them (:func:`publish`). To get the same parts as from one run over all
rows, every task's rows must begin with a key that begins a part (:func:`.parts.begins_part`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.rows import digest

from .files import MissingFile
from .location import Location
from .manifest import DELTA_FORMAT, FORMAT, MANIFEST, SIGNATURE, Delta, Manifest, Part
from .parts import Row, cut, part_of
from .verify import RowProgress, read_back

# Parts that are compressed and written, and held in memory, at the same time: remote locations are slow.
_PARTS_AT_ONCE = 3


class ManifestHeader(NamedTuple):
    """The fields of a manifest that do not describe its rows; see :class:`.manifest.Manifest`."""

    id: str
    fold: int
    log: str
    offset: int
    comparable_from: int
    at_end_ms: int
    created_ms: int
    engine: str
    base: str = ""
    lineage: Lineage = NOTHING
    keyset: str = ""


class WrittenRows(NamedTuple):
    """The parts of some rows, with the rows' counts and digest."""

    parts: list[Part]
    # Number of rows by the letter of their table.
    counts: dict[str, int]
    digest: int


class OverlappingRuns(Exception):
    """Two runs share keys or interleave: the code that split the rows is wrong."""


def write_run(
    location: Location,
    id: str,
    rows: Iterable[Sequence[Row]],
    progress: RowProgress | None = None,
    base: Manifest | None = None,
) -> WrittenRows:
    """Write the parts of rows in key order, given in batches. Repeatable: the files are the same.

    Parts that are parts of the full snapshot ``base``, too, are copied from there within the location.
    Counts and digest are those of the rows that the files hold: they are read again at the end, which
    ``progress`` reports. Raises :class:`.files.LocationUnreachable`, and :class:`.stored.UnusableSnapshot` if
    a file is not what was written.
    """
    with _PartWriter(location, id, base) as writer:
        for part in cut(rows):
            writer.put(part)
    held = read_back(location, id, writer.parts, progress)
    return WrittenRows(writer.parts, held.tables, held.digest)


class _PartWriter:
    """Encodes and writes parts in threads while further rows arrive; all are written when its block ends."""

    def __init__(self, location: Location, id: str, base: Manifest | None) -> None:
        self.parts: list[Part] = []
        self._location, self._id = location, id
        self._base, self._known = (base.folder, frozenset(base.parts)) if base else ("", frozenset[Part]())
        self._threads = ThreadPoolExecutor(_PARTS_AT_ONCE, "write")
        self._pending: deque[Future[Part]] = deque()

    def put(self, rows: list[Row]) -> None:
        """Queue a part for writing. Raises the error of an earlier one."""
        if len(self._pending) == _PARTS_AT_ONCE:
            self._finish_first()
        self._pending.append(self._threads.submit(self._write, rows))

    def _write(self, rows: list[Row]) -> Part:
        part, content = part_of(rows)
        name = f"{self._id}/{part.name}"
        if part not in self._known or not self._copy(part, name):
            self._location.write(name, content)
        return part

    def _copy(self, part: Part, name: str) -> bool:
        try:
            return self._location.copy(f"{self._base}/{part.name}", name)
        except MissingFile:
            return False

    def _finish_first(self) -> None:
        self.parts.append(self._pending.popleft().result())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=error is not None)
        while error is None and self._pending:
            self._finish_first()


def merge_runs(runs: Iterable[WrittenRows]) -> WrittenRows:
    """Return the total of several runs, given in any order. Raises :class:`OverlappingRuns`."""
    counts: Counter[str] = Counter()
    parts: list[Part] = []
    digests: list[int] = []
    for run in runs:
        counts.update(run.counts)
        parts += run.parts
        digests.append(run.digest)
    parts.sort(key=lambda part: part.first)
    for before, after in pairwise(parts):
        if before.last >= after.first:
            raise OverlappingRuns(f"the keys of {before.name} and {after.name} overlap")
    return WrittenRows(parts, dict(counts), digest.combine(digests))


def publish(
    location: Location,
    header: ManifestHeader,
    written: WrittenRows,
    full: str = "",
    deltas: Sequence[Delta] = (),
) -> Manifest:
    """Write the manifest of parts that are already written, and its signature if the location has a key.

    With ``deltas``, the parts are those of the snapshot ``full``. Raises :class:`.files.LocationUnreachable`.
    """
    manifest = Manifest(
        **header._asdict(),
        format=DELTA_FORMAT if deltas else FORMAT,
        counts=dict(sorted(written.counts.items())),
        digest=written.digest,
        parts=tuple(written.parts),
        full=full,
        deltas=tuple(deltas),
    )
    content = manifest.dumps()
    if location.keys.current:
        location.write(f"{header.id}/{SIGNATURE}", location.keys.sign(content))
    location.write(f"{header.id}/{MANIFEST}", content)
    return manifest
