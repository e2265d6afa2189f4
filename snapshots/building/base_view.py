"""The rows of a snapshot as a view that reads only what is asked for, for folding a few records upon it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from registry.domain.lru import Lru
from registry.domain.rows.view import Block, History
from snapshots.format.files import MissingFile
from snapshots.format.location import Location
from snapshots.format.manifest import Manifest, Part
from snapshots.format.parts import BadPart
from snapshots.format.sparse import SparsePart
from snapshots.format.stored import UnusableSnapshot

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

    What is read of the files is not compared with their hashes (:mod:`snapshots.format.sparse`). Every method
    raises :class:`snapshots.format.stored.UnusableSnapshot`, and
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
