"""Applying changes to the rows of a base, both in key order, without touching unchanged rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from .columns import Columns, KeysOf, columns_of, united, without_deletions
from .tallying import Tally


def fresh(batches: Iterable[Columns]) -> Iterator[Columns]:
    """Return the rows that result from applying changes to an empty base."""
    return map(without_deletions, batches)


def spliced(base: Iterable[Columns], batches: Iterable[Columns], tally: Tally) -> Iterator[Columns]:
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
            self._tally.gone(key, self._piece.values[at].as_py())
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
        return united(self._out) if self._out else self._piece.slice(0, 0)
