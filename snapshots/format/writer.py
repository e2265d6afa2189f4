"""Writing a snapshot: the parts first, the manifest last, so that what is half written is no snapshot.

A job of several tasks writes the parts of each task's rows (:func:`write_run`), brings together what was
written (:func:`unite`) and publishes it (:func:`publish`). For the same parts as of one run over all rows,
every task's rows must begin with a key that begins a part (:func:`.parts.begins_part`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from registry.domain.log_format.lineage import NOTHING, Lineage
from registry.domain.rows import digest

from .location import Location
from .manifest import FORMAT, MANIFEST, Manifest, Part
from .parts import Row, cut, part_of

_AT_ONCE = 3
"""Parts that are being packed and written, and held as rows: places far away take their time."""


class About(NamedTuple):
    """What a manifest says besides its rows; see :class:`.manifest.Manifest`."""

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


class Written(NamedTuple):
    """What the parts of some rows hold."""

    parts: list[Part]
    counts: dict[str, int]
    """Rows by the letter of their table."""
    digest: int


class Overlapping(Exception):
    """Two runs have rows in common, or lie among one another: what split them is broken."""


def write_run(location: Location, id: str, rows: Iterable[Sequence[Row]]) -> Written:
    """Write the parts of rows in key order, given in batches. May be done again: the files are the same.

    Raises :class:`.location.LocationUnreachable`.
    """
    counts: Counter[bytes] = Counter()
    total = digest.EMPTY

    def counted() -> Iterator[Sequence[Row]]:
        nonlocal total
        for batch in filter(None, rows):
            total = (total + digest.total(batch)) % digest.MODULUS
            first, last = batch[0][0][:1], batch[-1][0][:1]
            # Rows are in the order of their keys, which begin with the letter of their table.
            if first == last:
                counts[first] += len(batch)
            else:
                counts.update([key[:1] for key, _ in batch])
            yield batch

    with _Writing(location, id) as writing:
        for part in cut(counted()):
            writing.put(part)
    return Written(writing.parts, {table.decode(): count for table, count in counts.items()}, total)


class _Writing:
    """Makes and writes parts in threads, while further rows come; when its block ends, all are written."""

    def __init__(self, location: Location, id: str) -> None:
        self.parts: list[Part] = []
        self._location, self._id = location, id
        self._threads = ThreadPoolExecutor(_AT_ONCE, "write")
        self._under_way: deque[Future[Part]] = deque()

    def put(self, rows: list[Row]) -> None:
        """Have a part written. Raises what went wrong with an earlier one."""
        if len(self._under_way) == _AT_ONCE:
            self._finish_first()
        self._under_way.append(self._threads.submit(self._write, rows))

    def _write(self, rows: list[Row]) -> Part:
        part, content = part_of(rows)
        self._location.write(f"{self._id}/{part.name}", content)
        return part

    def _finish_first(self) -> None:
        self.parts.append(self._under_way.popleft().result())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=error is not None)
        while error is None and self._under_way:
            self._finish_first()


def unite(runs: Iterable[Written]) -> Written:
    """What several runs hold together, in whatever order they come. Raises :class:`Overlapping`."""
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
            raise Overlapping(f"{before.name} and {after.name} have keys among one another")
    return Written(parts, dict(counts), digest.united(digests))


def publish(location: Location, about: About, written: Written) -> Manifest:
    """Write the manifest over parts that are there. Raises :class:`.location.LocationUnreachable`."""
    manifest = Manifest(
        **about._asdict(),
        format=FORMAT,
        counts=dict(sorted(written.counts.items())),
        digest=written.digest,
        parts=tuple(written.parts),
    )
    location.write(f"{about.id}/{MANIFEST}", manifest.dumps())
    return manifest


def seal(location: Location, about: About, rows: Iterable[Sequence[Row]]) -> Manifest:
    """Write a whole snapshot from rows in key order. Raises :class:`.location.LocationUnreachable`."""
    return publish(location, about, write_run(location, about.id, rows))
