"""Writing the parts of ranges of keys: the base's rows in them, if there is a base, with their changes."""

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
from snapshots.format.stored import read_part

from .base_parts import columns_of_part
from .chunks import merged
from .columns import Columns, ColumnWriter, KeysOf
from .merging import fresh, spliced
from .tallying import Tally

_ANSWER = pa.schema([("answer", pa.binary())])
FIELDS = "answer binary"


class Unit(NamedTuple):
    """Keys from ``low`` up to ``high``, which both begin a part in the snapshot that is made."""

    low: bytes
    high: bytes | None
    """``None``: to the end."""
    parts: tuple[Part, ...]
    """Of the base, as far as they have such keys."""
    weight: int
    """Roughly, bytes to write."""


Range = tuple[Unit, ...]
"""Units behind one another, written by one task."""


class Plan(NamedTuple):
    """What all tasks that write need to know."""

    uri: str
    id: str
    base: str
    """Id of the base, if there is one."""
    ranges: tuple[Range, ...]


class Answer(msgspec.Struct, frozen=True):
    """What was written of a range."""

    parts: list[Part]
    gone: bytes
    """The tally of the base's rows that are not there any more, or are others."""


decode = msgspec.msgpack.Decoder(Answer).decode
_encode = msgspec.msgpack.Encoder().encode


def write(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From (number of a range, first key and data of a chunk), sorted, to answers.

    A range without chunks has a line without data. It may be done again: the files are the same.
    """
    location = Location.parse(plan.uri)
    for number, lines in groupby(_lines(batches), key=itemgetter(0)):
        chunks = ((first, data) for _, first, data in lines if data is not None)
        answer = write_range(location, plan, plan.ranges[number], chunks)
        yield pa.record_batch([pa.array([_encode(answer)], pa.binary())], schema=_ANSWER)


def _lines(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes, bytes | None]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def write_range(
    location: Location, plan: Plan, units: Range, chunks: Iterable[tuple[bytes, bytes]]
) -> Answer:
    """Write the parts of one range; ``chunks`` as for :func:`.chunks.merged`."""
    changes = _Feed(merged(chunks, units[0].low, units[-1].high))
    tally = Tally()
    parts: list[Part] = []
    for unit in units:
        ahead = changes.upto(unit.high)
        first = list(islice(ahead, 1))
        if first or not _whole(unit):
            parts += _merge(location, plan, unit, _chained(first, ahead), tally)
        else:
            parts += (_copy(location, plan, part) for part in unit.parts)
    return Answer(parts, tally.dumps())


def _chained(first: Sequence[Columns], others: Iterable[Columns]) -> Iterator[Columns]:
    yield from first
    yield from others


def _whole(unit: Unit) -> bool:
    """Whether the parts lie within the unit, so that without changes they stay as they are."""
    inside = (unit.low <= part.first and (unit.high is None or part.last < unit.high) for part in unit.parts)
    return all(inside)


def _copy(location: Location, plan: Plan, part: Part) -> Part:
    location.write(f"{plan.id}/{part.name}", read_part(location, plan.base, part))
    return part


def _merge(
    location: Location, plan: Plan, unit: Unit, changes: Iterable[Columns], tally: Tally
) -> list[Part]:
    writer = ColumnWriter(lambda name, content: location.write(f"{plan.id}/{name}", content))
    base = _clipped(location, plan, unit)
    for rows in spliced(base, changes, tally) if unit.parts else fresh(changes):
        writer.add(rows)
    return writer.finish()


def _clipped(location: Location, plan: Plan, unit: Unit) -> Iterator[Columns]:
    for part in unit.parts:
        rows = columns_of_part(location, plan.base, part)
        keys = KeysOf(rows.keys)
        begin = bisect_left(keys, unit.low)
        end = len(keys) if unit.high is None else bisect_left(keys, unit.high)
        if begin < end:
            yield rows.slice(begin, end)


class _Feed:
    """Changes in batches, to be taken up to one key after another; what was not taken is passed over."""

    def __init__(self, batches: Iterator[Columns]) -> None:
        self._batches = batches
        self._left: Columns | None = None

    def upto(self, high: bytes | None) -> Iterator[Columns]:
        """The changes before ``high`` that are still to come."""
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
