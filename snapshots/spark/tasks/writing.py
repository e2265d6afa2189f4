"""Writing the parts of ranges of keys: the base's rows, if there is a base, with their changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

import msgspec
import pyarrow as pa

from snapshots.format.location import Location
from snapshots.format.manifest import Part
from snapshots.format.stored import copy_part

from .chunks import Shared, merge
from .columns import (
    Columns,
    ColumnWriter,
    KeysOf,
    columns_of,
    columns_of_part,
    concatenate,
    without_deletions,
)
from .summaries import Tally


def fresh(batches: Iterable[Columns]) -> Iterator[Columns]:
    """Return the rows that result from applying changes to an empty base."""
    return map(without_deletions, batches)


def splice(base: Iterable[Columns], batches: Iterable[Columns], tally: Tally) -> Iterator[Columns]:
    """Yield the rows of ``base`` with the changes, piece by piece; rows that leave ``base`` are tallied.

    The pieces of ``base`` must not be empty.
    """
    changes = _Changes(batches)
    for piece in base:
        splice = _Splice(piece, tally)
        last = piece.keys[len(piece.keys) - 1].as_py()
        for key, value in changes.upto(last):
            splice.change(key, value)
        yield splice.finish()
    yield from fresh(changes.rest())


class _Changes:
    """Changes one by one, with a lookahead."""

    def __init__(self, batches: Iterable[Columns]) -> None:
        self._batches = iter(batches)
        self._rows: list[tuple[bytes, bytes | None]] = []
        self._at = 0

    def upto(self, last: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the changes up to and including the key ``last``."""
        while self._fill():
            if self._rows[self._at][0] > last:
                return
            self._at += 1
            yield self._rows[self._at - 1]

    def rest(self) -> Iterator[Columns]:
        """Yield all other changes."""
        if self._at < len(self._rows):
            yield columns_of(dict(self._rows[self._at :]))
        yield from self._batches

    def _fill(self) -> bool:
        while self._at == len(self._rows):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._rows = list(zip(batch.keys.to_pylist(), batch.values.to_pylist(), strict=True))
            self._at = 0
        return True


class _Splice:
    """One piece of the base while changes are applied to it."""

    def __init__(self, piece: Columns, tally: Tally) -> None:
        self._piece, self._tally = piece, tally
        self._keys = KeysOf(piece.keys)
        self._at = 0
        self._out: list[Columns] = []
        self._new: dict[bytes, bytes | None] = {}

    def change(self, key: bytes, value: bytes | None) -> None:
        at = bisect_left(self._keys, key, self._at)
        self._keep(at)
        if at < len(self._keys) and self._keys[at] == key:
            self._tally.remove(key, self._piece.values[at].as_py())
            self._at = at + 1
        if value is not None:
            self._new[key] = value

    def _keep(self, upto: int) -> None:
        """Keep the rows of the base from the current one up to ``upto``."""
        if upto == self._at:
            return
        self._write_new()
        self._out.append(self._piece.slice(self._at, upto))
        self._at = upto

    def _write_new(self) -> None:
        if self._new:
            self._out.append(columns_of(self._new))
            self._new = {}

    def finish(self) -> Columns:
        self._keep(len(self._keys))
        self._write_new()
        return concatenate(self._out) if self._out else self._piece.slice(0, 0)


_ANSWER = pa.schema([("answer", pa.binary())])
FIELDS = "answer binary"


class Unit(NamedTuple):
    """Keys from ``low`` up to ``high``, which both begin a part in the new snapshot."""

    low: bytes
    # ``None`` for the end.
    high: bytes | None
    # Parts of the base that have such keys.
    parts: tuple[Part, ...]
    # Bytes to write, roughly.
    weight: int


# Adjacent units, written by one task.
Range = tuple[Unit, ...]


class Plan(NamedTuple):
    """The plan that all writing tasks share."""

    uri: str
    id: str
    # Id of the base; empty for none.
    base: str
    ranges: tuple[Range, ...]


class WrittenRange(msgspec.Struct, frozen=True):
    """The parts of a range."""

    parts: list[Part]
    # Tally of the base's rows that were removed or replaced.
    gone: bytes


decode = msgspec.msgpack.Decoder(WrittenRange).decode
_encode = msgspec.msgpack.Encoder().encode


def write(shared: Shared[Plan], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write ranges, given as sorted lines of range number, and first key and data of a piece.

    A range without changes has one line without data. Repeatable: the files are the same.
    """
    plan = shared.value
    location = Location.parse(plan.uri)
    for number, lines in groupby(_lines(batches), key=itemgetter(0)):
        pieces = ((first, data) for _, first, data in lines if data is not None)
        answer = write_range(location, plan, plan.ranges[number], pieces)
        yield pa.record_batch([pa.array([_encode(answer)], pa.binary())], schema=_ANSWER)


def _lines(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes, bytes | None]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def write_range(
    location: Location, plan: Plan, units: Range, pieces: Iterable[tuple[bytes, bytes]]
) -> WrittenRange:
    """Write the parts of one range; ``pieces`` as for :func:`.chunks.merged`."""
    changes = _Feed(merge(pieces))
    tally = Tally()
    parts: list[Part] = []
    for unit in units:
        ahead = changes.upto(unit.high)
        first = list(islice(ahead, 1))
        if first or not _whole(unit):
            parts += _merge(location, plan, unit, _chain(first, ahead), tally)
        else:
            for part in unit.parts:
                copy_part(location, plan.base, part, plan.id)
            parts += unit.parts
    return WrittenRange(parts, tally.dumps())


def _chain(first: Sequence[Columns], others: Iterable[Columns]) -> Iterator[Columns]:
    yield from first
    yield from others


def _whole(unit: Unit) -> bool:
    """Return whether the parts lie within the unit, so that without changes they stay as they are."""
    inside = (unit.low <= part.first and (unit.high is None or part.last < unit.high) for part in unit.parts)
    return all(inside)


def _merge(
    location: Location, plan: Plan, unit: Unit, changes: Iterable[Columns], tally: Tally
) -> list[Part]:
    writer = ColumnWriter(lambda name, content: location.write(f"{plan.id}/{name}", content))
    base = _clip(location, plan, unit)
    for rows in splice(base, changes, tally) if unit.parts else fresh(changes):
        writer.add(rows)
    return writer.finish()


def _clip(location: Location, plan: Plan, unit: Unit) -> Iterator[Columns]:
    for part in unit.parts:
        rows = columns_of_part(location, plan.base, part)
        keys = KeysOf(rows.keys)
        begin = bisect_left(keys, unit.low)
        end = len(keys) if unit.high is None else bisect_left(keys, unit.high)
        if begin < end:
            yield rows.slice(begin, end)


class _Feed:
    """Changes in batches, taken up to one key after another; changes that are not taken are skipped."""

    def __init__(self, batches: Iterator[Columns]) -> None:
        self._batches = batches
        self._left: Columns | None = None

    def upto(self, high: bytes | None) -> Iterator[Columns]:
        """Yield the remaining changes before ``high``."""
        while (batch := self._next()) is not None:
            end = len(batch.keys) if high is None else bisect_left(KeysOf(batch.keys), high)
            if end < len(batch.keys):
                self._left = batch.slice(end, len(batch.keys))
            if end:
                yield batch.slice(0, end)
            if self._left is not None:
                return

    def _next(self) -> Columns | None:
        batch, self._left = self._left, None
        return next(self._batches, None) if batch is None else batch
