"""Looking up a few rows of a part without reading all of its file.

The file of a part is a series of batches, each of which has its keys before its values. So the keys are read
range by range, and the values of a batch only when one of them is needed. Such ranges have no hash: code
that derives something from them needs another way to detect wrong rows, such as the digest of the whole.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from registry.domain.lru import Lru

from .ipc import BadStream, Extent, extent_at
from .manifest import Part
from .parts import BadPart, read_batches

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
