"""The rows of a snapshot as a view that reads only what is asked for.

The file of a part is a series of batches, each of which has its keys before its values. So the keys are read
range by range, and the values of a batch only when one of them is needed. Such ranges have no hash: code
that derives something from them needs another way to detect wrong rows, such as the digest of the whole.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from registry.domain.lru import Lru
from registry.domain.rows.view import Block, History
from snapshots.format.files import MissingFile
from snapshots.format.ipc import BadStream, Extent, extent_at
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, Part
from snapshots.format.parts import BadPart, read_batches
from snapshots.format.stored import UnusableSnapshot

# Bytes that are read where a batch begins: its header, and usually all of its keys.
_AHEAD = 32 << 10
# No header of a batch of two columns is longer.
_HEADER = 1 << 10
# Batches whose values are kept.
_VALUES_MAX = 4
_END = struct.pack("<II", 0xFFFFFFFF, 0)

# Returns bytes of the file: from an offset on, so many.
ReadRange = Callable[[int, int], bytes]


class _Batch(NamedTuple):
    extent: Extent
    # Number of its first row in the part.
    first: int


class SparsePart:
    """The rows of one part; ``changes``: of one file of a delta.

    Every method raises :class:`.parts.BadPart`, and the errors of ``read``.
    """

    def __init__(self, part: Part, read: ReadRange, *, changes: bool = False) -> None:
        self._part, self._read, self._changes = part, read, changes
        self._content = bytearray(part.size)
        self._known: list[tuple[int, int]] = []
        self._values = Lru[int, Any](_VALUES_MAX)
        try:
            extents = list(self._extents())
        except BadStream as error:
            raise BadPart(f"it cannot be read: {error}") from error
        batches = list(read_batches(self._content, only_keys=True, changes=changes))
        self.keys: Sequence[bytes] = [key for batch in batches for key in batch.column(0).to_pylist()]
        if [len(self.keys), *self.keys[:1], *self.keys[-1:]] != [part.rows, part.first, part.last]:
            raise BadPart("it does not have the rows in its manifest")
        self._schema, *others = extents
        self._batches, rows = list[_Batch](), 0
        for extent, batch in zip(others, batches, strict=True):
            self._batches.append(_Batch(extent, rows))
            rows += batch.num_rows

    def find(self, key: bytes) -> int:
        """Return the index of the first row whose key is ``key`` or greater; the number of rows for none."""
        return bisect_left(self.keys, key)

    def value(self, index: int) -> bytes | None:
        """Return the value of a row."""
        number = bisect_left(self._batches, index + 1, key=lambda batch: batch.first) - 1
        values = self._values.get(number)
        if values is None:
            values = self._values_of(self._batches[number].extent)
            self._values.put(number, values)
        found: bytes | None = values[index - self._batches[number].first].as_py()
        return found

    def _values_of(self, extent: Extent) -> Any:
        self._fetch(extent.begin, extent.end)
        stream = self._content[: self._schema.end] + self._content[extent.begin : extent.end] + _END
        batches = list(read_batches(stream, changes=self._changes))
        return batches[0].column(1)

    def _extents(self) -> Iterator[Extent]:
        """Yield where the schema and each batch are, with their keys read."""
        at, size = 0, self._part.size
        while True:
            self._fetch(at, min(at + _HEADER, size))
            extent = extent_at(self._content, at, min(at + _HEADER, size))
            if extent is None:
                return
            if extent.end > size:
                raise BadStream(f"it ends before byte {extent.end}")
            self._fetch(extent.begin, extent.keys_end)
            yield extent
            at = extent.end

    def _fetch(self, begin: int, end: int) -> None:
        """Read the bytes from ``begin`` to ``end`` that were not read yet, and a few more."""
        for known, upto in self._known:
            if known <= begin < upto:
                begin = upto
        if begin >= end:
            return
        end = min(max(end, begin + _AHEAD), self._part.size)
        read = self._read(begin, end - begin)
        if len(read) != end - begin:
            raise BadPart(f"it ends before byte {begin + len(read)}")
        self._content[begin:end] = read
        self._known.append((begin, end))


# Files whose keys are kept. Records are folded in the order of their owners, so few are read at a time.
_OPEN_MAX = 8


class _Place(NamedTuple):
    """A row in a file."""

    key: bytes
    part: Part
    row: int


class _Layer:
    """The parts of a full snapshot, or the files of one delta."""

    def __init__(self, parts: Sequence[Part], open_part: Callable[[Part], SparsePart]) -> None:
        self._parts, self._open = parts, open_part

    def seek(self, key: bytes) -> _Place | None:
        """Return the first place whose key is ``key`` or greater."""
        number = bisect_left(self._parts, key, key=lambda part: part.last)
        if number == len(self._parts):
            return None
        part = self._parts[number]
        if key <= part.first:
            return _Place(part.first, part, 0)
        rows = self._open(part)
        index = rows.find(key)
        return _Place(rows.keys[index], part, index)

    def value(self, place: _Place) -> bytes | None:
        return self._open(place.part).value(place.row)


@contextmanager
def _errors_translated(part: Part) -> Iterator[None]:
    try:
        yield
    except MissingFile as error:
        raise UnusableSnapshot(f"{part.name} is missing") from error
    except BadPart as error:
        raise UnusableSnapshot(f"{part.name} is damaged: {error}") from error


class SnapshotView:
    """The rows of a snapshot; see :class:`registry.domain.rows.view.View`. The fold reads only forwards.

    What is read of the files is not compared with their hashes .
    Every method raises :class:`snapshots.format.stored.UnusableSnapshot`, and
    :class:`snapshots.format.files.LocationUnreachable`.
    """

    def __init__(self, location: Location, manifest: Manifest) -> None:
        self._location = location
        self._opened = Lru[str, SparsePart](_OPEN_MAX)
        # The newest first.
        self._layers = [
            *(self._layer(delta.snapshot, delta.parts, changes=True) for delta in reversed(manifest.deltas)),
            self._layer(manifest.folder, manifest.parts, changes=False),
        ]

    def _layer(self, folder: str, parts: Sequence[Part], *, changes: bool) -> _Layer:
        return _Layer(parts, lambda part: self._open(folder, part, changes=changes))

    def _open(self, folder: str, part: Part, *, changes: bool) -> SparsePart:
        path = f"{folder}/{part.name}"
        rows = self._opened.get(path)
        if rows is None:
            read = partial(self._location.read_range, path)
            with _errors_translated(part):
                rows = SparsePart(part, read, changes=changes)
            self._opened.put(path, rows)
        return rows

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``."""
        for layer in self._layers:
            place = layer.seek(key)
            if place is not None and place.key == key:
                return self._value(layer, place)
        return None

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the first row whose key is ``key`` or greater."""
        while True:
            places = [(place, layer) for layer in self._layers if (place := layer.seek(key)) is not None]
            if not places:
                return None
            # Of equal keys, the first is that of the newest layer.
            place, layer = min(places, key=lambda each: each[0].key)
            value = self._value(layer, place)
            if value is not None:
                return place.key, value
            key = place.key + b"\0"

    def _value(self, layer: _Layer, place: _Place) -> bytes | None:
        with _errors_translated(place.part):
            return layer.value(place)

    def seek_back(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Refuse: no fold needs it."""
        raise NotImplementedError

    def revision(self) -> None:
        """Return nothing: the rows have no revision."""

    def block(self, key: bytes) -> Block | None:
        """Return nothing: the rows are not counted."""
        return None

    def history(self) -> History | None:
        """Return nothing: a snapshot has no history."""
        return None
